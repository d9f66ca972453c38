// SPDX-License-Identifier: MIT OR Apache-2.0
//! Views of what a recording does not have: the machine, targets, commands in flight, the states of a
//! target, metrics.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::time::Duration;

use nvme_deep::doctor::report::DoctorReport;
use nvme_deep::doctor::view as doctor;
use nvme_deep::host::view::{
    MessageRow, messages_json, messages_text, state_json, state_text, targets_json, targets_text,
};
use nvme_deep::inflight::view as inflight;
use nvme_deep::inflight::view::Lookup;
use nvme_deep::machine::System;
use nvme_deep::machine::inflight::report::{CommandLine, InFlight, Seen, Usual};
use nvme_deep::machine::inflight::{StuckAt, StuckState};
use nvme_deep::model::ids::QueueId;
use nvme_deep::nvme::decode::CommandSet;
use nvme_deep::recording::StackInfo;
use nvme_deep::serve::metrics::collect::{Family, Series, Value};
use nvme_deep::serve::metrics::{Format, catalog, encode};
use nvme_deep::target::spdk::probes::{StateChange, Value as StateValue};
use nvme_deep::view::theme::Theme;
use serde_json::{from_value, json};
use tempfile::TempDir;

use super::plant::{Planted, mark};
use super::views::Form;
use crate::testing::EventBuilder;

/// Files of a machine that hold texts of devices and of others.
const FILES: [&str; 22] = [
    "proc/sys/kernel/osrelease",
    "proc/sys/kernel/version",
    "sys/class/dmi/id/sys_vendor",
    "sys/class/dmi/id/product_name",
    "sys/hypervisor/type",
    "sys/kernel/security/lockdown",
    "sys/devices/system/clocksource/clocksource0/available_clocksource",
    "sys/module/nvme/parameters/poll_queues",
    "sys/module/nvme_core/parameters/multipath",
    "sys/class/nvme/nvme0/model",
    "sys/class/nvme/nvme0/serial",
    "sys/class/nvme/nvme0/firmware_rev",
    "sys/class/nvme/nvme0/transport",
    "sys/class/nvme/nvme0/address",
    "sys/class/nvme/nvme0/state",
    "sys/class/nvme/nvme0/subsysnqn",
    "sys/class/nvme/nvme0/nvme0n1/queue/scheduler",
    "sys/class/nvme/nvme0/nvme0n1/queue/write_cache",
    "sys/class/nvme/nvme1/model",
    "sys/class/nvme/nvme1/state",
    "sys/class/nvme/nvme1/address",
    "proc/cmdline",
];

/// The outputs of one set of texts.
pub struct Outputs {
    pub all: Vec<(&'static str, Form, Vec<u8>)>,
    pub planted: Vec<Planted>,
}

struct Maker<'a> {
    make: &'a dyn Fn(usize) -> String,
    out: Outputs,
}

impl Maker<'_> {
    fn text(&mut self, place: &str) -> String {
        self.text_in(place, |text| text)
    }

    /// A line of a file. Its reader takes the first line, without blanks at its ends.
    fn line(&mut self, place: &str) -> String {
        let lines = |text: String| text.replace(['\n', '\r'], "|");
        self.text_in(place, |text| lines(text).trim().to_owned())
    }

    /// A part of a path.
    fn component(&mut self, place: &str) -> String {
        let component = |text: String| text.replace(['/', '\0'], "|");
        self.text_in(place, |text| component(text).chars().take(60).collect())
    }

    fn text_in(&mut self, place: &str, fit: impl Fn(String) -> String) -> String {
        let n = self.out.planted.len();
        let text = fit((self.make)(n)) + &mark(n);
        self.out.planted.push(Planted { place: place.to_owned(), text: text.clone().into_bytes() });
        text
    }

    fn add(&mut self, view: &'static str, form: Form, bytes: Vec<u8>) {
        self.out.all.push((view, form, bytes));
    }
}

fn write(root: &Path, path: &str, text: &[u8]) {
    let path = root.join(path);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

fn machine(maker: &mut Maker<'_>) {
    let root = TempDir::new().unwrap();
    for file in FILES {
        let text = maker.line(file);
        write(root.path(), file, text.as_bytes());
    }
    write(root.path(), "sys/class/nvme/nvme1/transport", b"tcp");
    write(root.path(), "sys/class/nvme/nvme0/nvme0n1/nsid", b"1");
    write(root.path(), "sys/class/nvme/nvme0/nvme0n1/size", b"4096");
    let report = DoctorReport::of(&System::at(root.path()), false);
    let mut out = vec![];
    doctor::text(&report, true, Theme { color: true }, &mut out).unwrap();
    maker.add("doctor", Form::Wrapped, out);
    let mut out = vec![];
    doctor::json(&report, &mut out).unwrap();
    maker.add("doctor --json", Form::Json, out);
}

/// nvmet, a QEMU and an SPDK target, whose names of files, and arguments, are theirs.
fn targets(maker: &mut Maker<'_>) {
    let root = TempDir::new().unwrap();
    write(root.path(), "sys/module/nvmet/refcnt", b"1");
    let release = maker.line("osrelease");
    write(root.path(), "proc/sys/kernel/osrelease", release.as_bytes());
    let nqn = maker.component("nqn of nvmet");
    let subsystem = root.path().join("sys/kernel/config/nvmet/subsystems").join(nqn);
    fs::create_dir_all(subsystem).unwrap();
    for (pid, program) in [(7, "qemu-system-x86_64"), (8, "nvmf_tgt")] {
        let directory = maker.component("path of a program");
        let process = root.path().join(format!("proc/{pid}"));
        fs::create_dir_all(&process).unwrap();
        symlink(format!("/opt/{directory}/{program}"), process.join("exe")).unwrap();
        let serial = maker.text("argument of a program");
        let arguments = format!("{program}\0-device\0nvme,serial={serial}\0");
        fs::write(process.join("cmdline"), arguments).unwrap();
    }
    let found = System::at(root.path()).targets();
    assert_eq!(found.len(), 3, "{found:?}");
    let mut out = vec![];
    targets_text(&found, &mut out).unwrap();
    maker.add("host list", Form::Wrapped, out);
    let mut out = vec![];
    targets_json(&found, &mut out).unwrap();
    maker.add("host list --json", Form::Json, out);
}

fn in_flight(maker: &mut Maker<'_>, thread: &[u8]) {
    let made = EventBuilder::read().submitter(7, 8, thread).stack(1);
    let submission = made.submission();
    let usual = Usual { commands: 200, p99_ns: 1_000_000 };
    let found = InFlight {
        commands: vec![CommandLine {
            queue: QueueId::new(0, 1),
            tag: 3,
            sqe: Some(submission.sqe),
            age: Some(Duration::from_secs(3)),
            is_old: true,
            seen: Some(Seen { submission, usual }),
            place: StuckAt::Doorbell,
            verdict: Some(StuckState::Held),
        }],
        ..InFlight::default()
    };
    let disk = maker.text("disk");
    let [name, module] = ["function", "module"].map(|place| maker.text(place));
    let stack = json!({ "id": 1, "frames": [{ "name": name, "offset": 3, "module": module }] });
    let frames = from_value::<StackInfo>(stack).unwrap().frames();
    let lookup = Lookup {
        names: &|_, _| Some((disk.as_str().into(), CommandSet::Nvm)),
        stacks: Some(&|_| Some(frames.clone())),
        traced: true,
    };
    let mut out = vec![];
    inflight::text(&found, lookup, Theme { color: true }, &mut out).unwrap();
    maker.add("inflight --kstack", Form::Text, out);
    let mut out = vec![];
    inflight::json(&found, lookup, 7, &mut out).unwrap();
    maker.add("inflight --kstack --json", Form::Json, out);
}

fn spdk(maker: &mut Maker<'_>) {
    let [nqn, host] = ["nqn", "host"].map(|place| maker.text(place));
    let change = StateChange {
        at_ns: 7,
        probe: "nvmf_subsystem_add_host",
        fields: vec![
            ("nqn", StateValue::Text(nqn.as_str().into())),
            ("host", StateValue::Text(host.as_str().into())),
        ],
    };
    let (mut text, mut json) = (vec![], vec![]);
    state_text(&change, &mut text).unwrap();
    state_json(&change, &mut json).unwrap();
    maker.add("host spdk", Form::Text, text);
    maker.add("host spdk --json", Form::Json, json);
    let function = maker.text("function of SPDK");
    let rows = [MessageRow {
        call: "spdk_thread_send_msg",
        function: Some(function.as_str().into()),
        address: 9,
        count: 3,
    }];
    let (mut text, mut json) = (vec![], vec![]);
    messages_text(&rows, &mut text).unwrap();
    messages_json(&rows, &mut json).unwrap();
    maker.add("host msgs", Form::Text, text);
    maker.add("host msgs --json", Form::Json, json);
}

fn metrics(maker: &mut Maker<'_>) {
    let families: Vec<Family> = catalog::ALL
        .iter()
        .filter(|metric| !metric.labels.is_empty())
        .map(|metric| {
            let labels = metric.labels.iter().map(|label| maker.text(label));
            let labels: Vec<String> = labels.collect();
            Family {
                metric,
                series: vec![Series {
                    labels: labels.iter().map(|text| text.as_str().into()).collect(),
                    value: Value::Count(1),
                }],
            }
        })
        .collect();
    for (view, format) in [("serve", Format::Text), ("serve (OpenMetrics)", Format::OpenMetrics)] {
        maker.add(view, Form::Metrics, encode(&families, format).into_bytes());
    }
}

/// All views with these texts.
pub fn outputs(make: &dyn Fn(usize) -> String, thread: &[u8]) -> Outputs {
    let out = Outputs { all: vec![], planted: vec![] };
    let mut maker = Maker { make, out };
    machine(&mut maker);
    targets(&mut maker);
    in_flight(&mut maker, thread);
    spdk(&mut maker);
    metrics(&mut maker);
    maker.out
}
