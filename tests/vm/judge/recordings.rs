// SPDX-License-Identifier: MIT OR Apache-2.0
//! Recordings: the same commands as a trace beside them and as fio issued; every view of them;
//! `--tee` and `--from` print the same bytes; what is left of an interrupted file.

use std::collections::BTreeMap;

use serde_json::Value;

use super::guest::{Outcome, Suite};
use super::json::{ToolRun, fio_counts, kernel_counts, list, number, text, whole};
use super::trace_read::TraceRun;

const RECORDINGS: Suite = Suite {
    append: "nvme_core.io_timeout=1",
    ..Suite::of(
        "recordings",
        &[
            "nvme_null nvme0 0",
            "nvme_blkdebug nvme1 0 read,sector=2048",
            "nvme_null nvme2 7000000000 ns:ms=8 ns:mset=1",
        ],
    )
};

const REST: Suite =
    Suite { variant: "-rest", append: "nvme_core.io_timeout=1 REST=1", ..RECORDINGS };

/// The commands of a trace by what identifies them, without times.
fn commands(run: &TraceRun) -> BTreeMap<String, u64> {
    let mut all = BTreeMap::new();
    for event in run.of("command") {
        let id =
            [&event["qid"], &event["cid"], &event["opcode"], &event["fields"], &event["bytes"]];
        let id = format!("{id:?} {} {}", event["pid"], event["status"]["value"]);
        *all.entry(id).or_default() += 1;
    }
    all
}

fn the_same_commands(outcome: &Outcome) {
    let [reads, writes, ..] = fio_counts(outcome, "load");
    let [kernel_reads, kernel_writes, ..] = kernel_counts(outcome, "load");
    assert_eq!([reads, writes], [kernel_reads, kernel_writes]);
    assert_eq!(reads + writes, 3000);
    let live = TraceRun::read(outcome, "load", "trace");
    let from = TraceRun::read(outcome, "load", "all");
    assert_eq!(commands(&live), commands(&from));
    assert_eq!(from.of("command").count(), 3000);
    for name in ["lost_completions", "not_written", "undecodable"] {
        assert_eq!(number(&from.ledger, name), 0, "{name}");
    }
    assert_eq!(from.ledger["balance"]["balanced"], true);
    let said = outcome.text("load", "record.err");
    assert!(said.contains("3000 commands in "), "{said}");
    assert!(said.contains("exact: 3000 commands, 0 lost"), "{said}");
    let stat = outcome.text("load", "stat.file");
    let (mode, size) = stat.trim().split_once(' ').unwrap();
    assert_eq!(mode, "600");
    let size: u64 = size.parse().unwrap();
    assert!(size < 3000 * 40, "{size}");
}

/// The histogram of single values, as the sum and the count of `latency --from`.
fn sums(run: &TraceRun) -> BTreeMap<String, (u64, u64)> {
    let mut all: BTreeMap<String, (u64, u64)> = BTreeMap::new();
    for command in run.of("command") {
        let sum = all.entry(text(command, "opcode").to_owned()).or_default();
        sum.0 += 1;
        sum.1 += number(command, "total_ns");
    }
    all
}

fn rows(run: &ToolRun) -> BTreeMap<String, (u64, u64)> {
    let mut all: BTreeMap<String, (u64, u64)> = BTreeMap::new();
    for row in run.rows() {
        let sum = all.entry(text(row, "opcode").to_owned()).or_default();
        sum.0 += number(row, "count");
        sum.1 += number(whole(row), "sum_ns");
    }
    all
}

fn rows_are_those_of_the_events(outcome: &Outcome) {
    let events = TraceRun::read(outcome, "load", "all");
    let report = ToolRun::read(outcome, "load", "latency");
    assert_eq!(rows(&report), sums(&events));
    // every stage adds up, by size class
    let sizes = ToolRun::read(outcome, "load", "sizes");
    let groups = list(&sizes.last, "groups");
    let has = |key: &str, bytes: u64| groups.iter().any(|g| g[key] == bytes);
    assert!(has("max_bytes", 16 << 10) && has("above_bytes", 64 << 10), "{groups:?}");
    let of_groups: u64 = groups.iter().map(|g| number(g, "count")).sum();
    let of_rows: u64 = report.rows().iter().map(|r| number(r, "count")).sum();
    assert_eq!(of_groups, of_rows);
    for row in report.rows().iter().chain(groups) {
        let stages = list(row, "stages").iter();
        let sum: u64 = stages.map(|s| number(s, "sum_ns")).sum();
        assert_eq!(sum, number(whole(row), "sum_ns"), "{row}");
    }
}

fn what_was_shown_is_printed_again(outcome: &Outcome) {
    for name in ["json", "text", "rel"] {
        assert_eq!(outcome.code("tee", name), 0, "{name}");
        let again = format!("{name}-from");
        assert_eq!(
            outcome.code("tee", &again),
            0,
            "{}",
            outcome.text("tee", &format!("{again}.err"))
        );
        let [live, from] = [name, &again].map(|n| outcome.text("tee", &format!("{n}.out")));
        let differing = live.lines().zip(from.lines()).find(|(a, b)| a != b);
        assert!(differing.is_none(), "{name}: {differing:?}");
        assert_eq!(live.len(), from.len(), "{name}");
        assert!(live.lines().count() > 1000, "{name}");
    }
    let json = TraceRun::read(outcome, "tee", "json-from");
    for kind in ["timeout", "sq", "state"] {
        assert!(json.of(kind).next().is_some(), "no {kind}");
    }
    assert!(json.of("command").any(|c| number(&c["status"], "value") != 0));
    assert!(json.of("command").any(|c| c["kstack"].is_array()));
}

/// A report on a recording of failed commands says that it has no others.
fn a_choice_is_reported(outcome: &Outcome) {
    let live = TraceRun::read(outcome, "tee", "failed");
    let from = TraceRun::read(outcome, "tee", "failed-from");
    assert!(!live.events.is_empty() && live.events == from.events);
    assert_eq!(live.ledger, from.ledger);
    let report = ToolRun::read(outcome, "tee", "failed-latency");
    let failed = live.of("command").count() as u64;
    let rows = report.rows().iter().map(|row| number(row, "count"));
    assert_eq!(rows.sum::<u64>(), failed);
    let said = outcome.text("tee", "failed-latency.err");
    assert!(said.contains("`trace --errors --tee`"), "{said}");
}

/// The commands of the tool's own process, by the process id in the events.
fn own_commands_are_counted(outcome: &Outcome) {
    let said = outcome.text("own", "record.err");
    assert_eq!(outcome.code("own", "record"), 0, "{said}");
    outcome.assert_refused("own", "device", 2, &["is a block device"]);
    let run = TraceRun::read(outcome, "own", "all");
    let pid: u64 = outcome.text("own", "pid").trim().parse().unwrap();
    let own = |c: &&Value| c["pid"].as_u64() == Some(pid);
    let (all, own) = (run.of("command").count(), run.of("command").filter(own).count());
    assert!(all > 3000, "{own} of {all}: {said}");
    // 6.1 leaves these reads to a kworker
    assert!(own > 0 || outcome.kernel() == "6.1", "{said}");
    let counted = run.ledger.get("own_commands").and_then(Value::as_u64);
    assert_eq!(counted.unwrap_or(0), own as u64);
    let share = format!("{own} of {all} commands (");
    for said in [&said, &run.talk, &outcome.text("own", "latency.err")] {
        let line = said.lines().find(|l| l.contains("nvme-deep's own"));
        assert_eq!(line.is_some(), own > 0, "{said}");
        assert!(line.is_none_or(|l| l.contains(&share)), "{share}: {said}");
    }
}

fn stacks_are_counted_again(outcome: &Outcome) {
    let sum = |name: &str| {
        let mut all: BTreeMap<String, u64> = BTreeMap::new();
        for row in outcome.objects("stacks", name) {
            if text(&row, "type") == "stack" {
                *all.entry(row["kstack"].to_string()).or_default() += number(&row, "count");
            }
        }
        all
    };
    let (live, from) = (sum("stacks"), sum("stacks-from"));
    assert_eq!(live, from);
    assert_eq!(from.values().sum::<u64>(), 520);
    let folded = outcome.text("stacks", "folded-from.out");
    assert_eq!(folded.lines().count(), from.len(), "{folded}");
}

fn a_trigger_writes_the_ring(outcome: &Outcome) {
    let reads = |run: &TraceRun| {
        let of_fast = |c: &&Value| text(c, "ctrl") == "nvme0" && text(c, "opcode") == "read";
        run.of("command").filter(of_fast).count()
    };
    for (name, why) in [("timeout", "timeout on nvme2"), ("slow", "read on nvme1: ")] {
        assert_eq!(outcome.code("ring", name), 0, "{name}");
        let said = outcome.text("ring", &format!("{name}.err"));
        assert!(said.contains(why) && said.contains("more\n"), "{name}: {said}");
    }
    let run = TraceRun::read(outcome, "ring", "timeout-from");
    // blocks end once a second: the old load is gone, the new one is not
    assert_eq!(reads(&run), 300, "{}", run.talk);
    assert!(run.talk.contains("older ones were dropped"), "{}", run.talk);
    assert!(run.of("timeout").next().is_some());
    // intervals begin with the first event that was kept
    let intervals = ToolRun::read(outcome, "ring", "intervals");
    let first = &intervals.reports[0];
    let begin = first["at_s"].as_f64().unwrap() - first["covers_s"].as_f64().unwrap();
    assert!(begin > 0.0 && !list(first, "rows").is_empty(), "{first}");
    let run = TraceRun::read(outcome, "ring", "slow-from");
    assert!(run.of("command").any(|c| number(&c["status"], "value") != 0));
    // without a trigger, the end writes the ring
    let run = TraceRun::read(outcome, "ring", "stopped-from");
    assert_eq!(reads(&run), 1000);
}

fn an_interrupted_file_is_read(outcome: &Outcome) {
    assert_eq!(outcome.code("killed", "record"), 137);
    let run = TraceRun::ended(outcome, "killed", "all", 1);
    let count = run.of("command").count();
    // everything up to a second before the kill
    assert!((2000..=2300).contains(&count), "{count}");
    assert!(run.talk.contains("the recording was interrupted"), "{}", run.talk);
    let report = ToolRun::ended(outcome, "killed", "latency", 1);
    assert_eq!(report.io_counts().values().sum::<u64>(), count as u64);
}

fn refusals_are_one_sentence(outcome: &Outcome) {
    for (name, code, words) in [
        ("newer", 2, "use a newer nvme-deep"),
        ("exists", 2, "--force to replace it"),
        ("unprivileged", 4, "run it as root"),
    ] {
        outcome.assert_refused("refused", name, code, &[words]);
    }
}

fn a_full_disk_is_an_error(outcome: &Outcome) {
    let said = outcome.text("full", "record.err");
    assert_eq!(outcome.code("full", "record"), 1, "{said}");
    let last = said.lines().last().unwrap();
    assert!(last.contains("No space left on device"), "{said}");
    let run = TraceRun::ended(outcome, "full", "all", 1);
    let count = run.of("command").count();
    assert!(last.contains(&format!("the {count} before them can be read")), "{count}: {last}");
}

super::on_kernels! {
    suite RECORDINGS [
        the_same_commands rows_are_those_of_the_events
        what_was_shown_is_printed_again a_choice_is_reported
        an_interrupted_file_is_read refusals_are_one_sentence a_full_disk_is_an_error
    ] {
        on_6_12 "6.12" | only_in_test_all on_6_1 "6.1" on_7_x "7.x"
    }
    rest REST [own_commands_are_counted stacks_are_counted_again a_trigger_writes_the_ring] {
        | only_in_test_all on_6_1 "6.1" on_6_12 "6.12" on_7_x "7.x"
    }
}
