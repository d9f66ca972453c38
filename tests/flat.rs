// SPDX-License-Identifier: MIT OR Apache-2.0
//! Memory of recordings over long runs: a ring is bounded by its options, and a
//! reader does not depend on the size of the file. The allocator counts.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

#[path = "fuzz/memory.rs"]
mod memory;
mod testing;

use std::fs::File;
use std::io::BufReader;
use std::path::Path;
use std::sync::Mutex;
use std::time::Duration;

use nvme_deep::recording::{Item, Keep, Reader};
use tempfile::TempDir;

use self::memory::{in_use, peak, peak_of};
use self::testing::recording::{Run, info, record};

/// One test at a time: they share the counters.
static ALONE: Mutex<()> = Mutex::new(());

const RING: usize = 1 << 20;
/// What may be in use beside the ring: the writer's four batches (some 4 MB) and buffers.
const REST: usize = 6 << 20;

#[test]
fn a_ring_that_runs_for_long_does_not_grow() {
    let _alone = ALONE.lock().unwrap();
    let dir = TempDir::new().unwrap();
    let run = Run {
        seconds: 2000,
        reads: 1000,
        keep: Some(Keep { time: Duration::from_secs(86400), bytes: RING as u64 }),
        info: info(),
    };
    let before = in_use();
    let mut peaks = vec![];
    peak();
    let written = record(&dir.path().join("ring"), &run, &mut |second| {
        if (second + 1) % 500 == 0 {
            peaks.push(peak() - before);
        }
    });
    assert!(written.error.is_none() && written.lost == 0);
    // the ring was full long before the end
    let events = run.seconds * run.reads;
    assert!(written.events > 0 && written.events < events / 10, "{written:?}");
    let (first, rest) = peaks.split_first().unwrap();
    assert!(peaks.iter().all(|peak| *peak < RING + REST), "{peaks:?}");
    let growth = rest.iter().max().unwrap().saturating_sub(*first);
    assert!(growth < RING / 8, "{peaks:?}");
}

/// The maximum while a recording is read, and its events.
fn read(path: &Path) -> (usize, u64) {
    let file = BufReader::new(File::open(path).unwrap());
    let mut events = 0;
    let most = peak_of(|| {
        let mut reader = Reader::open(file).unwrap();
        while let Some(item) = reader.next().unwrap() {
            events += u64::from(matches!(item, Item::Event(_)));
        }
    });
    (most, events)
}

#[test]
fn a_reader_does_not_need_more_for_a_larger_file() {
    let _alone = ALONE.lock().unwrap();
    let dir = TempDir::new().unwrap();
    let path = dir.path().join("file");
    let mut run = Run { seconds: 10, reads: 5000, keep: None, info: info() };
    let [small, large] = [10, 40].map(|seconds| {
        run.seconds = seconds;
        assert!(record(&path, &run, &mut |_| {}).error.is_none());
        let (bytes, events) = read(&path);
        assert_eq!(events, run.seconds * run.reads);
        bytes
    });
    assert!(large < small + (1 << 16), "{small} {large}");
}
