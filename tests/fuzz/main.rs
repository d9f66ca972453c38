// SPDX-License-Identifier: MIT OR Apache-2.0
//! Fuzzing of all readers. Without options, runs the corpus once: a part of `cargo test`.
//! `make fuzz` runs it with `--fuzz TARGET --seconds N [--seed N]`. docs/dev/testing.md describes it.
//!
//! `--once TARGET FILE` runs an input again, `--replay TARGET` the corpus of a target.
//! `--write TARGET FILE OUT` writes the recordings of an input (OUT, OUT.2), for nvme-deep; FILE may also
//! be the name of an input of the corpus.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stderr,
    reason = "tests"
)]

mod blocks;
mod check;
mod child;
mod coverage;
mod crafted;
mod events;
mod memory;
mod minimise;
mod mutate;
mod parent;
mod seeds;
mod targets;
#[path = "../testing/mod.rs"]
mod testing;

use std::env;
use std::path::Path;
use std::process::ExitCode;

use self::child::Fuzz;
use self::parent::Options;
use self::targets::{Entry, TARGETS};

fn entry(name: &str) -> &'static Entry {
    let found = TARGETS.iter().find(|t| t.0 == name);
    found.unwrap_or_else(|| {
        let names: Vec<&str> = TARGETS.iter().map(|t| t.0).collect();
        panic!("no target {name}: there are {}", names.join(", "))
    })
}

fn child(words: &[&str]) -> bool {
    check::catch_panics();
    let number = |text: &str| text.parse().expect("a number");
    match words {
        ["replay", dir] => child::replay(Path::new(dir), None),
        ["replay", dir, name] => child::replay(Path::new(dir), Some(name)),
        ["once", dir, name, input] => child::once(Path::new(dir), entry(name), Path::new(input)),
        ["fuzz", dir, name, kept, seed, seconds] => Fuzz {
            entry: entry(name),
            dir: Path::new(dir),
            kept: kept.into(),
            seed: number(seed),
            seconds: number(seconds),
        }
        .run(),
        other => panic!("{other:?}"),
    }
}

fn main() -> ExitCode {
    let words: Vec<String> = env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let is_well = match words.as_slice() {
        ["--child", rest @ ..] => child(rest),
        ["--fuzz", ..] => parent::fuzz(&Options::of(&words)),
        ["--once", name, input] => parent::once(entry(name), Path::new(input)),
        ["--write", name, input, out] => seeds::write(name, input, Path::new(out)),
        ["--replay", name] => parent::replay(Some(name)),
        // of the test harness, for tests that this is not
        words if words.contains(&"--ignored") || words.contains(&"--list") => true,
        _ => parent::replay(None),
    };
    if is_well { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
