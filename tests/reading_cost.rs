// SPDX-License-Identifier: MIT OR Apache-2.0
//! User instructions per line of `trace --from`, counted by valgrind: that of a file minus that of
//! a smaller one, so that the start of the program does not count. Run it by `make test-cost`.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stderr,
    reason = "tests"
)]

mod made;

use std::env;
use std::fs::File;
use std::path::Path;
use std::process::Command;

use nvme_deep::model::stage::StageSet;
use nvme_deep::recording::Content;
use nvme_deep::recording::Recorder;
use tempfile::TempDir;

use self::made::Run;
use self::made::SECOND;
use self::made::info;
use self::made::ledger;
use self::made::read_at;
use self::made::record;

/// The binary that `make build` makes, or another one.
fn binary() -> String {
    let built = concat!(env!("CARGO_MANIFEST_DIR"), "/target/release/nvme-deep");
    env::var("NVME_DEEP_BIN").unwrap_or_else(|_| built.into())
}

/// The most instructions of a line, and of a command in a report.
const LINE: u64 = 2500;
const COUNTED: u64 = 3000;

/// The most instructions of a command and a gap of any length before it.
const GAP: u64 = 3_000_000;

/// User instructions of a run with this file.
fn instructions(words: &[&str], file: &Path, dir: &Path) -> u64 {
    let output = Command::new("valgrind")
        .args(["--tool=callgrind", "--callgrind-out-file=/dev/null"])
        .arg(binary())
        .args(words)
        .arg("--from")
        .arg(file)
        .stdout(File::create(dir.join("lines")).unwrap())
        .output()
        .expect("valgrind is installed");
    let text = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{text}");
    let count = text.lines().find_map(|l| l.split_once("Collected : "));
    count
        .unwrap_or_else(|| panic!("{text}"))
        .1
        .trim()
        .parse()
        .unwrap()
}

#[test]
#[ignore = "needs valgrind and target/release/nvme-deep; a part of make test-cost"]
fn a_line_costs_at_most_2500_instructions() {
    let dir = TempDir::new().unwrap();
    let mut run = Run {
        seconds: 10,
        reads: 1000,
        keep: None,
        info: info(),
    };
    run.info.stage_set = StageSet::Basic;
    let files = [10, 60].map(|seconds| {
        run.seconds = seconds;
        let path = dir.path().join(seconds.to_string());
        record(&path, &run, &mut |_| {});
        path
    });
    let mut over = false;
    for words in [
        "trace --pair",
        "trace --pair --stages",
        "trace --pair --stages --time wall",
        "trace --json --pair",
        "trace --json --pair --stages",
        "latency --stages",
    ] {
        let words: Vec<&str> = words.split(' ').collect();
        let [small, large] = [&files[0], &files[1]].map(|f| instructions(&words, f, dir.path()));
        let each = (large - small) / 50_000;
        eprintln!("{each:5} {}", words.join(" "));
        let most = if words[0] == "trace" { LINE } else { COUNTED };
        over |= each > most;
    }
    assert!(!over, "a line or a command costs more than it may");
}

/// A recording of commands at these times.
fn at_times(path: &Path, times: &[u64]) {
    let mut recorder = Recorder::create(File::create(path).unwrap(), true, None).unwrap();
    recorder.block(Content::Run, SECOND, &info());
    recorder.block(Content::Ledger, SECOND, &ledger(0, 0, 0));
    times
        .iter()
        .for_each(|at_ns| recorder.push(&read_at(*at_ns)));
    let all = times.len() as u64;
    recorder.block(Content::End, 2 * SECOND, &ledger(SECOND, 0, all));
    assert!(recorder.finish().error.is_none());
}

#[test]
#[ignore = "needs valgrind and target/release/nvme-deep; a part of make test-cost"]
fn a_gap_of_centuries_costs_no_more_than_a_few_commands() {
    let dir = TempDir::new().unwrap();
    let [near, far] = ["near", "far"].map(|name| dir.path().join(name));
    at_times(&near, &[SECOND + 5, 2 * SECOND, 3 * SECOND]);
    at_times(&far, &[SECOND + 5, 2 * SECOND, u64::MAX]);
    for words in ["top", "latency 1", "latency 10ms --delta", "pattern 1"] {
        let words: Vec<&str> = words.split(' ').collect();
        let [without, with] = [&near, &far].map(|f| instructions(&words, f, dir.path()));
        let more = with.saturating_sub(without);
        eprintln!("{more:8} {}", words.join(" "));
        assert!(more < GAP, "{}: {more} instructions", words.join(" "));
    }
}
