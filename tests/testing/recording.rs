// SPDX-License-Identifier: MIT OR Apache-2.0
//! Recordings: reads at even times, and a ledger every second.

use std::fs::File;
use std::path::Path;

use nvme_deep::model::event::Event;
use nvme_deep::model::ledger::{Ledger, TraceLedger};
use nvme_deep::model::machine::{ControllerInfo, DiskInfo};
use nvme_deep::model::point::Point;
use nvme_deep::recording::{ClockOffset, Content, Keep, LedgerInfo, RunInfo, Writer, Written};

use super::EventBuilder;

pub const SECOND: u64 = 1_000_000_000;

/// A finished read of 4 KiB somewhere on the disk, that took 100 to 165 us.
pub fn read_at(at_ns: u64) -> Event {
    // as good as random, so that it compresses like a real load
    let mixed = (at_ns ^ at_ns >> 29).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 20;
    let latency_ns = 100_000 + (mixed & 0xffff);
    let setup_out = at_ns - latency_ns;
    EventBuilder::read()
        .at(at_ns)
        .cid(mixed as u16 & 0x3ff)
        .blocks(mixed >> 16 & 0xffff_fff8, 8)
        .latency(latency_ns)
        .points(&[
            (Point::Start, setup_out - 2000 - (mixed >> 20 & 0xfff)),
            (Point::SetupOut, setup_out),
            (Point::Doorbell, setup_out + 2000 + (mixed >> 24 & 0x3ff)),
            (Point::Cqe, at_ns - 15_000 - (mixed >> 16 & 0xfff)),
            (Point::Complete, at_ns),
        ])
        .command()
}

/// What is recorded.
pub struct Run {
    pub seconds: u64,
    /// Reads in each second.
    pub reads: u64,
    pub keep: Option<Keep>,
    pub info: RunInfo,
}

/// The description of a run that began one second after the boot.
pub fn info() -> RunInfo {
    RunInfo {
        begin_ns: SECOND,
        wall_ns: Some(0),
        pairs: true,
        sample_period: 1,
        ..RunInfo::default()
    }
}

pub fn ledger(at_ns: u64, evicted: u64, commands: u64) -> LedgerInfo {
    let ledger = Ledger {
        seen: commands,
        matched: commands,
        misses_known: true,
        trace: Some(TraceLedger { commands_shown: commands, ..TraceLedger::default() }),
        ..Ledger::default()
    };
    LedgerInfo { at_ns, evicted, ledger: Some(ledger) }
}

/// Begins a file of a run, on a machine with one disk.
fn begin(path: &Path, keep: Option<Keep>, info: &RunInfo) -> Writer {
    let mut recorder = Writer::create(File::create(path).unwrap(), keep).unwrap();
    let begin = info.begin_ns;
    recorder.block(Content::Run, begin, info);
    recorder.block(Content::Clock, begin, &ClockOffset { wall_ns: 0 });
    let disk = DiskInfo { name: "nvme0n1".into(), nsid: 1, lba_bytes: 512, csi: 0 };
    let controllers = [ControllerInfo { disks: vec![disk], ..ControllerInfo::default() }];
    recorder.block(Content::Controllers, begin, &controllers);
    recorder.block(Content::Ledger, begin, &ledger(0, 0, 0));
    recorder
}

/// Makes a file of a run of this length. `write` writes the events, and returns the number of commands.
pub fn made(path: &Path, info: &RunInfo, length_ns: u64, write: impl FnOnce(&mut Writer) -> u64) {
    let mut recorder = begin(path, None, info);
    let commands = write(&mut recorder);
    let end = ledger(length_ns, 0, commands);
    recorder.block(Content::End, info.begin_ns + length_ns, &end);
    assert!(recorder.finish().error.is_none());
}

/// Records into a new file. `each_second` is called after each second of the run.
pub fn record(path: &Path, run: &Run, each_second: &mut dyn FnMut(u64)) -> Written {
    let mut recorder = begin(path, run.keep, &run.info);
    let begin = run.info.begin_ns;
    for second in 0..run.seconds {
        for n in 0..run.reads {
            recorder.push(&read_at(begin + second * SECOND + n * SECOND / run.reads));
        }
        let passed = (second + 1) * SECOND;
        let so_far = ledger(passed, 0, (second + 1) * run.reads);
        recorder.block(Content::Ledger, begin + passed, &so_far);
        // each job takes a batch, and 16 may wait for the thread: so all batches exist from the first second
        // on, whatever the thread's speed
        (0..=17).for_each(|_| recorder.flush());
        each_second(second);
    }
    let evicted = recorder.dump();
    let all = run.seconds * SECOND;
    let last = ledger(all, evicted, run.seconds * run.reads);
    recorder.block(Content::End, begin + all, &last);
    recorder.finish()
}
