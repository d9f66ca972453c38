// SPDX-License-Identifier: MIT OR Apache-2.0
//! Preemptible kernels: the kernel skips programs, and each command is still counted once.

use std::collections::BTreeMap;

use serde_json::Value;

use super::guest::{Outcome, Suite};
use super::hostile::doctor;
use super::json::{ToolRun, fio_counts, list, number, text, whole};
use super::trace_read::TraceRun;

/// The kernel passes arguments that it does not use to init, as environment variables.
const PREEMPT: Suite = Suite {
    append: "nvme.poll_queues=1 ALONE=0",
    ..Suite::of("preempt", &["nvme_null nvme0 0 namespaces=3", "nvme_null nvme1 0"])
};

/// Each of the five tools alone as well.
const ALONE: Suite = Suite { variant: "-alone", append: "nvme.poll_queues=1", ..PREEMPT };

/// 100,000 reads with all tools together, and 20,000 with each of the five tools alone.
const LONG: Suite = Suite {
    variant: "-long",
    append: "nvme.poll_queues=1 ALONE=20000 TOGETHER=100000",
    env: &[("TIMEOUT", "1800")],
    ..PREEMPT
};

/// Runs with a scheduler and missed completions: a request's former slot may belong to another
/// command by the time that the program closes it.
const SCHEDULED: Suite = Suite {
    variant: "-scheduled",
    append: "nvme.poll_queues=1 SCHEDULED=40",
    env: &[("TIMEOUT", "1800")],
    ..PREEMPT
};

/// The mode is full, set at run time, and debugfs is not mounted.
const HIDDEN: Suite =
    Suite { variant: "-hidden", append: "nvme.poll_queues=1 HIDDEN=6000", ..PREEMPT };

/// The mode is full, set at boot, and lockdown closes debugfs.
const LOCKED: Suite = Suite {
    variant: "-locked",
    append: "nvme.poll_queues=1 HIDDEN=6000 preempt=full lockdown=integrity",
    ..PREEMPT
};

/// Commands by controller, namespace and opcode (`read`, ...).
type Counts = BTreeMap<(String, u64, String), u64>;

/// The kernel's counts between the two readings: reads, and writes without flushes. The kernel
/// counts a flush without data as a write too; fio counts flushes separately.
fn kernel_counts(outcome: &Outcome, case: &str) -> Counts {
    let look = |when: &str| -> BTreeMap<(String, u64), Vec<u64>> {
        let text = outcome.text(case, &format!("stats.{when}"));
        let line = |line: &str| {
            let mut words = line.split_whitespace();
            let ctrl = words.next().unwrap().to_owned();
            let mut numbers = words.map(|n| n.parse().unwrap());
            ((ctrl, numbers.next().unwrap()), numbers.collect())
        };
        text.lines().map(line).collect()
    };
    let (before, after) = (look("before"), look("after"));
    let [_, writes, _, _] = fio_counts(outcome, case);
    let mut counts = Counts::new();
    for (disk, after) in &after {
        // Documentation/block/stat.rst
        let [reads, any_writes] = [0, 4].map(|field| after[field] - before[disk][field]);
        for (what, n) in [("read", reads), ("write", any_writes.min(writes))] {
            if n > 0 {
                counts.insert((disk.0.clone(), disk.1, what.to_owned()), n);
            }
        }
    }
    counts
}

fn key(object: &Value) -> (String, u64, String) {
    let text = |field| text(object, field).to_owned();
    (text("ctrl"), number(object, "nsid"), text("opcode"))
}

/// Whether the row or event is of a read or write on an I/O queue.
fn is_counted(object: &Value) -> bool {
    text(object, "queue") == "io" && ["read", "write"].contains(&text(object, "opcode"))
}

fn of_rows(run: &ToolRun) -> Counts {
    let rows = run.rows().iter().filter(|r| is_counted(r));
    rows.map(|row| (key(row), number(row, "count"))).collect()
}

fn of_events(run: &TraceRun) -> Counts {
    let mut counts = Counts::new();
    for name in ["complete", "missed"] {
        for event in run.of(name).filter(|e| is_counted(e)) {
            *counts.entry(key(event)).or_default() += 1;
        }
    }
    counts
}

fn assert_ledger(ledger: &Value, what: &str) {
    assert_eq!(ledger["balance"]["balanced"], true, "{what}: {ledger}");
    for wrong in "overwritten untracked no_row negative_intervals unrecovered unattributed requeued in_flight"
        .split(' ')
    {
        assert_eq!(number(ledger, wrong), 0, "{what}: {wrong}: {ledger}");
    }
}

/// The kernel's statistics do not include passthrough commands: `passed` of them are added.
fn assert_counts(seen: &Counts, outcome: &Outcome, case: &str, passed: u64, what: &str) {
    let mut want = kernel_counts(outcome, case);
    if passed > 0 {
        *want.get_mut(&("nvme1".into(), 1, "read".into())).unwrap() += passed;
    }
    assert_eq!(*seen, want, "{what}");
}

/// Measured and unmeasured commands of a row add up to its commands, its stages to the total.
fn assert_rows(run: &ToolRun, what: &str) {
    for row in run.rows() {
        let total = whole(row);
        let sum = number(total, "count") + number(row, "unmeasured");
        assert_eq!(sum, number(row, "count"), "{what}: {row}");
        let stages = list(row, "stages");
        let ns: u64 = stages.iter().map(|s| number(s, "sum_ns")).sum();
        assert!(stages.is_empty() || ns == number(total, "sum_ns"), "{what}: {row}");
    }
}

fn judge(outcome: &Outcome, case: &str, name: &str, passed: u64) {
    let what = format!("{} {case} {name}", outcome.kernel());
    match name {
        "trace" => {
            let run = TraceRun::read(outcome, case, name);
            assert_ledger(&run.ledger, &what);
            assert_counts(&of_events(&run), outcome, case, passed, &what);
            for never in ["requeue", "retry", "unfinished", "timeout"] {
                assert_eq!(run.count(never), 0, "{what}: {never}");
            }
            assert_eq!(run.count("missed"), number(&run.ledger, "unseen_completions"));
        }
        "stacks" => {
            let lines = outcome.lines(case, "stacks.out");
            let (end, stacks) = lines.split_last().unwrap();
            assert_ledger(&end["ledger"], &what);
            let sum: u64 = stacks.iter().map(|s| number(s, "count")).sum();
            assert_eq!(sum, number(&end["ledger"], "matched"), "{what}");
            let all: u64 = kernel_counts(outcome, case).values().sum();
            assert_eq!(sum, all, "{what}");
        }
        _ => {
            let run = ToolRun::read(outcome, case, name);
            assert_ledger(&run.last["ledger"], &what);
            assert_rows(&run, &what);
            assert_counts(&of_rows(&run), outcome, case, passed, &what);
        }
    }
}

/// Judges all runs of all cases. Returns how many there are.
fn judge_all(outcome: &Outcome) -> u32 {
    let mut judged = 0;
    for case in outcome.cases().iter().filter(|c| !c.ends_with("-not")) {
        // passthrough reads of load A
        let passed = if case.ends_with("-a") { 20 } else { 0 };
        let files = outcome.files(case, ".status");
        for file in files.iter().filter(|f| *f != "doctor.status") {
            judge(outcome, case, file.trim_end_matches(".status"), passed);
            judged += 1;
        }
    }
    judged
}

fn every_command_is_counted_once(outcome: &Outcome) {
    let judged = judge_all(outcome);
    assert!(judged >= 9, "{judged} runs");
}

fn a_former_slot_is_left_to_its_new_command(outcome: &Outcome) {
    assert_eq!(judge_all(outcome), 40);
}

/// What doctor says of the mode, and what shows it.
fn assert_mode(outcome: &Outcome, case: &str, mode: &str, source: &str) {
    let facts = &doctor(outcome, case)["facts"];
    let found = (&facts["preemption"], &facts["preemption_source"]);
    assert_eq!(found, (&mode.into(), &source.into()), "{case}");
}

/// The programs check the doorbells, and find some that they cannot attribute.
fn assert_doorbells_are_checked(outcome: &Outcome, case: &str) {
    let unsure: u64 = ["basic", "fine"]
        .iter()
        .map(|name| ToolRun::read(outcome, case, name))
        .map(|run| number(&run.last["ledger"], "unsure_doorbells"))
        .sum();
    assert!(unsure > 0, "{case}");
}

/// Without debugfs, the kernel's memory shows the mode; an unknown mode counts as full.
fn a_hidden_mode_costs_no_command(outcome: &Outcome) {
    assert_mode(outcome, "unmounted", "full", "memory");
    assert_mode(outcome, "two-capabilities", "full", "unknown");
    assert_mode(outcome, "voluntary", "voluntary", "memory");
    assert_doorbells_are_checked(outcome, "unmounted");
    assert_doorbells_are_checked(outcome, "two-capabilities");
    assert_eq!(judge_all(outcome), 6);
}

fn lockdown_costs_no_command(outcome: &Outcome) {
    assert_mode(outcome, "locked", "full", "memory");
    assert_doorbells_are_checked(outcome, "locked");
    assert_eq!(judge_all(outcome), 3);
}

/// Validates the test above: without recovery, a command is missing for each completion that the
/// program ignored.
fn without_recovery_some_are_missing(outcome: &Outcome) {
    let cases = outcome.cases();
    let case = cases.iter().find(|c| c.ends_with("-not")).unwrap();
    let run = ToolRun::read(outcome, case, "unrecovered");
    let (seen, want) = (of_rows(&run), kernel_counts(outcome, case));
    let [seen, want] = [seen, want].map(|counts| counts.values().sum::<u64>());
    assert!(seen < want, "{seen} of {want}");
    judge(outcome, case, "total", 0);
}

super::on_kernels! {
    suite PREEMPT [every_command_is_counted_once without_recovery_some_are_missing] {
        on_7_x "7.x"
    }
    realtime PREEMPT [every_command_is_counted_once] { | only_in_test_all on_7_x_rt "7.x-rt" }
    alone ALONE [every_command_is_counted_once] {
        | only_in_test_all on_6_12 "6.12" on_6_1_rt "6.1-rt" on_6_12_rt "6.12-rt" on_7_x "7.x"
        on_7_x_rt "7.x-rt"
    }
    long LONG [every_command_is_counted_once] {
        | only_in_test_all on_6_12 "6.12" on_6_12_rt "6.12-rt" on_7_x "7.x" on_7_x_rt "7.x-rt"
    }
    hidden HIDDEN [a_hidden_mode_costs_no_command] { | only_in_test_all on_6_12 "6.12" }
    locked LOCKED [lockdown_costs_no_command] { | only_in_test_all on_6_12 "6.12" }
    scheduled SCHEDULED [a_former_slot_is_left_to_its_new_command] {
        | only_in_test_all on_7_x "7.x"
    }
}
