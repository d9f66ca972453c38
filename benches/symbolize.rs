// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a name costs: loading the symbols, and a stack of 15 frames with them loaded.
#![allow(
    clippy::print_stderr,
    missing_docs,
    reason = "a program of its own, and divan's macros"
)]

use std::fs;

use divan::Bencher;
use nvme_deep::model::stack::StackAt;
use nvme_deep::symbols::Symbolizer;

/// Functions of the running kernel, 15 of them from all over its text, some bytes in.
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

/// The whole table, read and sorted, and a stack.
#[divan::bench(sample_count = 20, sample_size = 1)]
fn cold(bencher: Bencher<'_, '_>) {
    let stack = addresses();
    bencher.bench(|| Symbolizer::new().stack(&stack, StackAt::Submit));
}

/// A stack.
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
