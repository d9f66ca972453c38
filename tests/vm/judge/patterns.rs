// SPDX-License-Identifier: MIT OR Apache-2.0
//! Access patterns: what fio was asked for; the same numbers live, and from recordings with one and
//! with two events per command; equal to a second implementation of the rule. Heat maps.

use serde_json::Value;

use super::guest::{Outcome, Suite};
use super::json::{list, number, text};
use super::rule::{of_trace, same_rows};

const PATTERNS: Suite = Suite::of("patterns", &["nvme_null nvme0 0"]);

const CASES: [&str; 8] =
    ["sequential", "random", "percent", "readwrite", "streams", "zipf", "batches", "unaligned"];

/// The final report of a run.
fn report(outcome: &Outcome, case: &str, name: &str) -> Value {
    let report = outcome.objects(case, name).pop().unwrap();
    assert_eq!(report["final"], true, "{case} {name}");
    assert_eq!(report["ledger"]["balance"]["balanced"], true, "{case} {name}");
    for key in ["lost_submits", "lost_completions", "out_of_order"] {
        assert_eq!(number(&report["ledger"], key), 0, "{case} {name}: {key}");
    }
    report
}

/// The row of fio with this opcode, in each of the three ways.
fn rows(outcome: &Outcome, case: &str, opcode: &str) -> Vec<Value> {
    let row = |name| {
        let report = report(outcome, case, name);
        let of_fio = |r: &&Value| text(r, "comm") == "fio" && text(r, "opcode") == opcode;
        let rows = list(&report, "rows");
        let mut found = rows.iter().filter(of_fio);
        let row = found.next().unwrap_or_else(|| panic!("{case} {name}: {report}"));
        assert!(found.next().is_none(), "{case} {name}: {report}");
        row.clone()
    };
    ["live", "tee-pattern", "record-pattern"].map(row).into()
}

/// Commands, sequential ones, streams.
fn counts(row: &Value) -> [u64; 3] {
    ["count", "sequential", "streams"].map(|key| number(row, key))
}

/// How many commands begin before the one that was submitted before them.
fn goes_back(outcome: &Outcome, case: &str) -> usize {
    let trace = outcome.text(case, "tee-trace.out");
    let lines = trace.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let submits = lines.filter(|line| text(line, "type") == "submit");
    let blocks: Vec<u64> = submits.map(|line| number(&line["fields"], "slba")).collect();
    blocks.windows(2).filter(|pair| pair[1] < pair[0]).count()
}

fn what_fio_was_asked_for(outcome: &Outcome) {
    for row in rows(outcome, "sequential", "read") {
        assert_eq!(counts(&row), [2000, 1999, 1], "{row}");
        assert_eq!(row["distance_blocks"]["buckets"][0]["count"], 1999, "{row}");
        assert_eq!(row["size_blocks"]["buckets"][0]["first"], 16, "{row}");
    }
    for row in rows(outcome, "random", "read") {
        let [count, sequential, _] = counts(&row);
        // one of 262144 blocks: a few by chance
        assert!(count == 2000 && sequential < 20, "{row}");
    }
    for row in rows(outcome, "percent", "read") {
        let [count, sequential, _] = counts(&row);
        // 70 %, by a random choice for each: six standard deviations are 123
        assert!(count == 2000 && (1277..1523).contains(&sequential), "{row}");
    }
    for opcode in ["read", "write"] {
        for row in rows(outcome, "readwrite", opcode) {
            let [count, sequential, streams] = counts(&row);
            assert_eq!((sequential, streams), (count - 1, 1), "{row}");
        }
    }
    for row in rows(outcome, "streams", "write") {
        assert_eq!(counts(&row), [2000, 1992, 8], "{row}");
    }
    for row in rows(outcome, "zipf", "read") {
        let [count, sequential, _] = counts(&row);
        assert!(count == 2000 && sequential < 400, "{row}");
    }
    for row in rows(outcome, "batches", "read") {
        let [count, sequential, _] = counts(&row);
        assert!(count == 2000 && sequential >= 1990, "{row}");
    }
    // 6.12.117 sends them in order
    if outcome.kernel() == "6.1" {
        assert!(goes_back(outcome, "batches") > 1000, "no batch was reversed");
    }
    for row in rows(outcome, "unaligned", "write") {
        let aligned = list(&row["alignment_blocks"], "buckets").iter();
        let to_4k: u64 =
            aligned.filter(|b| number(b, "first") >= 8).map(|b| number(b, "count")).sum();
        // 3 KiB is no multiple of 4 KiB
        assert_eq!((number(&row, "count"), to_4k), (500, 0), "{row}");
        // one at a time
        assert_eq!(row["in_flight"]["buckets"][0]["count"], 500, "{row}");
        assert_eq!(row["in_flight"]["buckets"][0]["first"], 1, "{row}");
    }
}

fn the_rule_on_the_trace(outcome: &Outcome) {
    for case in CASES {
        for name in ["tee", "record"] {
            let trace = outcome.text(case, &format!("{name}-trace.out"));
            let report = report(outcome, case, &format!("{name}-pattern"));
            assert!(same_rows(&report, &of_trace(&trace)) > 0, "{case} {name}");
        }
        let screen = outcome.text(case, "text.out");
        assert!(screen.lines().all(|l| l.chars().count() <= 80), "{screen}");
        assert!(outcome.text(case, "pattern.svg").ends_with("</svg>\n"));
    }
}

fn heat_maps_have_every_command(outcome: &Outcome) {
    for y in ["latency", "lba", "size", "inflight", "device"] {
        let said = outcome.text("heatmap", &format!("{y}.err"));
        assert_eq!(outcome.code("heatmap", y), 0, "{said}");
        assert!(said.contains("accuracy  exact"), "{y}: {said}");
    }
    for y in ["latency", "lba", "size", "inflight"] {
        let svg = outcome.text("heatmap", &format!("{y}.svg"));
        let notes = svg.split("<title>").skip(1);
        let counts = notes.filter_map(|n| {
            let several = n.split_once(" commands&#10;");
            several.or_else(|| n.split_once(" command&#10;"))
        });
        let drawn: u64 =
            counts.map(|(count, _)| count.replace(',', "").parse::<u64>().unwrap()).sum();
        assert_eq!(drawn, 1500, "{y}");
    }
    let inflight = outcome.text("heatmap", "inflight.svg");
    assert!(inflight.contains("&#10;6 in flight&#10;"), "{inflight}");
    assert!(!inflight.contains("&#10;7 in flight&#10;"), "{inflight}");
}

super::on_kernels! {
    suite PATTERNS [
        what_fio_was_asked_for the_rule_on_the_trace
        heat_maps_have_every_command
    ] {
        | only_in_test_all on_6_12 "6.12" on_5_10 "5.10" on_6_1 "6.1" on_7_x "7.x"
    }
}
