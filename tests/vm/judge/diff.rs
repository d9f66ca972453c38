// SPDX-License-Identifier: MIT OR Apache-2.0
//! Comparisons of recordings: equal devices have no difference, and the one that is slower by 6 ms has
//! it in the device stage.

use serde_json::Value;

use super::guest::{Outcome, Suite};
use super::json::text;

const DIFF: Suite = Suite::of(
    "diff",
    &["nvme_null nvme0 20000000", "nvme_null nvme1 20000000", "nvme_null nvme2 26000000"],
);

/// The objects of a comparison: the verdict, and the rows.
fn objects(outcome: &Outcome, name: &str) -> (Value, Vec<Value>) {
    let mut rows = outcome.lines("diff", &format!("{name}.out"));
    let verdict = rows.remove(0);
    assert_eq!(text(&verdict, "type"), "diff");
    (verdict, rows)
}

/// The rows of a stage.
fn of_stage<'r>(rows: &'r [Value], stage: &str) -> Vec<&'r Value> {
    let found: Vec<&Value> = rows.iter().filter(|r| r["stage"] == stage).collect();
    assert!(!found.is_empty(), "no {stage}");
    found
}

/// The stages in the driver may differ: the controllers share CPUs, and one of them is served first.
fn equal_devices_have_no_difference(outcome: &Outcome) {
    let said = outcome.text("diff", "equal.out");
    assert!(said.lines().all(|l| l.chars().count() <= 80), "{said}");
    let (verdict, rows) = objects(outcome, "equal-json");
    let first = text(&verdict, "verdict");
    assert!(verdict["comparisons"].as_u64().unwrap() >= 12, "{verdict}");
    for row in of_stage(&rows, "device") {
        assert_eq!(row["changed"], false, "{said}");
    }
    let changed = rows.iter().filter(|r| r["changed"] == true).count();
    assert_eq!(verdict["changed_rows"], changed, "{said}");
    let none = first == "same";
    assert_eq!(none, changed == 0, "{said}");
    assert_eq!(outcome.code("diff", "equal"), if none { 0 } else { 3 });
}

fn the_slower_device_is_found(outcome: &Outcome) {
    let said = outcome.text("diff", "slower.out");
    let (_, rows) = objects(outcome, "slower-json");
    let device = of_stage(&rows, "device")[0];
    assert_eq!(device["changed"], true, "{said}");
    // 26 ms and 20 ms, each with the time of the emulator. On a busy host, 22 ms is not always found
    let p50 = &device["p50"];
    let [low, high] = ["low", "high"].map(|end| p50[end].as_f64().unwrap());
    assert!(1.0 < low && low < 1.3 && 1.2 < high && high < 1.6, "{p50}");
    let faster = outcome.text("diff", "faster.out");
    assert!(faster.starts_with("FASTER") && faster.contains("`device.run`"), "{faster}");
    assert_eq!(outcome.code("diff", "slower"), 0);
    assert_eq!(outcome.code("diff", "check"), 3);
}

fn what_cannot_be_compared_is_reported(outcome: &Outcome) {
    let stages = outcome.text("diff", "stages.out");
    assert_eq!(outcome.code("diff", "stages"), 0, "{stages}");
    assert!(stages.contains("A has fine stages, and the other side none"), "{stages}");
    let cut = outcome.text("diff", "cut.out");
    assert_eq!(outcome.code("diff", "cut"), 1, "{cut}");
    assert!(cut.contains("cut is incomplete: its first "), "{cut}");
    let said = outcome.text("diff", "cut.err");
    assert!(said.contains("it is truncated"), "{said}");
    outcome.assert_refused("diff", "none", 2, &["B has no command"]);
}

super::on_kernels! {
    suite DIFF [
        equal_devices_have_no_difference the_slower_device_is_found
        what_cannot_be_compared_is_reported
    ] {
        | only_in_test_all on_6_12 "6.12" on_7_x "7.x"
    }
}
