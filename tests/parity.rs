// SPDX-License-Identifier: MIT OR Apache-2.0
//! Compares the C code of bpf/include with the Rust code that has the same rules.
//! tests/parity/harness.c compiles the unmodified C for this machine; the tests give the same
//! inputs to both.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "tests"
)]

#[path = "parity/announce.rs"]
mod announce;
#[path = "parity/build.rs"]
mod build;
#[path = "parity/command.rs"]
mod command;

use std::io::Write;
use std::path::PathBuf;
use std::process::Command;
use std::process::Stdio;
use std::sync::LazyLock;
use std::thread;

use nvme_deep::abi;
use nvme_deep::model::counters::COUNTS;
use nvme_deep::model::counters::Count;
use nvme_deep::model::histogram;
use nvme_deep::model::nvme_latency;
use nvme_deep::model::nvme_latency::LatBuckets;
use nvme_deep::model::point::NO_COMPLETE;
use nvme_deep::model::point::NO_SETUP;
use nvme_deep::model::point::Point;
use nvme_deep::model::point::Point::*;
use nvme_deep::model::row::NSID_MASK;
use nvme_deep::model::row::RowKey;
use nvme_deep::model::stage::StageSet;
use nvme_deep::model::transport::Transport;
use nvme_deep::nvme::opcode::Opcode;
use nvme_deep::nvme::opcode::QueueKind;
use nvme_deep::probe::catalog::CATALOG;

/// The harness, built once per process.
static HARNESS: LazyLock<PathBuf> =
    LazyLock::new(|| build::harness("parity/harness.c", "parity", &[]));

/// Returns one answer for each question; both are lines.
fn ask(questions: &[String]) -> Vec<String> {
    let mut child = Command::new(&*HARNESS)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("the harness runs");
    let mut stdin = child.stdin.take().unwrap();
    let text = questions.join("\n") + "\n";
    let writer = thread::spawn(move || stdin.write_all(text.as_bytes()));
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "the harness: {}", output.status);
    writer.join().unwrap().unwrap();
    let answers: Vec<String> = String::from_utf8(output.stdout)
        .unwrap()
        .lines()
        .map(Into::into)
        .collect();
    assert_eq!(answers.len(), questions.len());
    answers
}

fn numbers<T: ToString>(what: &str, numbers: &[T]) -> String {
    let words: Vec<String> = numbers.iter().map(T::to_string).collect();
    format!("{what} {}", words.join(" "))
}

/// splitmix64: the same cases in every run.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, n: u64) -> u64 {
        self.next() % n
    }

    /// A number; all lengths in bits are equally likely.
    fn any_size(&mut self) -> u64 {
        let shift = self.below(64);
        self.next() >> shift
    }

    /// A latency below 2^`bits`; zero in about one of eight cases.
    fn step(&mut self, bits: u64) -> u64 {
        let shift = 64 - bits + self.below(bits);
        if self.below(8) == 0 {
            0
        } else {
            self.next() >> shift
        }
    }
}

fn edges(of: impl IntoIterator<Item = u64>) -> impl Iterator<Item = u64> {
    of.into_iter()
        .flat_map(|v| [v.saturating_sub(1), v, v.saturating_add(1)])
}

#[test]
fn both_sides_find_the_same_histogram_bucket_for_every_value() {
    let mut random = Random(1);
    let bounds =
        (0..histogram::BUCKETS).flat_map(|b| [histogram::bounds(b).0, histogram::bounds(b).1]);
    let powers = (0..64).map(|e| 1_u64 << e);
    let values: Vec<u64> = edges(bounds)
        .chain(edges(powers))
        .chain((0..20_000).map(|_| random.any_size()))
        .collect();
    let questions: Vec<String> = values.iter().map(|v| format!("hist {v}")).collect();
    for (value, answer) in values.iter().zip(ask(&questions)) {
        assert_eq!(answer, histogram::index(*value).to_string(), "{value} ns");
    }
}

#[test]
fn both_sides_find_the_same_slot_of_the_latency_table_for_every_value() {
    let mut random = Random(2);
    let mut cases = vec![];
    for min_us in [0, 1, 20, 1000, 3_600_000_000_u32] {
        for shift in [0, 1, 4, 20] {
            let table = LatBuckets { min_us, shift };
            assert_eq!(table.validate(), Ok(()));
            let ends = (0..nvme_latency::DOUBLING).flat_map(|s| [table.low(s), table.high(s)]);
            let ends = edges(ends.map(|us| us.saturating_mul(1000)));
            cases.extend(ends.map(|ns| (table, ns)));
            cases.extend((0..1000).map(|_| (table, random.any_size())));
        }
    }
    let questions: Vec<String> = cases
        .iter()
        .map(|(t, ns)| format!("lat {} {} {ns}", t.min_us, t.shift))
        .collect();
    for ((table, ns), answer) in cases.iter().zip(ask(&questions)) {
        let want = table.index(ns / 1000).to_string();
        assert_eq!(answer, want, "{ns} ns in {table:?}");
    }
}

/// Compares constants of abi.h with those of Rust.
fn compare(pairs: &[(&str, u64)]) {
    let questions: Vec<String> = pairs.iter().map(|p| format!("constant {}", p.0)).collect();
    for ((name, rust), answer) in pairs.iter().zip(ask(&questions)) {
        assert_eq!(answer, rust.to_string(), "{name}");
    }
}

#[test]
fn both_sides_have_the_same_numbers_of_modes_states_and_requests() {
    compare(&[
        ("ND_MODE_TOTAL", abi::MODES[0].into()),
        ("ND_MODE_BASIC", abi::MODES[1].into()),
        ("ND_MODE_FINE", abi::MODES[2].into()),
        ("ND_TRACE_EVENTS", abi::TRACES[0].into()),
        ("ND_TRACE_PAIRS", abi::TRACES[1].into()),
        ("ND_TRACE_STACKS", abi::TRACES[2].into()),
        ("ND_TRACE_COMMANDS", abi::TRACES[3].into()),
        ("ND_STACK_SUBMIT", abi::STACKS[0].into()),
        ("ND_STACK_COMPLETE", abi::STACKS[1].into()),
        ("ND_SCRATCHES", abi::SCRATCHES.into()),
        ("ND_RING_CPUS", abi::RING_CPUS.into()),
        ("ND_STACK_UNSEEN", abi::STACK_UNSEEN.0),
        ("ND_OPEN", abi::STATE_OPEN.into()),
        ("ND_COMPLETED", abi::STATE_COMPLETED.into()),
        ("ND_SERVE_BEGIN", abi::SERVE_BEGIN),
        ("ND_SERVE_COMPLETED", abi::SERVE_COMPLETED),
        ("ND_SERVE_CLOSE", abi::SERVE_CLOSE),
        ("ND_SERVE_END", abi::SERVE_END),
        ("ND_SERVE_FORGET", abi::SERVE_FORGET),
        ("ND_END_NONE", abi::END_NONE.into()),
        ("ND_END_NOW", abi::END_NOW.into()),
        ("ND_END_RESUME", abi::END_RESUME.into()),
    ]);
}

#[test]
fn both_sides_have_the_same_limits_and_layouts() {
    let bit = |m: Point| u64::from(m.pattern_bit().unwrap());
    let pairs: [(&str, u64); 39] = [
        ("ND_HIST_SUB_BITS", histogram::SUB_BITS.into()),
        ("ND_HIST_MAX_EXP", histogram::MAX_EXP.into()),
        ("ND_HIST_BUCKETS", histogram::BUCKETS as u64),
        ("ND_LAT_IN", nvme_latency::DOUBLING as u64),
        ("ND_LAT_BELOW", nvme_latency::BELOW as u64),
        ("ND_LAT_ABOVE", nvme_latency::ABOVE as u64),
        ("ND_LAT_SLOTS", nvme_latency::SLOTS as u64),
        ("ND_MAX_CTRLS", abi::MAX_CTRLS.into()),
        ("ND_MAX_LIST", abi::MAX_LIST as u64),
        ("ND_ROW_BITS", abi::MAX_ROWS.ilog2().into()),
        ("ND_MAX_ROWS", abi::MAX_ROWS.into()),
        ("ND_KEY_NSID_MASK", NSID_MASK.into()),
        ("ND_HOOK_MAX", CATALOG.len() as u64),
        ("ND_COUNT_MAX", COUNTS.len() as u64),
        ("ND_LATE_DOORBELL", Count::LateDoorbell as u64),
        ("ND_EARLY_IRQ", Count::EarlyIrq as u64),
        ("ND_NEGATIVE", Count::Negative as u64),
        ("ND_STAGES_TOTAL", StageSet::Total.histograms() as u64),
        ("ND_STAGES_BASIC", StageSet::Basic.histograms() as u64),
        ("ND_STAGES_FINE", StageSet::Fine.histograms() as u64),
        ("ND_SAW_START", bit(Start)),
        ("ND_SAW_SETUP_IN", bit(SetupIn)),
        ("ND_SAW_ISSUE", bit(Issue)),
        ("ND_SAW_DOORBELL", bit(Doorbell)),
        ("ND_SAW_IRQ", bit(Irq)),
        ("ND_SAW_CQE", bit(Cqe)),
        ("ND_SAW_END", bit(End)),
        ("ND_NO_SETUP", NO_SETUP.into()),
        ("ND_NO_COMPLETE", NO_COMPLETE.into()),
        ("ND_GAPS", abi::GAPS),
        ("ND_TICK_NS", abi::TICK_NS),
        ("sizeof(struct nd_activity)", abi::ACTIVITY_BYTES as u64),
        ("ND_CELL_HEAD", abi::CELL_HEAD as u64),
        ("ND_SLOT_BASIC", abi::SLOT_BASIC as u64),
        ("ND_SLOT_FINE", abi::SLOT_FINE as u64),
        (
            "sizeof(struct nd_cell)",
            abi::cell_bytes(StageSet::Fine).try_into().unwrap(),
        ),
        ("sizeof(struct nd_start)", abi::START_BYTES as u64),
        ("sizeof(struct nd_cpu)", abi::CPU_BYTES as u64),
        (
            "sizeof(struct nd_ctrl)",
            abi::ctrl_value(0, 0, 0, Transport::Pcie).len() as u64,
        ),
    ];
    compare(&pairs);
}

#[test]
fn a_row_key_packed_by_the_c_macros_comes_apart_in_rust() {
    let mut random = Random(3);
    let parts: Vec<[u64; 6]> = (0..2000)
        .map(|_| [256, 1 << 23, 256, 2, 4, 512].map(|n| random.below(n)))
        .collect();
    let questions: Vec<String> = parts.iter().map(|p| numbers("pack", p)).collect();
    for (&[ctrl, nsid, code, admin, class, pattern], answer) in parts.iter().zip(ask(&questions)) {
        let queue = [QueueKind::Io, QueueKind::Admin][admin as usize];
        let code = code as u8;
        let row = RowKey {
            ctrl: ctrl as u32,
            nsid: nsid as u32,
            opcode: Opcode { queue, code },
            class: class as u8,
        };
        assert_eq!(
            RowKey::unpack(answer.parse().unwrap()),
            (row, pattern as u16)
        );
    }
}
