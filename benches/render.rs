// SPDX-License-Identifier: MIT OR Apache-2.0
//! Cost of rendering one event: nanoseconds and allocations. Run `cargo bench --bench render`. For
//! instructions, run the binary under `valgrind --tool=callgrind`.

use std::fmt;

use divan::AllocProfiler;
use divan::Bencher;
use divan::counter::BytesCount;
use nvme_deep::model::conditions::Conditions;
use nvme_deep::model::event::CommandId;
use nvme_deep::model::event::CompletionStatus;
use nvme_deep::model::event::Event;
use nvme_deep::model::event::EventKind;
use nvme_deep::model::event::Outcome;
use nvme_deep::model::event::StackId;
use nvme_deep::model::event::Submission;
use nvme_deep::model::stage::StageSet;
use nvme_deep::model::timeline::Timeline;
use nvme_deep::model::untrusted::Untrusted;
use nvme_deep::nvme::decode::CommandSet;
use nvme_deep::nvme::decode::describe;
use nvme_deep::nvme::opcode::Opcode;
use nvme_deep::nvme::opcode::QueueKind;
use nvme_deep::nvme::sqe::Parts;
use nvme_deep::nvme::sqe::Sqe;
use nvme_deep::nvme::status::Status;
use nvme_deep::render::theme::Theme;
use nvme_deep::render::trace::Clock;
use nvme_deep::render::trace::Context;
use nvme_deep::render::trace::EventSink;
use nvme_deep::render::trace::TraceJson;
use nvme_deep::render::trace::TraceText;

#[global_allocator]
static ALLOC: AllocProfiler = AllocProfiler::system();

/// Events rendered in a row. Each is later than the one before, as from a busy ring.
const BATCH: u64 = 1000;
/// The name of a disk.
static NAME: Untrusted = Untrusted::fixed("nvme0n1");
/// CLOCK_MONOTONIC of a machine with an uptime of some hours.
const AT: u64 = 12_345_678_901_234;

const CONTEXT: Context<'_> = Context {
    disk: &NAME,
    set: CommandSet::Nvm,
    kstack: "",
    kstack_complete: "",
};

const KINDS: [&str; 4] = ["submit", "complete", "command", "command+stages"];

fn main() {
    divan::main();
}

/// A read of 4 KiB.
fn read(slba: u32) -> Sqe {
    Sqe::from(Parts {
        opcode: 2,
        cid: 4544,
        nsid: 1,
        cdw: [slba, 0, 7, 0, 0, 0],
        ..Parts::default()
    })
}

fn event(kind: &str) -> Event {
    let id = CommandId {
        ctrl: 0,
        qid: 3,
        cid: 4544,
        nsid: 1,
        opcode: Opcode {
            queue: QueueKind::Io,
            code: 2,
        },
    };
    let submission = Submission {
        sqe: read(1_953_120),
        bytes: Some(4096),
        knows_submitter: true,
        pid: 41_234,
        tid: 41_240,
        comm: *b"fio\0\0\0\0\0\0\0\0\0\0\0\0\0",
        cpu: 1,
        stack: StackId::default(),
    };
    let points = [
        AT - 86_400,
        0,
        AT - 85_200,
        0,
        AT - 82_100,
        0,
        AT - 2_010,
        AT,
        0,
    ];
    let outcome = Outcome {
        verdict: Some(CompletionStatus {
            result: 0,
            status: Status(0),
            retries: 0,
            flags: 0,
        }),
        latency_ns: Some(85_200),
        timeline: (kind == "command+stages").then(|| Timeline::new(points, 0b010_1001)),
        cpu: 1,
        conditions: Conditions::default(),
        stack: StackId::default(),
    };
    let what = match kind {
        "submit" => EventKind::Submit(id, submission),
        "complete" => EventKind::Complete(id, outcome),
        _ => EventKind::Command(id, submission, outcome),
    };
    Event { at_ns: AT, what }
}

/// Renders a batch. `one` renders one line and returns its length.
fn show(bencher: Bencher<'_, '_>, kind: &str, mut one: impl FnMut(&Event) -> usize) {
    let mut event = event(kind);
    let bytes = one(&event) as u64;
    bencher
        .counter(BytesCount::new(bytes * BATCH))
        .bench_local(|| {
            for _ in 0..BATCH {
                event.at_ns += 12_345;
                one(&event);
            }
        });
}

/// The length of these lines.
fn len(lines: &[u8]) -> usize {
    divan::black_box(lines).len()
}

#[divan::bench(args = KINDS)]
fn text(bencher: Bencher<'_, '_>, kind: &str) {
    let theme = Theme { color: false };
    let mut view = TraceText::new(theme, false, Clock::Mono, Some(StageSet::Basic));
    show(bencher, kind, |event| {
        view.event(event, &CONTEXT);
        view.take(len)
    });
}

#[divan::bench(args = KINDS)]
fn text_on_a_terminal(bencher: Bencher<'_, '_>, kind: &str) {
    let theme = Theme { color: true };
    let clock = Clock::wall(1_795_284_600_000_000_000);
    let mut view = TraceText::new(theme, true, clock, Some(StageSet::Basic));
    show(bencher, kind, |event| {
        view.event(event, &CONTEXT);
        view.take(len)
    });
}

#[divan::bench(args = KINDS)]
fn json(bencher: Bencher<'_, '_>, kind: &str) {
    let mut view = TraceJson::new(Clock::Mono, Some(StageSet::Basic));
    show(bencher, kind, |event| {
        view.event(event, &CONTEXT);
        view.take(len)
    });
}

/// A buffer for `describe` that never grows.
struct Text {
    bytes: [u8; 512],
    len: usize,
}

impl fmt::Write for Text {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let room = self.bytes.get_mut(self.len..self.len + text.len());
        room.ok_or(fmt::Error)?.copy_from_slice(text.as_bytes());
        self.len += text.len();
        Ok(())
    }
}

#[divan::bench]
fn command_decode(bencher: Bencher<'_, '_>) {
    let mut text = Text {
        bytes: [0; 512],
        len: 0,
    };
    bencher.bench_local(|| {
        for slba in 0..BATCH as u32 {
            text.len = 0;
            let sqe = divan::black_box(read(slba));
            let done = describe(QueueKind::Io, CommandSet::Nvm, &sqe, &mut text);
            divan::black_box((&text.bytes, done.is_ok()));
        }
    });
}
