// SPDX-License-Identifier: MIT OR Apache-2.0
//! The views and formats of the binary, and runs of them.

use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, Stdio};

use super::cases::Files;

/// The form of an output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// Lines. The same number whatever the texts are.
    Text,
    /// Lines that are wrapped: longer texts need more.
    Wrapped,
    /// An object per line.
    Json,
    Svg,
    Png,
    Csv,
    Parquet,
    Perfetto,
    Hlog,
    /// Stacks of flame graph tools.
    Folded,
    /// Samples for Prometheus.
    Metrics,
}

/// A view: its command, and the form of stdout, or of the file OUT.
pub struct View {
    pub command: &'static str,
    pub form: Form,
}

const fn view(command: &'static str, form: Form) -> View {
    View { command, form }
}

/// All views. A and b.nvd are recordings of the driver, guest.nvd and host.nvd of both sides, the others
/// of causes. The name of the file A is hostile, too.
pub const VIEWS: &[View] = &[
    view("latency --from A", Form::Wrapped),
    view("latency --stages=fine --hist -v --color always --from A b.nvd", Form::Wrapped),
    view("latency 400ms --stages --from A", Form::Wrapped),
    view("latency --json --stages=fine -v --from A b.nvd", Form::Json),
    view("latency --stages --by process,comm,disk --from A", Form::Wrapped),
    view("latency --json --by process,comm,disk --from A", Form::Json),
    view("trace --from A", Form::Text),
    view("trace --pair --stages=fine --kstack --color always --from A", Form::Text),
    view("trace --pair --time wall -v --from A b.nvd", Form::Wrapped),
    view("trace --json --pair --kstack --stages=fine --from A b.nvd", Form::Json),
    view("stacks --from A b.nvd", Form::Text),
    view("stacks --color always -v --by latency --from A", Form::Wrapped),
    view("stacks --folded --from A", Form::Folded),
    view("stacks --json --from A b.nvd", Form::Json),
    view("stacks --svg OUT --from A", Form::Svg),
    view("pattern --from A b.nvd", Form::Wrapped),
    view("pattern --hist --color always -v --from A", Form::Wrapped),
    view("pattern --json --from A b.nvd", Form::Json),
    view("pattern --svg OUT --from A", Form::Svg),
    view("heatmap --svg OUT --from A", Form::Svg),
    view("heatmap --png OUT --y lba --ctrl nvme0 --from A", Form::Png),
    view("top 500ms --from A", Form::Text),
    view("top 500ms --color always -v --from A", Form::Wrapped),
    view("diff A b.nvd -v", Form::Wrapped),
    view("diff A b.nvd -v --color always", Form::Wrapped),
    view("diff A b.nvd --json -v", Form::Json),
    view("export A b.nvd --format csv -o -", Form::Csv),
    view("export A b.nvd --format ndjson -o -", Form::Json),
    view("export A --format hlog -o -", Form::Hlog),
    view("export A b.nvd --format parquet -o -", Form::Parquet),
    view("export A --format perfetto -o -", Form::Perfetto),
    view("diagnose -v --color always --from discard-storm.nvd", Form::Wrapped),
    view("diagnose --from flush-cost.nvd", Form::Wrapped),
    view("diagnose --json -v --from discard-storm.nvd", Form::Json),
    view("diagnose --json --from flush-cost.nvd", Form::Json),
    view("diagnose --json --from errors-timeout.nvd", Form::Json),
    view("diagnose --json --from path-failover.nvd", Form::Json),
    view("diagnose --json --from scheduler.nvd", Form::Json),
    view("diagnose --json --from tag-wait.nvd", Form::Json),
    view("host trace --from host.nvd", Form::Text),
    view("host trace -v --from host.nvd", Form::Wrapped),
    view("host trace --json --from host.nvd", Form::Json),
    view("host latency -v --color always --from host.nvd", Form::Wrapped),
    view("host latency --json --from host.nvd", Form::Json),
    view("join guest.nvd host.nvd --clock pairs", Form::Wrapped),
    view("join guest.nvd host.nvd --clock same --color always", Form::Wrapped),
    view("join guest.nvd host.nvd --clock same --json --slowest 9", Form::Json),
    view("join guest.nvd host.nvd --clock same --format perfetto -o OUT", Form::Perfetto),
    view("host annotate spdk.json", Form::Text),
    view("host annotate spdk.json --json", Form::Json),
    view("host import --spdk-trace spdk.json", Form::Wrapped),
    view("host import --spdk-trace spdk.json --json", Form::Json),
    view("host kvm kvm.trace --guest A --ctrl nvme0", Form::Wrapped),
    view("host kvm kvm.trace --guest A --ctrl nvme0 --json", Form::Json),
];

/// Commands that refuse a file A that is missing, or is something else.
pub const REFUSALS: &[View] = &[
    view("latency --from A", Form::Text),
    view("trace --from A", Form::Text),
    view("stacks --from A", Form::Text),
    view("pattern --from A", Form::Text),
    view("top --from A", Form::Text),
    view("diagnose --from A", Form::Text),
    view("heatmap --svg OUT --from A", Form::Text),
    view("diff A b.nvd", Form::Text),
    view("export A --format csv -o -", Form::Text),
    view("export b.nvd --format csv -o A", Form::Text),
    view("host trace --from A", Form::Text),
    view("host annotate A", Form::Text),
    view("host import --spdk-trace A", Form::Text),
    view("join guest.nvd A", Form::Text),
];

/// What a run has left.
pub struct Output {
    pub code: Option<i32>,
    pub signal: Option<i32>,
    /// Stdout, or the file OUT.
    pub shown: Vec<u8>,
    /// What else was written.
    pub said: Vec<u8>,
}

impl Output {
    /// What the library has written.
    pub const fn of(shown: Vec<u8>) -> Self {
        Self { code: Some(0), signal: None, shown, said: vec![] }
    }
}

impl View {
    /// Runs the binary on files. `number` names the file that it writes.
    pub fn run(&self, number: usize, files: &Files) -> Output {
        let dir = files.dir.path();
        let out = dir.join(format!("out-{number}"));
        let name = out.file_name().unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_nvme-deep"));
        for word in self.command.split(' ') {
            command.arg(match word {
                "OUT" => name,
                "A" => files.name.as_ref(),
                word => word.as_ref(),
            });
        }
        command.current_dir(dir).stdin(Stdio::null());
        command.env("COLUMNS", "100").env("TZ", "UTC").env("RUST_BACKTRACE", "0");
        let ran = command.output().unwrap();
        let (mut shown, mut said) = (ran.stdout, ran.stderr);
        if let Ok(file) = fs::read(&out) {
            fs::remove_file(out).unwrap();
            said.append(&mut shown);
            shown = file;
        }
        Output { code: ran.status.code(), signal: ran.status.signal(), shown, said }
    }
}
