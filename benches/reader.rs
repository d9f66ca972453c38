// SPDX-License-Identifier: MIT OR Apache-2.0
//! Cost of turning a record of the ring into a line, of reading a recording, and of merging and
//! reading histograms: nanoseconds and allocations. Run `cargo bench --bench reader`. For instructions, run the binary
//! under `valgrind --tool=callgrind`.

use divan::counter::ItemsCount;
use divan::{AllocProfiler, Bencher, black_box};
use nvme_deep::abi;
use nvme_deep::model::event::Event;
use nvme_deep::model::histogram::Histogram;
use nvme_deep::model::stage::StageSet;
use nvme_deep::nvme::decode::CommandSet;
use nvme_deep::recording::{Batch, Block, BlockWriter, Content, Item, Reader, Summary};
use nvme_deep::view::theme::Theme;
use nvme_deep::view::trace::{Clock, Context, TraceLines};

#[global_allocator]
static ALLOC: AllocProfiler = AllocProfiler::system();

const BATCH: u64 = 1000;
/// The name of a disk.
const NAME: &str = "nvme0n1";

fn main() {
    divan::main();
}

/// `BATCH` records of 4 KiB reads, 10 us apart, as the BPF side writes them (struct nd_pair). Each
/// read was set up 100 us before it completed.
fn records() -> Vec<[u8; 184]> {
    let record = |n: u64| {
        let mut bytes = [0; 184];
        let mut word = |at: usize, value: u64| {
            bytes[at..at + 8].copy_from_slice(&value.to_ne_bytes());
        };
        let ns = 1_000_000_000_000 + n * 10_000;
        // kind pair, I/O queue, opcode read, qid 1
        word(0, 0x0040_0001_0002_0004);
        word(8, ns);
        word(16, 0x29 << 16 | 1 << 32); // controller 0, start, doorbell and CQE observed, namespace 1
        word(40, 1 << 48); // status 0, outcome known
        word(48, ns - 100_000);
        word(64, n * 8); // slba
        word(72, 7); // nlb
        word(88, u64::from_le_bytes(*b"fio\0\0\0\0\0"));
        word(104, 777 << 32 | 777);
        word(112, 4096 << 32 | 1);
        word(120, 1 << 32); // the number of bytes is known, the submitter is not
        word(128, ns - 110_000);
        word(152, ns - 90_000);
        word(168, ns - 5_000);
        bytes
    };
    (0..BATCH).map(record).collect()
}

/// Decodes records into events.
#[divan::bench]
fn decode_record(bencher: Bencher<'_, '_>) {
    let records = records();
    bencher.counter(ItemsCount::new(BATCH)).bench_local(|| {
        for record in &records {
            let _ = black_box(abi::event(black_box(record), 0));
        }
    });
}

/// Decodes records, and renders them with stages.
#[divan::bench]
fn record_to_text(bencher: Bencher<'_, '_>) {
    let records = records();
    let mut view = TraceLines::long(Theme { color: false }, Clock::Mono, Some(StageSet::Basic));
    let cx = Context {
        disk: NAME,
        set: CommandSet::Nvm,
        kstack: "",
        kstack_complete: "",
        ..Context::default()
    };
    bencher.counter(ItemsCount::new(BATCH)).bench_local(|| {
        for record in &records {
            if let Ok(event) = &abi::event(record, 0) {
                view.event(event, &cx);
            }
        }
        view.take(|lines| {
            black_box(lines);
        });
    });
}

/// The same events in a recording.
fn recording() -> Vec<u8> {
    let mut bytes = vec![];
    let mut batch = Batch::new();
    for record in &records() {
        abi::event(record, 0).iter().for_each(|event| batch.push(event));
    }
    assert_eq!(u64::from(batch.summary().events), BATCH);
    let run = Block::new(Summary::at(Content::Run, 0), b"{}");
    let events = Block::new(batch.summary(), &batch.pack());
    let written = BlockWriter::create(&mut bytes).and_then(|mut to| {
        to.write(&run?)?;
        to.write(&events?)
    });
    assert!(written.is_ok());
    bytes
}

/// Passes on the events of a recording.
fn play(recording: &[u8], to: &mut dyn FnMut(&Event)) {
    let mut all = 0;
    if let Ok(mut reader) = Reader::open(recording) {
        while let Ok(Some(item)) = reader.next() {
            if let Item::Event(event) = item {
                to(event);
            }
        }
        all = reader.events();
    }
    assert_eq!(all, BATCH);
}

/// Decompresses and decodes a recording.
#[divan::bench]
fn decode_recording(bencher: Bencher<'_, '_>) {
    let recording = recording();
    bencher.counter(ItemsCount::new(BATCH)).bench_local(|| {
        play(black_box(&recording), &mut |event| {
            black_box(event);
        });
    });
}

/// Decodes a recording and renders it with stages, as `trace --from` does.
fn render_recording(bencher: Bencher<'_, '_>, view: &mut TraceLines) {
    let recording = recording();
    let cx = Context { disk: NAME, ..Context::default() };
    bencher.counter(ItemsCount::new(BATCH)).bench_local(|| {
        play(black_box(&recording), &mut |event| view.event(event, &cx));
        view.take(|lines| {
            black_box(lines);
        });
    });
}

#[divan::bench]
fn recording_to_text(bencher: Bencher<'_, '_>) {
    let theme = Theme { color: false };
    let mut view = TraceLines::columns(theme, Clock::Mono, Some(StageSet::Basic), None, 80);
    render_recording(bencher, &mut view);
}

#[divan::bench]
fn recording_to_json(bencher: Bencher<'_, '_>) {
    let mut view = TraceLines::json(Clock::Mono, Some(StageSet::Basic));
    render_recording(bencher, &mut view);
}

fn histogram() -> Histogram {
    let mut hist = Histogram::new();
    (0..10_000_u64).for_each(|n| hist.record(n * n));
    hist
}

/// Merges the histogram of one CPU into the sum.
#[divan::bench]
fn merge_histograms(bencher: Bencher<'_, '_>) {
    let one = histogram();
    let mut sum = Histogram::new();
    bencher.bench_local(|| sum.merge(black_box(&one)));
}

/// Computes the percentiles of one line of a report.
#[divan::bench]
fn percentiles(bencher: Bencher<'_, '_>) {
    let hist = histogram();
    bencher.bench_local(|| [50.0, 90.0, 99.0, 99.9].map(|p| black_box(&hist).percentile(p)));
}
