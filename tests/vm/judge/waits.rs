// SPDX-License-Identifier: MIT OR Apache-2.0
//! Waits before the request, compared with their causes.

use serde_json::Value;

use super::guest::Outcome;
use super::guest::Suite;
use super::json::ToolRun;
use super::json::assert_sums;
use super::json::fio_counts;
use super::json::kernel_counts;
use super::json::list;
use super::json::number;
use super::json::stage;
use super::json::text;

const WAITS: Suite = Suite {
    script: "waits",
    variant: "",
    smp: "2",
    controllers: &["nvme_null nvme0 1000000", "nvme_null nvme1 300000000"],
    append: "",
    env: &[],
};

/// The stages before the request.
const BEFORE: [&str; 6] = ["throttle", "block", "freeze", "iocost", "wbt", "tag"];

/// Whether the kernel has `block_io_start`, which shows for which bio a request was allocated.
fn has_waits(outcome: &Outcome) -> bool {
    !matches!(outcome.kernel(), "5.10" | "6.1")
}

/// The sum of a stage of a row; 0 if it lacks the stage.
fn sum(row: &Value, name: &str) -> u64 {
    stage(row, name).map_or(0, |stage| number(stage, "sum_ns"))
}

/// The run with histograms alone. Both runs have counted each command, and each has all stages before
/// the request, which add up with the others.
fn counted(outcome: &Outcome, case: &str, opcode: &str, want: u64) -> ToolRun {
    let commands = ToolRun::read(outcome, case, "commands");
    assert_sums(&commands, case);
    let histograms = ToolRun::read(outcome, case, "histograms");
    // the kernel takes the programs for histograms alone as it takes the others
    let missing = |run: &ToolRun| run.last["ledger"]["missing_hooks"].clone();
    assert_eq!(missing(&histograms), missing(&commands), "{case}");
    for run in [&commands, &histograms] {
        run.assert_exact(case);
        let row = run.row(opcode);
        assert_eq!(number(row, "count"), want, "{case}: {row}");
        let total: u64 = list(row, "stages")
            .iter()
            .map(|s| number(s, "sum_ns"))
            .sum();
        assert_eq!(total, number(&row["total"], "sum_ns"), "{case}: {row}");
        for name in BEFORE {
            let found = stage(row, name).map_or(0, |stage| number(stage, "count"));
            let has = if has_waits(outcome) { want } else { 0 };
            assert_eq!(found, has, "{case} {name}: {row}");
        }
        for none in ["unseen_bios", "unstored_bios", "unpaired_waits"] {
            assert_eq!(run.last["ledger"][none], Value::Null, "{case}: {none}");
        }
    }
    histograms
}

/// The other waits of a row, which have no cause in this case, are zero.
fn only(row: &Value, causes: &[&str]) {
    let waits = BEFORE.into_iter().filter(|name| *name != "block");
    for name in waits.filter(|name| !causes.contains(name)) {
        assert_eq!(sum(row, name), 0, "{name}: {row}");
    }
}

/// What fio measured of a read or a write, in nanoseconds.
fn fio_mean(outcome: &Outcome, case: &str, job: &str, what: &str) -> f64 {
    let fio = outcome.text(case, &format!("{job}.fio"));
    let fio: Value = serde_json::from_str(&fio[fio.find('{').unwrap()..]).unwrap();
    let job = &list(&fio, "jobs")[0][what];
    ["slat_ns", "clat_ns"]
        .map(|part| job[part]["mean"].as_f64().unwrap())
        .into_iter()
        .sum()
}

/// The total of a row is a part of what fio measured, and most of it. What is left is the way through
/// the system calls, and the tool's programs.
fn is_most_of(outcome: &Outcome, case: &str, row: &Value, least: f64) {
    let mean = number(&row["total"], "sum_ns") as f64 / number(row, "count") as f64;
    let fio = fio_mean(outcome, case, "reads", "read");
    assert!(
        mean <= fio && mean >= least * fio,
        "{case}: {mean} of {fio}"
    );
}

fn without_a_cause_no_command_waits(outcome: &Outcome) {
    let case = "plain";
    // the kernel counts a flush without data as a write, too
    let [reads, writes, _, flushes] = kernel_counts(outcome, case);
    let run = counted(outcome, case, "read", reads);
    only(run.row("read"), &[]);
    let asked = fio_counts(outcome, case)[0];
    assert!(
        reads > asked,
        "{case}: reads of 4 MiB are split: {reads} of {asked}"
    );
    // buffered writes pass through wbt
    let run = counted(outcome, case, "write", writes - flushes);
    only(run.row("write"), &["wbt"]);
    let recorded = ToolRun::read(outcome, case, "recorded");
    for opcode in ["read", "write"] {
        let (live, recorded) = (run.row(opcode), recorded.row(opcode));
        for name in BEFORE {
            let count = |row: &Value| stage(row, name).map(|stage| number(stage, "count"));
            assert_eq!(count(recorded), count(live), "{case} {opcode} {name}");
        }
    }
}

fn a_limit_of_the_cgroup_is_throttle(outcome: &Outcome) {
    let case = "throttle";
    let want = fio_counts(outcome, case)[0];
    let stat = outcome.text(case, "io.stat");
    assert!(stat.contains(&format!("rios={want} ")), "{stat}");
    let run = counted(outcome, case, "read", want);
    let row = run.row("read");
    if has_waits(outcome) {
        only(row, &["throttle"]);
        is_most_of(outcome, case, row, 0.9);
        // how long depends on what the limit leaves: on a slow host fio itself takes a part of it
        assert!(sum(row, "throttle") > 4 * sum(row, "block"), "{row}");
    }
}

fn four_tags_are_waited_for(outcome: &Outcome) {
    let case = "tag";
    let run = counted(outcome, case, "read", fio_counts(outcome, case)[0]);
    let row = run.row("read");
    if has_waits(outcome) {
        only(row, &["tag"]);
        assert!(sum(row, "tag") > 4 * sum(row, "block"), "{row}");
        assert!(run.hits("fexit", "__blk_mq_get_tag") > 0);
    }
}

fn a_change_of_the_scheduler_is_freeze(outcome: &Outcome) {
    let case = "freeze";
    let run = counted(outcome, case, "read", 2);
    if !has_waits(outcome) {
        return;
    }
    only(run.row("read"), &["freeze"]);
    let commands = ToolRun::read(outcome, case, "commands").commands;
    let [first, second] = commands.as_slice() else {
        panic!("{case}: {} commands", commands.len());
    };
    let took = outcome.text(case, "took");
    let took: Vec<u64> = took
        .split_whitespace()
        .map(|ns| ns.parse().unwrap())
        .collect();
    let at = |command: &Value, point: &str| number(&command["points_ns"], point);
    // the queue is frozen until the first read is done
    let done = at(first, "complete");
    assert!(
        at(second, "freeze") < done && done < at(second, "start"),
        "{second}"
    );
    assert!(number(second, "total_ns") <= took[1], "{took:?}: {second}");
}

fn writeback_throttling_is_wbt(outcome: &Outcome) {
    let case = "wbt";
    let commands = ToolRun::read(outcome, case, "commands");
    let want = number(commands.row("write"), "count");
    let run = counted(outcome, case, "write", want);
    let row = run.row("write");
    only(row, &["wbt"]);
    assert_eq!(sum(row, "wbt") > 0, has_waits(outcome), "{row}");
}

fn a_model_of_the_device_is_iocost(outcome: &Outcome) {
    let case = "iocost";
    let run = counted(outcome, case, "read", fio_counts(outcome, case)[0]);
    let row = run.row("read");
    if has_waits(outcome) {
        only(row, &["iocost"]);
        is_most_of(outcome, case, row, 0.9);
        assert!(sum(row, "iocost") > 4 * sum(row, "block"), "{row}");
    }
}

fn without_block_io_start_the_stages_are_the_fine_ones(outcome: &Outcome) {
    let run = ToolRun::read(outcome, "plain", "histograms");
    let missing = list(&run.last["ledger"], "missing_hooks");
    let tag = missing.iter().find(|hook| text(hook, "point") == "tag");
    assert_eq!(tag.is_some(), !has_waits(outcome), "{missing:?}");
}

fn everything(outcome: &Outcome) {
    without_a_cause_no_command_waits(outcome);
    a_limit_of_the_cgroup_is_throttle(outcome);
    four_tags_are_waited_for(outcome);
    a_change_of_the_scheduler_is_freeze(outcome);
    writeback_throttling_is_wbt(outcome);
    a_model_of_the_device_is_iocost(outcome);
    without_block_io_start_the_stages_are_the_fine_ones(outcome);
}

super::on_kernels! {
    without_a_cause_no_command_waits_on_6_12 "6.12" WAITS without_a_cause_no_command_waits
    a_limit_of_the_cgroup_is_throttle_on_6_12 "6.12" WAITS a_limit_of_the_cgroup_is_throttle
    four_tags_are_waited_for_on_6_12 "6.12" WAITS four_tags_are_waited_for
    a_change_of_the_scheduler_is_freeze_on_6_12 "6.12" WAITS a_change_of_the_scheduler_is_freeze
    writeback_throttling_is_wbt_on_6_12 "6.12" WAITS writeback_throttling_is_wbt
    a_model_of_the_device_is_iocost_on_6_12 "6.12" WAITS a_model_of_the_device_is_iocost
    only_in_test_all_waits_before_the_request_on_5_10 "5.10" WAITS everything
    only_in_test_all_waits_before_the_request_on_6_1 "6.1" WAITS everything
    only_in_test_all_waits_before_the_request_on_7_x "7.x" WAITS everything
}
