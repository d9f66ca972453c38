// SPDX-License-Identifier: MIT OR Apache-2.0
//! Counts are exact: each command, compared with fio and with the kernel.

use std::collections::BTreeMap;

use super::guest::{Outcome, Suite};
use super::json::{ToolRun, assert_sums, fio_counts, kernel_counts, list, number, text};

const fn on(variant: &'static str, smp: &'static str) -> Suite {
    Suite { variant, smp, ..Suite::of("counts", &["nvme_null nvme0 0"]) }
}

const TWO_CPUS: Suite = on("-2cpu", "2");
const FOUR_CPUS: Suite = on("-4cpu", "4");
const STAGE_SETS: [&str; 3] = ["total", "basic", "fine"];

fn mixed(outcome: &Outcome) -> Vec<String> {
    let cases: Vec<_> =
        outcome.cases().into_iter().filter(|case| case.starts_with("mixed-")).collect();
    assert_eq!(cases.len(), 2, "two schedulers");
    cases
}

/// libaio one at a time and batched, io_uring batched, psync; reads, writes and flushes.
fn mixed_loads_are_exact(outcome: &Outcome) {
    for case in mixed(outcome) {
        assert_eq!(outcome.files(&case, ".fio").len(), 4, "four ways to submit");
        let [reads, writes, _, syncs] = fio_counts(outcome, &case);
        let [kernel_reads, kernel_writes, _, flushes] = kernel_counts(outcome, &case);
        assert!(reads + writes > 3900, "{case}: {reads} {writes}");
        assert_eq!(reads, kernel_reads, "{case}: fio and the kernel");
        // the kernel counts the empty request of a sync as a write, but that never reaches the
        // driver; the flush request does, and may serve several syncs
        assert_eq!(writes + syncs, kernel_writes, "{case}: fio and the kernel");
        assert!(flushes > 0 && flushes <= syncs, "{case}");
        for stage_set in STAGE_SETS {
            let run = ToolRun::exact(outcome, &case, stage_set);
            let want = BTreeMap::from([
                ("read".to_owned(), reads),
                ("write".to_owned(), writes),
                ("flush".to_owned(), flushes),
            ]);
            assert_eq!(run.io_counts(), want, "{case} {stage_set}");
            assert_eq!(number(run.row("read"), "bytes"), reads * 4096, "{case} {stage_set}");
            assert_eq!(number(run.row("write"), "bytes"), writes * 4096, "{case} {stage_set}");
            let ledger = &run.last["ledger"];
            assert_eq!(
                number(ledger, "in_flight") + number(ledger, "ending"),
                0,
                "{case} {stage_set}"
            );
        }
    }
}

fn other_commands_are_exact(outcome: &Outcome) {
    for stage_set in STAGE_SETS {
        let run = ToolRun::exact(outcome, "trim", stage_set);
        assert_eq!(fio_counts(outcome, "trim")[2], 100);
        assert_eq!(kernel_counts(outcome, "trim")[2], 100);
        assert_eq!(run.row("dataset-management")["count"], 100, "{stage_set}");
        // the kernel scans for partitions after each command: reads, which it counts too
        let run = ToolRun::exact(outcome, "zeroes", stage_set);
        let [reads, writes, ..] = kernel_counts(outcome, "zeroes");
        assert_eq!(writes, 25);
        let mut want = BTreeMap::from([("write-zeroes".to_owned(), 25)]);
        if reads > 0 {
            want.insert("read".to_owned(), reads);
        }
        assert_eq!(run.io_counts(), want, "{stage_set}");
    }
}

fn passthrough_and_admin_have_rows_of_their_own(outcome: &Outcome) {
    for stage_set in STAGE_SETS {
        let run = ToolRun::exact(outcome, "passthrough", stage_set);
        let count = |queue: &str, opcode: &str| -> u64 {
            run.rows()
                .iter()
                .filter(|r| text(r, "queue") == queue && text(r, "opcode") == opcode)
                .map(|r| number(r, "count"))
                .sum()
        };
        assert_eq!(count("io", "read"), 5, "{stage_set}");
        assert_eq!(count("admin", "get-log-page"), 5, "{stage_set}");
    }
}

/// Checks every command of every load.
fn stages_add_up(outcome: &Outcome) {
    for case in outcome.cases() {
        for stage_set in ["basic", "fine"] {
            let run = ToolRun::read(outcome, &case, stage_set);
            let commands: u64 = run.rows().iter().map(|r| number(r, "count")).sum();
            assert_eq!(run.commands.len() as u64, commands, "{case} {stage_set}");
            assert_sums(&run, &format!("{case} {stage_set}"));
        }
    }
}

/// The hooks on this kernel's path fire for each command, and no stage is reported without them.
fn points_are_seen(outcome: &Outcome) {
    for case in mixed(outcome) {
        let run = ToolRun::read(outcome, &case, "fine");
        let commands: u64 = run.io_counts().values().sum();
        for (kind, target) in [
            ("fentry", "nvme_setup_cmd"),
            ("tp_btf", "nvme_setup_cmd"),
            ("tp_btf", "block_rq_issue"),
            ("tp_btf", "nvme_sq"),
            ("tp_btf", "nvme_complete_rq"),
            ("tp_btf", "block_rq_complete"),
        ] {
            assert_eq!(run.hits(kind, target), commands, "{case}: {kind} {target}");
        }
        assert!(run.hits("fentry", "nvme_irq") > 0, "{case}");
        assert_eq!(run.hits("fentry", "nvme_irq"), run.hits("fexit", "nvme_irq"), "{case}");
        for command in &run.commands {
            let points = &command["points_ns"];
            for point in ["setup_in", "setup_out", "issue", "cqe", "complete", "end"] {
                assert!(points[point].is_u64(), "{case}: no {point}: {command}");
            }
            // the block layer's flush machinery creates flush requests: they have no start
            let is_flush = text(command, "opcode") == "flush";
            assert_eq!(points["start"].is_u64(), !is_flush, "{case}: {command}");
            let names: Vec<_> = list(command, "stages").iter().map(|s| text(s, "name")).collect();
            let is_alone = names.iter().any(|n| ["device", "device.run"].contains(n));
            assert_eq!(points["doorbell"].is_u64(), is_alone, "{case}: {command}");
        }
    }
}

super::on_kernels! {
    two_cpus TWO_CPUS [mixed_loads_are_exact other_commands_are_exact stages_add_up] {
        | only_in_test_all on_5_10 "5.10"
    }
    four_cpus FOUR_CPUS [
        mixed_loads_are_exact other_commands_are_exact passthrough_and_admin_have_rows_of_their_own
        stages_add_up points_are_seen
    ] {
        on_6_12 "6.12" | only_in_test_all on_6_1 "6.1" on_7_x "7.x" on_6_12_arm64 "6.12-arm64"
    }
    realtime FOUR_CPUS [mixed_loads_are_exact] { | only_in_test_all on_6_1_rt "6.1-rt" }
}
