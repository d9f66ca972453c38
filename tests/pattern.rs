// SPDX-License-Identifier: MIT OR Apache-2.0
//! The `pattern` command on recordings: the same numbers as a second implementation of its rule
//! (tests/pattern/rule.py) has of `trace --json`. Neither root nor an NVMe device is needed.

mod rule;

use nvme_deep::model::event::{Event, EventKind};
use nvme_deep::recording::RunInfo;
use serde_json::Value;
use tempfile::TempDir;

use self::rule::{of_trace, same_rows};
use crate::binary::{Ran, objects, run};
use crate::testing::recording::{SECOND, info, made, read_at};

const MIXED: &str = "tests/exports/mixed.nvd";

fn pattern(words: &str) -> Ran {
    let ran = run(&format!("pattern {words}"));
    assert_eq!(ran.code, Some(0), "{words}: {}", ran.err);
    ran
}

fn reports(words: &str) -> Vec<Value> {
    objects(&format!("pattern --json {words}"))
}

fn count(row: &Value) -> u64 {
    row["count"].as_u64().unwrap()
}

#[test]
fn the_rows_are_those_of_the_rule_on_the_trace() {
    let unfiltered = ["exports/complete", "exports/none", "recordings/5.10", "recordings/6.12"];
    let filtered =
        ["", "--opcode read,write", "--no-admin"].map(|filter| ("exports/mixed", filter));
    for (name, filter) in unfiltered.map(|name| (name, "")).into_iter().chain(filtered) {
        let path = format!("tests/{name}.nvd");
        let trace = run(&format!("trace --json --events {filter} --from {path}"));
        let report = reports(&format!("{filter} --from {path}")).remove(0);
        let rows = same_rows(&report, &of_trace(&trace.out));
        assert!(rows > 0, "{name} {filter}: {report}");
    }
}

#[test]
fn the_intervals_add_up_to_the_run() {
    let all = reports(&format!("100ms --delta --from {MIXED}"));
    let (last, parts) = all.split_last().unwrap();
    assert!(parts.len() > 3, "{}", parts.len());
    assert_eq!(last["final"], true);
    let commands =
        |report: &Value| report["rows"].as_array().unwrap().iter().map(count).sum::<u64>();
    // the run goes on after the last whole interval
    let sum: u64 = parts.iter().map(commands).sum();
    assert!(sum > 0 && sum <= commands(last), "{sum}");
    let so_far = reports(&format!("100ms --from {MIXED}"));
    assert!(so_far.iter().map(commands).is_sorted());
    assert_eq!(so_far.last(), Some(last));
    // without --delta the final report is one of them
    assert_eq!(reports(&format!("100ms 2 --from {MIXED}")).len(), 2);
}

#[test]
fn the_picture_is_of_one_recording() {
    let svg = pattern(&format!("--from {MIXED} -o -")).out;
    assert!(svg.contains("sequential commands</title>"), "{svg}");
    run(&format!("pattern --from {MIXED} tests/exports/none.nvd -o -"))
        .refuses(2, "-o shows one recording");
}

/// Submissions without an end, as in a file that was made so: their number is bounded, and those that are
/// forgotten are counted.
#[test]
fn commands_that_are_forgotten_are_counted() {
    let dir = TempDir::new().unwrap();
    let path = dir.path().join("open.nvd");
    let most = 1_u64 << 19;
    made(&path, &RunInfo { pairs: false, ..info() }, SECOND, |recorder| {
        for n in 0..most + 10 {
            let at_ns = 2 * SECOND + n * 1000;
            let EventKind::Command(mut id, submission, _) = read_at(2 * SECOND).what else {
                panic!("another event");
            };
            (id.qid, id.cid) = ((n >> 16) as u16 + 1, n as u16);
            let what = EventKind::Submit(id, submission);
            recorder.push(&Event { at_ns, what });
        }
        0
    });
    let file = path.display();
    let report = reports(&format!("--from {file}")).remove(0);
    assert_eq!(report["forgotten"], most, "{report}");
    let says = format!("too small depths: {most} commands without an end were forgotten");
    let ran = run(&format!("heatmap --y inflight -o - --from {file}"));
    assert_eq!(ran.code, Some(0), "{}", ran.err);
    assert!(ran.err.contains(&says), "{}", ran.err);
}
