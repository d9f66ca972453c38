// SPDX-License-Identifier: MIT OR Apache-2.0
//! Starts the processes that run targets, and keeps the inputs with which they die.

use std::io::{BufRead, BufReader, pipe};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::time::{Instant, SystemTime};
use std::{env, fs};

use tempfile::TempDir;

use crate::check::SLOW_CODE;
use crate::entry;
use crate::minimise::minimise;
use crate::targets::{Entry, TARGETS};

/// Most processes that die, per target.
const DEATHS: usize = 5;

/// What to fuzz.
pub struct Options {
    targets: Vec<&'static Entry>,
    seconds: u64,
    seed: u64,
}

impl Options {
    /// Reads the options.
    pub fn of(words: &[&str]) -> Self {
        let value = |name: &str| {
            let at = words.iter().position(|w| *w == name)?;
            words.get(at + 1).copied()
        };
        let number = |name: &str| value(name).map(|text| text.parse().expect("a number"));
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        Self {
            targets: match value("--fuzz") {
                None | Some("all") => TARGETS.iter().collect(),
                Some(name) => vec![entry(name)],
            },
            seconds: number("--seconds").unwrap_or(60),
            seed: number("--seed").unwrap_or_else(|| now.map_or(0, |t| t.as_secs())),
        }
    }
}

/// A directory for files of inputs, in memory where that is possible.
fn work() -> TempDir {
    let shm = Path::new("/dev/shm");
    let made = TempDir::new_in(if shm.is_dir() { shm } else { Path::new("/tmp") });
    made.unwrap_or_else(|e| panic!("no directory for files: {e}"))
}

/// Runs this program as a child. Passes its lines on.
fn run(words: &[&str], line: &mut dyn FnMut(&str)) -> ExitStatus {
    let (reader, writer) = pipe().expect("a pipe");
    let program = env::current_exe().expect("the path of this program");
    let mut command = Command::new(program);
    command.arg("--child").args(words).stdin(writer);
    command.stdout(Stdio::null()).stderr(Stdio::null());
    let mut child = command.spawn().expect("this program runs");
    // the command has the other end of the pipe
    drop(command);
    for text in BufReader::new(reader).lines().map_while(Result::ok) {
        line(&text);
    }
    child.wait().expect("a child ends")
}

fn text(path: &Path) -> &str {
    path.to_str().expect("a path is UTF-8")
}

/// How a child died.
fn death(status: ExitStatus) -> String {
    if status.code() == Some(SLOW_CODE.into()) { "slow".into() } else { format!("died: {status}") }
}

/// Runs the corpus of a target, or of all.
pub fn replay(target: Option<&str>) -> bool {
    let dir = work();
    let mut words = vec!["replay", text(dir.path())];
    words.extend(target);
    let mut last = String::new();
    let status = run(&words, &mut |line| {
        eprintln!("{line}");
        line.clone_into(&mut last);
    });
    if !matches!(status.code(), Some(0 | 1)) {
        eprintln!("after `{last}`: {}", death(status));
    }
    status.success()
}

/// Runs one input.
pub fn once(entry: &Entry, input: &Path) -> bool {
    let dir = work();
    let words = ["once", text(dir.path()), entry.0, text(input)];
    let status = run(&words, &mut |line| eprintln!("{line}"));
    if !matches!(status.code(), Some(0 | 1)) {
        eprintln!("{}", death(status));
    }
    status.success()
}

/// Keeps the input with which a child died, made smaller.
fn keep(entry: &Entry, dir: &Path, kept: &Path, status: ExitStatus) {
    let input = fs::read(dir.join("current")).unwrap_or_default();
    let trial = dir.join("trial");
    let fails = &mut |input: &[u8]| {
        fs::write(&trial, input).is_ok()
            && run(&["once", text(dir), entry.0, text(&trial)], &mut |_| {}) == status
    };
    // a slow input takes its time at each try
    let is_slow = status.code() == Some(SLOW_CODE.into());
    let small = if is_slow { input.clone() } else { minimise(entry.1, &input, fails) };
    let name = format!("death-{:08x}", crc32fast::hash(&small));
    let path = kept.join("findings").join(name);
    let _ = fs::write(&path, &small);
    eprintln!(
        "{}: FINDING {}\n  {} bytes in {}",
        entry.0,
        death(status),
        small.len(),
        path.display()
    );
}

/// Where findings are kept.
fn kept(entry: &Entry) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("target/fuzz-found").join(entry.0)
}

/// Fuzzes the targets. Returns whether there was no finding.
pub fn fuzz(options: &Options) -> bool {
    let mut is_well = true;
    for entry in &options.targets {
        eprintln!("{}: seed {}, {} s", entry.0, options.seed, options.seconds);
        let (dir, kept, begin) = (work(), kept(entry), Instant::now());
        for death in 0..DEATHS as u64 {
            let seconds = options.seconds.saturating_sub(begin.elapsed().as_secs());
            let (seed, seconds) = ((options.seed + death).to_string(), seconds.to_string());
            let dir = dir.path();
            let words = ["fuzz", text(dir), entry.0, text(&kept), &seed, &seconds];
            let status = run(&words, &mut |line| eprintln!("{line}"));
            is_well &= status.success();
            if matches!(status.code(), Some(0 | 1)) {
                break;
            }
            keep(entry, dir, &kept, status);
        }
    }
    is_well
}
