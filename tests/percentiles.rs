// SPDX-License-Identifier: MIT OR Apache-2.0
//! All views of a recording have the same percentiles: nearest rank among its commands.

use std::collections::BTreeMap;

use serde_json::Value;

use nvme_deep::units::nanos;

use crate::binary::{objects, run};

const FILES: [&str; 4] = [
    "tests/recordings/6.12.nvd",
    "tests/recordings/diagnose/clean-mixed-6.12.nvd",
    "tests/recordings/diagnose/path-failover.nvd",
    "tests/exports/complete.nvd",
];

/// Nearest rank.
fn quantile(values: &[u64], percent: u64) -> u64 {
    let mut values = values.to_vec();
    values.sort_unstable();
    let rank = (values.len() as u64 * percent).div_ceil(1000).max(1);
    values[rank as usize - 1]
}

type Row = (String, u64, String, u64, String);

/// The row of a command or of a report's row, and this stage.
fn row_of(object: &Value, stage: &str) -> Row {
    let text = |key: &str| object[key].as_str().unwrap().to_owned();
    let number = |key: &str| object[key].as_u64().unwrap();
    (text("ctrl"), number("nsid"), text("queue"), number("opcode_value"), stage.to_owned())
}

/// Values by row and stage, from the events of `trace`.
fn values(file: &str, stages: &str) -> BTreeMap<Row, Vec<u64>> {
    let mut all: BTreeMap<Row, Vec<u64>> = BTreeMap::new();
    for event in objects(&format!("trace --json --events {stages} --from {file}")) {
        if event["type"] != "command" && event["type"] != "missed" {
            continue;
        }
        let mut add = |stage: &str, ns: &Value| {
            let Some(ns) = ns.as_u64() else { return };
            all.entry(row_of(&event, stage)).or_default().push(ns);
        };
        for stage in event["stages"].as_array().into_iter().flatten() {
            add(stage["name"].as_str().unwrap(), &stage["ns"]);
        }
        let whole = if stages == "--stages=none" { "driver_ns" } else { "total_ns" };
        add("whole", &event[whole]);
    }
    all
}

#[test]
fn latency_has_the_percentiles_of_the_commands() {
    for file in FILES {
        for stages in ["--stages=none", "--stages=basic"] {
            let want = values(file, stages);
            let report = objects(&format!("latency --json {stages} --from {file}"));
            let mut compared = 0;
            for row in report.last().unwrap()["rows"].as_array().unwrap() {
                let staged = row["stages"].as_array().unwrap().iter();
                let staged = staged.map(|s| (s["name"].as_str().unwrap(), s));
                for (stage, found) in
                    staged.chain([("whole", row.get("total").unwrap_or(&row["driver"]))])
                {
                    let key = row_of(row, stage);
                    if found["count"] == 0 {
                        continue;
                    }
                    let values = &want[&key];
                    assert_eq!(found["count"], values.len(), "{file} {key:?}");
                    for (name, percent) in
                        [("p50_ns", 500), ("p90_ns", 900), ("p99_ns", 990), ("p999_ns", 999)]
                    {
                        let want = quantile(values, percent);
                        assert_eq!(found[name], want, "{file} {key:?} {name}");
                        compared += 1;
                    }
                    assert_eq!(found["percentile_error"], 0.0);
                }
            }
            assert!(compared >= 4, "{file}");
        }
    }
}

/// The p50 of a row by its controller, namespace and number of commands.
type Medians = BTreeMap<(String, u64, u64), u64>;

/// The medians of all rows of `latency` with these stages.
fn medians(file: &str, stages: &str) -> Medians {
    let report = objects(&format!("latency --json {stages} --from {file}"));
    let rows = report.last().unwrap()["rows"].as_array().unwrap().iter();
    rows.map(|row| {
        let number = |key: &str| row[key].as_u64().unwrap();
        let ctrl = row["ctrl"].as_str().unwrap().to_owned();
        let p50 = row.get("total").unwrap_or(&row["driver"])["p50_ns"].as_u64().unwrap_or(0);
        ((ctrl, number("nsid"), number("count")), p50)
    })
    .collect()
}

#[test]
fn diagnose_and_diff_have_the_median_of_latency() {
    let file = "tests/recordings/diagnose/clean-mixed-6.12.nvd";
    // the total that both show: to the end of the block layer's work
    let want = medians(file, "--stages=fine");
    let diff = objects(&format!("diff --json {file} {file}"));
    let mut compared = 0;
    for row in diff.iter().filter(|row| row["stage"] == "total") {
        let Some(nsid) = row["nsid"].as_u64() else { continue };
        let count = row["a"]["count"].as_u64().unwrap();
        // rows with commands of several sizes have no counterpart
        let Some(want) = want.get(&(row["ctrl"].as_str().unwrap().to_owned(), nsid, count)) else {
            continue;
        };
        assert_eq!(row["a"]["p50_ns"].as_f64(), Some(*want as f64), "{row}");
        compared += 1;
    }
    let diagnosis = run(&format!("diagnose {file}"));
    let table = diagnosis.out.lines().skip_while(|line| !line.starts_with("COMMANDS"));
    for line in table.skip(1).take_while(|line| !line.is_empty()) {
        let words: Vec<&str> = line.split_whitespace().collect();
        let rows = want.iter().filter(|((.., count), _)| words.contains(&&*count.to_string()));
        for (_, p50) in rows {
            assert!(words.contains(&&*nanos(*p50 as f64)), "{line}: {p50} ns");
            compared += 1;
        }
    }
    assert!(compared >= 4, "{compared}");
}
