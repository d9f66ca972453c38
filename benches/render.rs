// SPDX-License-Identifier: MIT OR Apache-2.0
//! Cost of rendering one event: nanoseconds and allocations. Run `cargo bench --bench render`. For
//! instructions, run the binary under `valgrind --tool=callgrind`.

#[path = "../tests/testing/mod.rs"]
mod testing;

use std::fmt;

use self::testing::EventBuilder;
use divan::counter::BytesCount;
use divan::{AllocProfiler, Bencher};
use nvme_deep::model::event::Event;
use nvme_deep::model::point::Point;
use nvme_deep::model::stage::StageSet;
use nvme_deep::nvme::decode::{CommandSet, describe};
use nvme_deep::nvme::opcode::QueueKind;
use nvme_deep::nvme::sqe::Sqe;
use nvme_deep::view::theme::Theme;
use nvme_deep::view::trace::{Clock, Context, TraceLines};

#[global_allocator]
static ALLOC: AllocProfiler = AllocProfiler::system();

/// Events rendered in a row. Each is later than the one before, as from a busy ring.
const BATCH: u64 = 1000;
/// The name of a disk.
const NAME: &str = "nvme0n1";
/// CLOCK_MONOTONIC of a machine with an uptime of some hours.
const AT: u64 = 12_345_678_901_234;

const CONTEXT: Context<'_> = Context {
    disk: NAME,
    set: CommandSet::Nvm,
    kstack: "",
    kstack_complete: "",
    cgroups: None,
    has_submitters: false,
    is_second_line: false,
};

const KINDS: [&str; 4] = ["submit", "complete", "command", "command+stages"];

fn main() {
    divan::main();
}

fn event(kind: &str) -> Event {
    let made = EventBuilder::read()
        .at(AT)
        .qid(3)
        .cid(4544)
        .blocks(1_953_120, 8)
        .submitter(41_234, 41_240, b"fio")
        .cpus(1, 1)
        .latency(85_200);
    let points = [
        (Point::Start, AT - 86_400),
        (Point::SetupOut, AT - 85_200),
        (Point::Doorbell, AT - 82_100),
        (Point::Cqe, AT - 2_010),
        (Point::Complete, AT),
    ];
    match kind {
        "submit" => made.submit(),
        "complete" => made.complete(),
        "command+stages" => made.points(&points).command(),
        _ => made.command(),
    }
}

/// Renders a batch. `one` renders one line and returns its length.
fn show(bencher: Bencher<'_, '_>, kind: &str, mut one: impl FnMut(&Event) -> usize) {
    let mut event = event(kind);
    let bytes = one(&event) as u64;
    bencher.counter(BytesCount::new(bytes * BATCH)).bench_local(|| {
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
fn long(bencher: Bencher<'_, '_>, kind: &str) {
    let theme = Theme { color: false };
    let mut view = TraceLines::long(theme, Clock::Mono, Some(StageSet::Basic));
    show(bencher, kind, |event| {
        view.event(event, &CONTEXT);
        view.take(len)
    });
}

#[divan::bench(args = KINDS)]
fn columns(bencher: Bencher<'_, '_>, kind: &str) {
    let theme = Theme { color: true };
    let clock = Clock::wall(1_795_284_600_000_000_000);
    let mut view = TraceLines::columns(theme, clock, Some(StageSet::Basic), None, 80);
    show(bencher, kind, |event| {
        view.event(event, &CONTEXT);
        view.take(len)
    });
}

#[divan::bench(args = KINDS)]
fn json(bencher: Bencher<'_, '_>, kind: &str) {
    let mut view = TraceLines::json(Clock::Mono, Some(StageSet::Basic));
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
    let mut text = Text { bytes: [0; 512], len: 0 };
    let read = |slba| EventBuilder::read().blocks(slba, 8).submission().sqe;
    let reads: Vec<Sqe> = (0..BATCH).map(read).collect();
    bencher.bench_local(|| {
        for read in &reads {
            text.len = 0;
            let sqe = divan::black_box(read);
            let done = describe(QueueKind::Io, CommandSet::Nvm, sqe, &mut text);
            divan::black_box((&text.bytes, done.is_ok()));
        }
    });
}
