// SPDX-License-Identifier: MIT OR Apache-2.0
//! Compares the counts of the tool with fio, the kernel's disk statistics and its event histograms.

use std::collections::{BTreeMap, BTreeSet};

use super::guest::Outcome;
use super::json::{ToolRun, fio_counts, kernel_counts, list, number, text};

/// A number of the ledger of the final report.
pub fn ledger(run: &ToolRun, field: &str) -> u64 {
    number(&run.last["ledger"], field)
}

/// Reads and writes that fio issued in a case. The kernel must have counted the same.
fn reads_and_writes(outcome: &Outcome, case: &str) -> [u64; 2] {
    let [reads, writes, ..] = fio_counts(outcome, case);
    let [kernel_reads, kernel_writes, ..] = kernel_counts(outcome, case);
    assert_eq!([reads, writes], [kernel_reads, kernel_writes], "{case}: fio and the kernel");
    assert!(reads > 0 && writes > 0, "{case}: {reads} {writes}");
    [reads, writes]
}

/// Reads a run under a small load of reads and writes, which must have counted exactly that load.
pub fn exact(outcome: &Outcome, case: &str, name: &str) -> ToolRun {
    let run = ToolRun::read(outcome, case, name);
    let [reads, writes] = reads_and_writes(outcome, case);
    let want = BTreeMap::from([("read".to_owned(), reads), ("write".to_owned(), writes)]);
    assert_eq!(run.io_counts(), want, "{case}");
    run.assert_exact(case);
    assert_eq!(ledger(&run, "seen"), reads + writes, "{case}");
    assert_eq!(ledger(&run, "matched"), reads + writes, "{case}");
    assert_eq!(run.last["ledger"]["misses_known"], true, "{case}");
    assert_eq!(run.reports.len(), 1, "{case}");
    run
}

/// The same for kprobes and classic tracepoints, which may miss commands. Hits and the kernel's
/// count of misses must add up to the load, and the ledger must account for each command.
pub fn exact_but_for_misses(outcome: &Outcome, case: &str, name: &str) -> ToolRun {
    let run = ToolRun::read(outcome, case, name);
    let [reads, writes] = reads_and_writes(outcome, case);
    let entries = &run.last["ledger"];
    for point in ["setup_out", "complete"] {
        let hooks = list(entries, "hooks");
        let of_point = hooks.iter().filter(|h| h["point"] == point);
        let passed: u64 = of_point.map(|h| number(h, "hits") + number(h, "recursion_misses")).sum();
        assert_eq!(passed, reads + writes, "{case}: {point}: {entries}");
    }
    assert_eq!(entries["balance"]["balanced"], true, "{case}: {entries}");
    assert_eq!(entries["misses_known"], true, "{case}: {entries}");
    let ends = ["matched", "overwritten", "in_flight"].map(|f| ledger(&run, f));
    assert_eq!(ends.iter().sum::<u64>(), ledger(&run, "seen"), "{case}: {entries}");
    let in_rows: u64 = run.io_counts().values().sum();
    assert_eq!(in_rows, ledger(&run, "matched"), "{case}: {entries}");
    assert_eq!(ledger(&run, "negative_intervals"), 0, "{case}: {entries}");
    run
}

/// Points without a hook, each with the reasons.
pub fn rejected(run: &ToolRun) -> BTreeMap<String, Vec<String>> {
    let mut missing = BTreeMap::<String, Vec<String>>::new();
    for hook in list(&run.last["ledger"], "missing_hooks") {
        if hook["instead"].is_null() {
            let reasons = missing.entry(text(hook, "point").to_owned()).or_default();
            reasons.push(text(hook, "why").to_owned());
        }
    }
    missing
}

/// The kinds of hook that a point uses.
pub fn kinds<'r>(run: &'r ToolRun, point: &str) -> BTreeSet<&'r str> {
    let hooks = list(&run.last["ledger"], "hooks").iter();
    let of_point = hooks.filter(|h| h["point"] == point);
    of_point.map(|h| text(h, "kind")).collect()
}

/// The kernel's count of an nvme event between `count_events` and `events_counted`: on I/O queues,
/// and on admin queues.
pub fn events(outcome: &Outcome, case: &str, event: &str) -> [u64; 2] {
    let mut counts = [0; 2];
    let table = outcome.text(case, &format!("{event}.hist"));
    // { ctrl_id:          0, qid:          1 } hitcount:        785
    for line in table.lines().filter(|l| l.starts_with('{')) {
        let number = |after: &str| -> u64 {
            let rest = line.split_once(after).unwrap().1.trim_start();
            let end = rest.find(|c: char| !c.is_ascii_digit());
            rest[..end.unwrap_or(rest.len())].parse().unwrap()
        };
        counts[usize::from(number("qid:") == 0)] += number("hitcount:");
    }
    assert!(table.contains("Dropped: 0"), "{case}: the kernel lost some: {table}");
    counts
}

/// Users of the driver, kprobes and BPF programs must be the same after the last case as before the
/// first.
pub fn assert_nothing_is_left(outcome: &Outcome) {
    let [before, after] =
        ["before", "after"].map(|w| outcome.text("end", &format!("attached.{w}")));
    assert!(before.contains("users "), "{before}");
    assert_eq!(before, after);
}
