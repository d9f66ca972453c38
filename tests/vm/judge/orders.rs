// SPDX-License-Identifier: MIT OR Apache-2.0
//! Orders of events that occur in practice: completion on another CPU, retries, requeues, polling,
//! controllers that are removed and added.

use serde_json::Value;

use super::guest::{Outcome, Suite};
use super::json::{ToolRun, assert_sums, fio_counts, kernel_counts, list, number, stage, text};
use super::ledger::ledger;

/// Two sockets: the CPUs share no cache, so that completion moves to the submitter's CPU.
const ORDERS: Suite = Suite {
    smp: "2,sockets=2,cores=1",
    append: "nvme.poll_queues=1",
    ..Suite::of(
        "orders",
        &[
            "nvme_null nvme0 0 max_ioqpairs=1",
            "nvme_blkdebug nvme1 0 read,sector=2048,once=on",
            "nvme_blkdebug nvme2 0 read,sector=2048",
            "nvme_null nvme3 0",
        ],
    )
};

const REQUEUE: Suite =
    Suite { append: "swiotlb=1024,force", ..Suite::of("requeue", &["nvme_null nvme0 1000000"]) };

const FABRICS: Suite = Suite {
    append: "nvme_core.multipath=N",
    ..Suite::of("fabrics", &["nvme_null nvme0 0", "nvme_null nvme1 1000000"])
};

const STAGE_SETS: [&str; 2] = ["basic", "fine"];

fn names(command: &Value) -> Vec<&str> {
    list(command, "stages").iter().map(|s| text(s, "name")).collect()
}

fn completion_elsewhere_is_counted_once(outcome: &Outcome) {
    for case in ["remote-none", "remote-mq-deadline"] {
        let softirqs = |when: &str| -> u64 {
            outcome.text(case, &format!("softirqs.{when}")).trim().parse().unwrap()
        };
        assert!(softirqs("after") > softirqs("before"), "{case}: no completion by softirq");
        let want = fio_counts(outcome, case)[0];
        for stage_set in STAGE_SETS {
            let run = ToolRun::summed(outcome, case, stage_set);
            let row = run.row("read");
            assert_eq!(number(row, "count"), want, "{case} {stage_set}");
            // the move to the other CPU is in `complete`, which every command has
            assert_eq!(
                number(stage(row, "complete").unwrap(), "count"),
                want,
                "{case} {stage_set}"
            );
        }
    }
}

/// Each attempt counts as a command: the device processed it, and the second attempt does not
/// include the wait of the first.
fn a_retry_is_a_command_of_its_own(outcome: &Outcome) {
    for (case, attempts) in [("retry", 2), ("failing-none", 6), ("failing-mq-deadline", 6)] {
        for stage_set in STAGE_SETS {
            let run = ToolRun::summed(outcome, case, stage_set);
            assert_eq!(number(run.row("read"), "count"), attempts, "{case} {stage_set}");
            assert_eq!(ledger(&run, "requeue_events"), attempts - 1, "{case} {stage_set}");
            assert_eq!(ledger(&run, "requeued"), 0, "{case}: every attempt reached the device");
            let with = |point: &str| {
                run.commands.iter().filter(|c| c["points_ns"][point].is_u64()).count() as u64
            };
            assert_eq!(with("start"), 1, "{case} {stage_set}: only the first attempt has a start");
            assert_eq!(with("cqe"), attempts, "{case} {stage_set}");
            if stage_set == "fine" {
                assert_eq!(with("end"), 1, "{case}: only the last attempt has an end");
            }
        }
    }
}

fn polled_completion_has_no_interrupt(outcome: &Outcome) {
    for stage_set in STAGE_SETS {
        let run = ToolRun::summed(outcome, "poll", stage_set);
        assert_eq!(number(run.row("read"), "count"), fio_counts(outcome, "poll")[0]);
    }
    let run = ToolRun::read(outcome, "poll", "fine");
    for command in &run.commands {
        assert!(command["points_ns"]["irq"].is_null(), "{command}");
        let joined = ["device", "submit.ring+device"];
        assert!(names(command).iter().any(|n| joined.contains(n)), "{command}");
    }
}

fn a_controller_may_go_and_come(outcome: &Outcome) {
    assert_eq!(fio_counts(outcome, "hotplug")[0], 250);
    for stage_set in STAGE_SETS {
        let run = ToolRun::summed(outcome, "hotplug", stage_set);
        let reads: u64 = run.rows().iter().map(|r| number(r, "count")).sum();
        // the kernel's partition scan adds reads
        assert!(reads >= 250, "{stage_set}: {reads}");
        assert_eq!(run.reports.len(), 1, "{stage_set}: it ran to the end");
    }
}

/// It is traced from its first command on: the tool reserves slots for the next controller number.
fn a_new_controller_is_noticed(outcome: &Outcome) {
    for stage_set in STAGE_SETS {
        let run = ToolRun::read(outcome, "newcomer", stage_set);
        assert_eq!(run.last["ledger"]["balance"]["balanced"], true, "{}", run.last);
        assert_sums(&run, "newcomer");
        run.assert_exact("newcomer");
        let row = run.row("read");
        assert_eq!(text(row, "ctrl"), "nvme3", "{stage_set}");
        // the last reads of the kernel's partition scan may be included
        assert!(number(row, "count") >= fio_counts(outcome, "newcomer")[0], "{stage_set}: {row}");
    }
}

/// A transport without a doorbell never gets the doorbell of another controller, even if the same
/// task rings it. Its commands complete in a softirq. A PCI interrupt may come while the softirq
/// runs a program that the interrupt needs too: the kernel skips the program for the interrupt, and
/// counts that. The ledger must account for the command.
fn fabrics_have_no_doorbell(outcome: &Outcome) {
    for (stage_set, joined) in
        [("basic", "submit+device+complete"), ("fine", "submit.ring+device+complete")]
    {
        let run = ToolRun::read(outcome, "both", stage_set);
        assert_eq!(run.last["ledger"]["balance"]["balanced"], true, "{stage_set}: {}", run.last);
        assert_sums(&run, "fabrics");
        let reads = |ctrl: &str| -> u64 {
            let rows = run.rows().iter().filter(|r| text(r, "ctrl") == ctrl);
            rows.map(|r| number(r, "count")).sum()
        };
        // completions of nvme2 run in softirqs; the kernel skips a program that an interrupt finds
        // running
        run.assert_exact("fabrics");
        // fio's reads, and the target's that serve them
        let issued = fio_counts(outcome, "both")[0] + reads("nvme2");
        let counted = reads("nvme0") + reads("nvme1") + reads("nvme2");
        assert_eq!(counted, issued, "{stage_set}");
        assert!(reads("nvme2") > 100 && reads("nvme0") > 100, "{stage_set}");
        let mut endless = 0;
        for command in &run.commands {
            let remote = text(command, "ctrl") == "nvme2";
            if command["points_ns"]["complete"].is_null() {
                continue;
            }
            assert_eq!(remote, names(command).contains(&joined), "{stage_set}: {command}");
            endless += u64::from(command["points_ns"]["end"].is_null());
        }
        if stage_set == "fine" {
            // except where the kernel skipped the program
            let skipped = run.misses("block_rq_complete");
            assert!(endless <= skipped, "without an end: {endless} of {skipped}");
        }
    }
}

fn a_requeue_is_one_command_that_waited(outcome: &Outcome) {
    for case in ["requeue-none", "requeue-mq-deadline"] {
        let reads = fio_counts(outcome, case)[0];
        assert_eq!(reads, kernel_counts(outcome, case)[0], "{case}");
        for stage_set in ["total", "basic", "fine"] {
            let run = ToolRun::exact(outcome, case, stage_set);
            assert!(ledger(&run, "requeued") > 0, "{case} {stage_set}: nothing was requeued");
            assert_eq!(number(run.row("read"), "count"), reads, "{case} {stage_set}");
            if stage_set == "total" {
                continue;
            }
            assert_sums(&run, case);
            // each command kept its start through all its setups
            let name = if stage_set == "fine" { "queue.wait" } else { "queue" };
            let queue = stage(run.row("read"), name).unwrap();
            assert_eq!(number(queue, "count"), reads, "{case} {stage_set}");
        }
    }
}

super::on_kernels! {
    suite ORDERS [
        completion_elsewhere_is_counted_once a_retry_is_a_command_of_its_own
        polled_completion_has_no_interrupt a_controller_may_go_and_come a_new_controller_is_noticed
    ] {
        on_6_12 "6.12" | only_in_test_all on_6_1 "6.1"
    }
    fabrics FABRICS [fabrics_have_no_doorbell] {
        | only_in_test_all on_6_12 "6.12" on_6_1 "6.1"
    }
    requeue REQUEUE [a_requeue_is_one_command_that_waited] {
        | only_in_test_all on_6_12 "6.12" on_6_1 "6.1"
    }
}
