// SPDX-License-Identifier: MIT OR Apache-2.0
//! `latency --by` of recordings: the groups are those that `trace --json` shows.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::binary::{Ran, objects, run};

const RECORDING: &str = "tests/recordings/6.12.nvd";

fn ran(words: &str) -> Ran {
    let ran = run(&format!("{words} --from {RECORDING}"));
    assert_eq!((ran.code, ran.err.as_str()), (Some(0), ""), "{}", ran.words);
    ran
}

/// The groups of a report.
fn groups(words: &str) -> Vec<Value> {
    let report = objects(&format!("latency --json {words} --from {RECORDING}")).remove(0);
    assert!(report.get("rows").is_none());
    report["groups"].as_array().unwrap().clone()
}

/// Commands and sum of latencies by a key, of the events.
fn by_event(key: impl Fn(&Value) -> String) -> BTreeMap<String, (u64, u64)> {
    let mut sums: BTreeMap<String, (u64, u64)> = BTreeMap::new();
    let events = objects(&format!("trace --json --from {RECORDING}"));
    for event in events.iter().filter(|e| e["type"] == "command") {
        let sum = sums.entry(key(event)).or_default();
        sum.0 += 1;
        sum.1 += event["driver_ns"].as_u64().unwrap();
    }
    assert!(!sums.is_empty());
    sums
}

/// The same of the groups.
fn by_group(words: &str, key: impl Fn(&Value) -> String) -> BTreeMap<String, (u64, u64)> {
    let number = |value: &Value| value.as_u64().unwrap();
    let sums = groups(&format!("--stages=none {words}")).into_iter().map(|group| {
        assert_eq!(group["count"], group["driver"]["count"]);
        let sum = (number(&group["count"]), number(&group["driver"]["sum_ns"]));
        (key(&group), sum)
    });
    sums.collect()
}

#[test]
fn groups_have_the_commands_of_their_events() {
    let fields = |names: &'static [&'static str]| {
        move |value: &Value| {
            let texts = names.iter().map(|name| value[*name].to_string());
            texts.collect::<Vec<_>>().join(" ")
        }
    };
    let cases: [(&str, &'static [&'static str]); 6] = [
        ("process", &["pid"]),
        ("comm", &["comm"]),
        ("cpu", &["cpu"]),
        ("queue", &["ctrl", "qid"]),
        ("disk,opcode", &["ctrl", "nsid", "queue", "opcode"]),
        ("process,opcode,cpu", &["pid", "queue", "opcode", "cpu"]),
    ];
    let mut most = 0;
    for (by, names) in cases {
        let found = by_group(&format!("--by {by}"), fields(names));
        most = most.max(found.len());
        assert_eq!(found, by_event(fields(names)), "{by}");
    }
    assert!(most > 3, "the recording has few groups: {most}");
    let size = |bytes: u64| {
        if bytes == 0 { 0 } else { bytes.next_power_of_two() }
    };
    let found = by_group("--by size", |g| g["max_bytes"].to_string());
    let want = by_event(|e| size(e["bytes"].as_u64().unwrap()).to_string());
    assert_eq!(found, want);
}

#[test]
fn stages_and_shares_of_groups_add_up_to_those_without_groups() {
    let words = "--stages=fine --json";
    let all = objects(&format!("latency {words} --from {RECORDING}")).remove(0);
    let sum = |rows: &[Value]| {
        let mut sums: BTreeMap<String, u64> = BTreeMap::new();
        for stage in rows.iter().flat_map(|row| row["stages"].as_array().unwrap()) {
            let name = stage["name"].as_str().unwrap().to_owned();
            *sums.entry(name).or_default() += stage["sum_ns"].as_u64().unwrap();
        }
        sums
    };
    let groups = groups("--stages=fine --by process,cpu");
    assert_eq!(sum(&groups), sum(all["rows"].as_array().unwrap()));
    let shares = groups.iter().map(|g| g["time_share"].as_f64().unwrap());
    let shares: Vec<f64> = shares.collect();
    assert!((shares.iter().sum::<f64>() - 1.0).abs() < 1e-9);
    assert!(shares.is_sorted_by(|a, b| a >= b), "{shares:?}");
}

#[test]
fn groups_come_in_the_order_that_is_asked_for() {
    let order = |sort: &str, of: fn(&Value) -> u64| {
        let groups = groups(&format!("--by process,opcode --sort {sort}"));
        let values: Vec<u64> = groups.iter().map(of).collect();
        assert!(values.is_sorted_by(|a, b| a >= b), "{sort}: {values:?}");
        assert!(values.first() > values.last(), "{sort}: {values:?}");
    };
    order("p99", |g| g["total"]["p99_ns"].as_u64().unwrap());
    order("iops", |g| g["count"].as_u64().unwrap());
    order("bytes", |g| g["bytes"].as_u64().unwrap());
}

#[test]
fn a_text_has_a_line_per_group_and_says_how_many_it_leaves_out() {
    let all = ran("latency --by process,opcode").out;
    assert!(all.lines().all(|l| l.chars().count() <= 80), "{all}");
    assert!(all.contains("\nPROCESS,OPCODE"), "{all}");
    let few = ran("latency --by process,opcode --top 1").out;
    assert!(few.contains(" more groups: "), "{few}");
    let stages = ran("latency --by comm --stages").out;
    assert!(stages.contains("\n  device: run "), "{stages}");
}

#[test]
fn what_is_no_key_is_refused() {
    let ran = run("latency --by pid");
    ran.refuses(2, "`pid` is not a key: choose from process, comm, ");
    ran.refuses(2, ", or sizes of your own: size=16K,64K");
    run("latency --sort p99").refuses(2, "--by");
    run("latency --by size=12K").refuses(2, "power of two");
    run("latency --by cpu,64K").refuses(2, "`--by size=16K,64K`");
    run("latency --by priority --lat-shift 2").refuses(2, "does not work with --lat-min-us");
    run("latency --by disk,priority --from x.nvd").refuses(2, "only while tracing");
    for by in ["cgroup", "disk,container"] {
        let command = format!("latency --by {by} --from tests/recordings/6.12.nvd");
        run(&command).refuses(2, "record again with full stages (the default)");
    }
    run("latency --by cpu --stages=full").refuses(2, "use --stages=fine");
}
