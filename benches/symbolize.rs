// SPDX-License-Identifier: MIT OR Apache-2.0
//! Cost of symbols: loading the table, and symbolizing a stack of 15 frames with the table loaded.
#![allow(clippy::print_stderr, missing_docs, reason = "a program of its own, and divan's macros")]

use std::fs;

use divan::Bencher;
use nvme_deep::model::stack::StackAt;
use nvme_deep::symbols::Symbolizer;

/// Addresses in 15 functions of the running kernel, spread over its text, one byte past each start.
fn addresses() -> Vec<u64> {
    let kallsyms = fs::read_to_string("/proc/kallsyms").unwrap_or_default();
    let text: Vec<u64> = kallsyms
        .lines()
        .filter(|l| l.split(' ').nth(1).is_some_and(|kind| kind == "t"))
        .filter_map(|l| u64::from_str_radix(l.split(' ').next()?, 16).ok())
        .filter(|&a| a != 0)
        .collect();
    let step = (text.len() / 15).max(1);
    text.iter().step_by(step).take(15).map(|a| a + 1).collect()
}

/// Reads and sorts the whole table, then symbolizes one stack.
#[divan::bench(sample_count = 20, sample_size = 1)]
fn cold(bencher: Bencher<'_, '_>) {
    let stack = addresses();
    bencher.bench(|| Symbolizer::new().stack(&stack, StackAt::Submit));
}

/// Symbolizes one stack with the table loaded.
#[divan::bench]
fn warm(bencher: Bencher<'_, '_>) {
    let stack = addresses();
    let mut symbolizer = Symbolizer::new();
    bencher.bench_local(|| symbolizer.stack(&stack, StackAt::Submit));
}

fn main() {
    match Symbolizer::new().hidden() {
        None => divan::main(),
        Some(why) => eprintln!("no benchmark: {why}"),
    }
}
