// SPDX-License-Identifier: MIT OR Apache-2.0
//! Fuzzing of all readers. Without options, runs the corpus once: a part of `cargo test`.
//! `make fuzz` runs it with `--fuzz TARGET --seconds N --seed N`: docs/dev/testing.md.
//!
//! `--once TARGET FILE` runs one input again.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests")]

mod blocks;
mod crafted;
mod memory;
mod mutate;
mod seeds;
mod targets;
#[path = "../testing/mod.rs"]
mod testing;

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{Write, stderr};
use std::os::fd::AsFd;
use std::panic::{AssertUnwindSafe, catch_unwind, set_hook};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Mutex;
use std::time::{Duration, Instant};
use std::{env, fs, process};

use fastrand::Rng;
use rustix::stdio::{dup2_stderr, dup2_stdout};
use rustix::time::{ClockId, clock_gettime};
use tempfile::TempDir;

use self::memory::peak_of;
use self::mutate::{Random, mutate};
use self::targets::{ALL, Entry, Form, TARGETS, Target, memory};

/// CPU time after which an input is a finding.
const SLOW: Duration = Duration::from_secs(10);

/// Where the last panic was, of any thread.
static PANIC: Mutex<Option<String>> = Mutex::new(None);

/// Runs inputs, and keeps those that fail.
struct Fuzzer {
    /// The own stderr: what targets print goes nowhere.
    report: File,
    /// Where findings are kept, and the current input, in case this process dies of it.
    kept: PathBuf,
    is_well: bool,
}

fn cpu() -> Duration {
    let now = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(now.tv_sec as u64, now.tv_nsec as u32)
}

impl Fuzzer {
    fn new() -> Self {
        let report = File::from(stderr().as_fd().try_clone_to_owned().expect("stderr"));
        let null = File::options().write(true).open("/dev/null").expect("/dev/null");
        dup2_stdout(&null).expect("stdout");
        dup2_stderr(&null).expect("stderr");
        set_hook(Box::new(|info| {
            let text = info.to_string().replace('\n', " ");
            if let Ok(mut panic) = PANIC.lock() {
                panic.get_or_insert(text);
            }
        }));
        let kept = Path::new(env!("CARGO_MANIFEST_DIR")).join("target/fuzz-found");
        fs::create_dir_all(&kept).expect("target/fuzz-found");
        Self { report, kept, is_well: true }
    }

    fn current(&self) -> PathBuf {
        self.kept.join(format!("current-{}", process::id()))
    }

    fn say(&mut self, text: &str) {
        let _ = writeln!(self.report, "{text}");
    }

    /// What is wrong with a run; `None`: nothing.
    fn check(&self, form: Form, target: &Target, input: &[u8]) -> Option<String> {
        let current = self.current();
        let _ = fs::write(&current, input);
        let most = memory(form, input);
        let (begin, mut done) = (cpu(), Ok(()));
        let peak = peak_of(|| done = catch_unwind(AssertUnwindSafe(|| target(input))));
        let took = cpu() - begin;
        let _ = fs::remove_file(current);
        let panic = PANIC.lock().ok().and_then(|mut panic| panic.take());
        if panic.is_some() || done.is_err() {
            return Some(panic.unwrap_or_else(|| "panic".into()));
        }
        // the commands that an input of the corpus may stand for take longer
        if took > SLOW && input.first() != Some(&ALL) {
            return Some(format!("slow: {took:?}"));
        }
        (peak > most).then(|| format!("memory: {} KiB of {} KiB", peak >> 10, most >> 10))
    }

    /// Runs all inputs of the corpus.
    fn replay(&mut self) {
        let dir = work();
        for (name, form, target) in &TARGETS {
            let target = target(dir.path());
            let inputs = seeds::corpus(name);
            for (from, input) in &inputs {
                if let Some(finding) = self.check(*form, &target, input) {
                    self.is_well = false;
                    self.say(&format!("{name}: {from}: {finding}"));
                }
            }
            assert!(!inputs.is_empty(), "{name} has no input");
            self.say(&format!("{name}: {} inputs", inputs.len()));
        }
    }

    /// Runs changed inputs of the corpus, and keeps the first of each kind that fails.
    fn fuzz(&mut self, (name, form, target): &Entry, seconds: u64, seed: u64) {
        let (dir, start, mut random) = (work(), Instant::now(), Random(Rng::with_seed(seed)));
        let target = target(dir.path());
        let seeds = seeds::seeds(name, *form);
        let (mut runs, mut found) = (0, BTreeSet::new());
        while start.elapsed().as_secs() < seconds {
            let [from, other] = [0; 2].map(|_| &seeds[random.below(seeds.len())]);
            let input = mutate(&mut random, *form, from, other);
            runs += 1;
            let Some(finding) = self.check(*form, &target, &input) else { continue };
            // a panic has its place first, then numbers that change
            let kind: String = finding.split(": ").next().unwrap_or_default().into();
            if found.insert(kind) {
                let path = self.kept.join(format!("{name}-{seed}-{runs}"));
                let _ = fs::write(&path, &input);
                self.is_well = false;
                self.say(&format!("{name}: FINDING {finding}\n  in {}", path.display()));
            }
        }
        self.say(&format!("{name}: seed {seed}, {runs} runs, {} findings", found.len()));
    }
}

/// A directory for files of inputs, in memory where that is possible.
fn work() -> TempDir {
    let shm = Path::new("/dev/shm");
    TempDir::new_in(if shm.is_dir() { shm } else { Path::new("/tmp") }).expect("a directory")
}

fn entry(name: &str) -> &'static Entry {
    let found = TARGETS.iter().find(|t| t.0 == name);
    let names = || TARGETS.map(|t| t.0).join(", ");
    found.unwrap_or_else(|| panic!("no target {name}: there are {}", names()))
}

fn main() -> ExitCode {
    let words: Vec<String> = env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let number = |text: &str| text.parse().expect("a number");
    // of the test harness, for tests that this is not
    if words.contains(&"--ignored") || words.contains(&"--list") {
        return ExitCode::SUCCESS;
    }
    let chosen = match words.as_slice() {
        ["--fuzz", "all", ..] => TARGETS.iter().collect(),
        ["--fuzz" | "--once", name, ..] => vec![entry(name)],
        _ => vec![],
    };
    let mut fuzzer = Fuzzer::new();
    match words.as_slice() {
        ["--fuzz", _, "--seconds", seconds, "--seed", seed] => {
            chosen.iter().for_each(|entry| fuzzer.fuzz(entry, number(seconds), number(seed)));
        }
        ["--once", _, input] => {
            let (dir, (_, form, target)) = (work(), chosen[0]);
            let finding = fuzzer.check(*form, &target(dir.path()), &fs::read(input).unwrap());
            fuzzer.is_well = finding.is_none();
            fuzzer.say(&finding.unwrap_or_else(|| "no finding".into()));
        }
        _ => fuzzer.replay(),
    }
    if fuzzer.is_well { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
