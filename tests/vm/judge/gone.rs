// SPDX-License-Identifier: MIT OR Apache-2.0
//! The driver, the device or the tool is removed during a run, or a controller is reset. Nothing
//! hangs, nothing stays attached, and the counts agree with the kernel's.

use serde_json::Value;

use super::guest::{Outcome, Suite};
use super::hostile::{assert_all_points, doctor};
use super::json::{ToolRun, assert_sums, fio_counts, kernel_counts, list, number, text};
use super::ledger::{assert_nothing_is_left, events, exact, ledger};

const GONE: Suite = Suite::of("gone", &["nvme_null nvme0 0", "nvme_null nvme1 20000000"]);

const STAGE_SETS: [&str; 3] = ["total", "basic", "fine"];

fn a_driver_may_come_later(outcome: &Outcome) {
    let words = ["no NVMe controller", "load the nvme driver"];
    outcome.assert_refused("no-driver", "latency", 6, &words);
    let said = doctor(outcome, "no-driver");
    assert!(list(&said, "controllers").is_empty(), "{said}");
    assert_all_points(&exact(outcome, "no-driver", "auto"), "no-driver");
}

fn a_driver_that_is_traced_stays(outcome: &Outcome) {
    assert_ne!(outcome.code("pinned", "rmmod"), 0);
    let said = outcome.text("pinned", "rmmod.err");
    assert!(said.contains("in use"), "{said}");
    assert_eq!(outcome.code("pinned", "rmmod-after"), 0);
    let run = ToolRun::exact(outcome, "pinned", "auto");
    // the kernel's partition scan adds reads to the load's
    let [reads, writes, ..] = fio_counts(outcome, "pinned");
    let counts = run.io_counts();
    assert_eq!(counts["write"], writes);
    assert!(counts["read"] >= reads, "{counts:?}");
}

/// Kprobes do not pin their module. When it is unloaded, the run ends and reports why.
fn kprobes_that_their_module_takes_along_end_the_run(outcome: &Outcome) {
    for (case, name, module) in [
        ("unpinned", "stages", "module nvme was unloaded"),
        ("unpinned-core", "total", "module nvme_core was unloaded"),
    ] {
        let run = ToolRun::ended(outcome, case, name, 1);
        let last = run.talk.lines().last().unwrap();
        assert!(last.starts_with("nvme-deep: ") && last.contains(module), "{last}");
        assert_eq!(run.last["ledger"]["balance"]["balanced"], true, "{case}");
    }
}

/// Under load the device is unbound from the driver, or removed from the machine, and comes back.
fn a_device_may_go_under_load(outcome: &Outcome) {
    for case in ["unbound", "removed"] {
        let setups = events(outcome, case, "nvme_setup_cmd");
        let completions = events(outcome, case, "nvme_complete_rq");
        assert!(setups[0] > 300 && setups[1] > 10, "{case}: {setups:?}");
        for stage_set in STAGE_SETS {
            let run = ToolRun::read(outcome, case, stage_set);
            let entries = &run.last["ledger"];
            run.assert_exact(case);
            let [set_up, completed] = [setups, completions].map(|c| c.iter().sum::<u64>());
            assert_eq!(ledger(&run, "seen"), set_up, "{case} {stage_set}: {entries}");
            assert_eq!(ledger(&run, "completions"), completed, "{case} {stage_set}: {entries}");
            assert_eq!(run.io_counts().values().sum::<u64>(), setups[0], "{case} {stage_set}");
            if stage_set != "total" {
                assert_sums(&run, case);
            }
        }
    }
}

/// Each command is attributed to its controller, even if another one had its number or memory
/// before.
fn controllers_may_change_places(outcome: &Outcome) {
    for stage_set in STAGE_SETS {
        let run = ToolRun::exact(outcome, "swapped", stage_set);
        let writes = |ctrl: &str| {
            let of = |r: &&Value| text(r, "ctrl") == ctrl && text(r, "opcode") == "write";
            let counts = run.rows().iter().filter(of).map(|r| number(r, "count"));
            counts.sum::<u64>()
        };
        assert_eq!(writes("nvme0"), 2 * (150 + 30), "{stage_set}");
        assert_eq!(writes("nvme1"), 2 * (40 + 170), "{stage_set}");
        if stage_set != "total" {
            assert_sums(&run, stage_set);
        }
    }
}

/// Each attempt counts as a command. A command that the driver cancels completes without a CQE.
fn a_reset_is_counted_to_the_last_attempt(outcome: &Outcome) {
    for case in ["reset-none", "reset-mq-deadline"] {
        let reads = fio_counts(outcome, case)[0];
        assert_eq!(reads, kernel_counts(outcome, case)[0], "{case}");
        let setups = events(outcome, case, "nvme_setup_cmd");
        let completions = events(outcome, case, "nvme_complete_rq");
        let cqes = events(outcome, case, "nvme_sq");
        let cancelled = setups[0] - cqes[0];
        assert!(cancelled > 0, "{case}: the reset cancelled nothing");
        for stage_set in ["total", "basic", "fine", "raw"] {
            let run = ToolRun::read(outcome, case, stage_set);
            let (case, entries) = (format!("{case} {stage_set}"), &run.last["ledger"]);
            run.assert_exact(&case);
            assert_eq!(ledger(&run, "seen"), setups[0], "{case}: {entries}");
            assert_eq!(ledger(&run, "matched"), completions[0], "{case}: {entries}");
            assert_eq!(number(run.row("read"), "count"), setups[0], "{case}");
            // commands that did not reach the end were issued again
            let again = ledger(&run, "requeue_events") - ledger(&run, "requeued");
            assert_eq!(ledger(&run, "matched") - again, reads, "{case}: {entries}");
            if stage_set == "total" {
                continue;
            }
            assert_sums(&run, &case);
            let without = |point: &str| {
                let commands = run.commands.iter();
                commands.filter(|c| c["points_ns"][point].is_null()).count() as u64
            };
            assert_eq!(without("cqe"), cancelled, "{case}");
            assert_eq!(without("start"), again, "{case}: a retry has no start");
            if stage_set != "basic" {
                assert_eq!(without("end"), again, "{case}: nor has what it follows an end");
            }
        }
    }
}

fn a_run_may_be_stopped_before_it_begins(outcome: &Outcome) {
    let mut ran = 0;
    for name in outcome.files("killed", ".status") {
        let name = name.trim_end_matches(".status");
        match outcome.code("killed", name) {
            // the signal came before the tool handled signals
            143 => assert_eq!(outcome.text("killed", &format!("{name}.out")), "", "{name}"),
            _ => {
                ToolRun::exact(outcome, "killed", name);
                ran += 1;
            }
        }
    }
    assert!(ran > 0, "not one was stopped while it attached");
}

super::on_kernels! {
    suite GONE [
        a_driver_may_come_later a_driver_that_is_traced_stays
        kprobes_that_their_module_takes_along_end_the_run a_device_may_go_under_load
        controllers_may_change_places a_reset_is_counted_to_the_last_attempt
        a_run_may_be_stopped_before_it_begins assert_nothing_is_left
    ] {
        | only_in_test_all on_6_12 "6.12"
    }
}
