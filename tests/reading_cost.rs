// SPDX-License-Identifier: MIT OR Apache-2.0
//! User instructions of reading, counted by valgrind: per line of `trace --from`: a file
//! minus a smaller one, so that the start of the program does not count; and how they grow
//! with inputs that were made to be slow. Run it by `make test-cost`.

use std::env;
use std::fs::File;
use std::path::Path;

use nvme_deep::model::event::{Event, EventKind};
use nvme_deep::model::stage::StageSet;
use nvme_deep::recording::RunInfo;
use tempfile::TempDir;

use crate::testing::recording::{Run, SECOND, info, made, read_at, record};
use crate::testing::valgrind;

/// The binary that `make build` makes, or another one.
fn binary() -> String {
    let built = concat!(env!("CARGO_MANIFEST_DIR"), "/target/release/nvme-deep");
    env::var("NVME_DEEP_BIN").unwrap_or_else(|_| built.into())
}

/// The most instructions of a line of JSON, of a line of text, and of a command in a report. Lines: twice
/// what they took before all forms had one table of fields.
const JSON: u64 = 5176;
const TEXT: u64 = 4094;
const COUNTED: u64 = 2600;

/// The most instructions of a command and a gap of any length before it.
const GAP: u64 = 3_000_000;

/// The most instructions for four times the input, by those for the input.
const GROWTH: f64 = 5.0;

/// User instructions of a run with this recording.
fn instructions(words: &[&str], file: &Path, dir: &Path) -> u64 {
    let file = file.to_str().unwrap();
    instructions_of(&[words, &["--from", file]].concat(), dir)
}

/// User instructions of a run.
fn instructions_of(words: &[&str], dir: &Path) -> u64 {
    valgrind::instructions(binary(), |run| {
        run.args(words).stdout(File::create(dir.join("lines")).unwrap());
    })
}

#[test]
#[ignore = "needs valgrind and target/release/nvme-deep; a part of make test-cost"]
fn a_line_costs_no_more_than_it_may() {
    let dir = TempDir::new().unwrap();
    let mut run = Run { seconds: 10, reads: 1000, keep: None, info: info() };
    run.info.stage_set = StageSet::Basic;
    let files = [5, 25].map(|seconds| {
        run.seconds = seconds;
        let path = dir.path().join(seconds.to_string());
        record(&path, &run, &mut |_| {});
        path
    });
    let mut over = false;
    for words in [
        "trace --stages=none",
        "trace --stages",
        "trace --long --stages",
        "trace --stages --time mono",
        "trace --json --stages=none",
        "trace --json --stages",
        "latency --stages",
    ] {
        let words: Vec<&str> = words.split(' ').collect();
        let [small, large] = [&files[0], &files[1]].map(|f| instructions(&words, f, dir.path()));
        let each = (large - small) / 20_000;
        eprintln!("{each:5} {}", words.join(" "));
        let most = match words[0] {
            "trace" if words.contains(&"--json") => JSON,
            "trace" => TEXT,
            _ => COUNTED,
        };
        over |= each > most;
    }
    assert!(!over, "a line or a command costs more than it may");
}

/// A recording of commands at these times.
fn at_times(path: &Path, times: &[u64]) {
    made(path, &info(), SECOND, |recorder| {
        times.iter().for_each(|at_ns| recorder.push(&read_at(*at_ns)));
        times.len() as u64
    });
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

/// Kinds of commands; no reader refuses so many.
const KINDS: u64 = 400;

/// Commands that timed out, at ever longer distances: of many controllers, and of many disks of one
/// controller, in all sizes, and of ever new queues.
fn of_many_kinds(path: &Path, commands: u64) {
    made(path, &RunInfo { stage_set: StageSet::Fine, ..info() }, SECOND, |recorder| {
        for n in 0..commands {
            let mut event = read_at(2 * SECOND + n * n * 1_000_000);
            let EventKind::Command(id, submission, _) = &mut event.what else {
                panic!("{event:?}");
            };
            let kind = (n % KINDS) as u32;
            (id.ctrl, id.nsid) = (if n % 2 == 0 { kind } else { 0 }, kind + 1);
            (id.qid, id.cid) = (n as u16, n as u16);
            submission.bytes = Some(1 << (n % 31));
            let timeout = EventKind::Timeout { id: *id, age_ns: SECOND };
            recorder.push(&Event { at_ns: event.at_ns, what: timeout });
            recorder.push(&event);
        }
        commands
    });
}

#[test]
#[ignore = "needs valgrind and target/release/nvme-deep; a part of make test-cost"]
fn four_times_the_input_costs_at_most_five_times_the_instructions() {
    let dir = TempDir::new().unwrap();
    let path = dir.path().join("made");
    let words = ["diagnose", "-v", "--from", path.to_str().unwrap()];
    let [few, many] = [500, 2000].map(|commands| {
        of_many_kinds(&path, commands);
        instructions_of(&words, dir.path())
    });
    let growth = many as f64 / few as f64;
    eprintln!("{few:11} to {many:11} ({growth:.1}) diagnose -v");
    assert!(growth <= GROWTH, "the cost of a part of the input grows with the input");
}
