// SPDX-License-Identifier: MIT OR Apache-2.0
//! Compares the C code of bpf/include with the Rust code that has the same rules.
//! tests/parity/harness.c compiles the unmodified C for this machine; the tests give the same
//! inputs to both.

mod announce;
pub mod build;
mod case;
mod command;

use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::LazyLock;
use std::thread;

use nvme_deep::model::histogram;
use nvme_deep::model::ids::RowKey;
use nvme_deep::nvme::opcode::{Opcode, QueueKind};

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
    let answers: Vec<String> =
        String::from_utf8(output.stdout).unwrap().lines().map(Into::into).collect();
    assert_eq!(answers.len(), questions.len());
    answers
}

fn numbers<T: ToString>(what: &str, numbers: &[T]) -> String {
    let words: Vec<String> = numbers.iter().map(T::to_string).collect();
    format!("{what} {}", words.join(" "))
}

/// The same cases in every run.
struct Random(fastrand::Rng);

impl Random {
    fn of(seed: u64) -> Self {
        Self(fastrand::Rng::with_seed(seed))
    }

    fn next(&mut self) -> u64 {
        self.0.u64(..)
    }

    fn below(&mut self, n: u64) -> u64 {
        self.0.u64(..n)
    }

    /// A number; all lengths in bits are equally likely.
    fn any_size(&mut self) -> u64 {
        let shift = self.below(64);
        self.next() >> shift
    }

    /// A latency below 2^`bits`; zero in about one of eight cases.
    fn step(&mut self, bits: u64) -> u64 {
        let shift = 64 - bits + self.below(bits);
        if self.below(8) == 0 { 0 } else { self.next() >> shift }
    }
}

fn edges(of: impl IntoIterator<Item = u64>) -> impl Iterator<Item = u64> {
    of.into_iter().flat_map(|v| [v.saturating_sub(1), v, v.saturating_add(1)])
}

#[test]
fn both_sides_find_the_same_histogram_bucket_for_every_value() {
    let mut random = Random::of(1);
    let bounds =
        (0..histogram::BUCKETS).flat_map(|b| [histogram::bounds(b).0, histogram::bounds(b).1]);
    let powers = (0..64).map(|e| 1_u64 << e);
    let values: Vec<u64> =
        edges(bounds).chain(edges(powers)).chain((0..20_000).map(|_| random.any_size())).collect();
    let questions: Vec<String> = values.iter().map(|v| format!("hist {v}")).collect();
    for (value, answer) in values.iter().zip(ask(&questions)) {
        assert_eq!(answer, histogram::index(*value).to_string(), "{value} ns");
    }
}

#[test]
fn a_row_key_packed_by_the_c_macros_comes_apart_in_rust() {
    let mut random = Random::of(3);
    let parts: Vec<[u64; 6]> =
        (0..2000).map(|_| [256, 1 << 23, 256, 2, 4, 512].map(|n| random.below(n))).collect();
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
        assert_eq!(RowKey::unpack(answer.parse().unwrap()), (row, pattern as u16));
    }
}
