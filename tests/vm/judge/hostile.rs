// SPDX-License-Identifier: MIT OR Apache-2.0
//! Kernel features are off, file systems are not mounted, privileges or types are missing. The tool
//! uses what is left and reports it, or ends with a one-line error.

use serde_json::Value;

use super::guest::{Outcome, Suite};
use super::json::{ToolRun, list, text};
use super::ledger::{assert_nothing_is_left, exact, exact_but_for_misses, kinds, ledger, rejected};

const HOSTILE: Suite = Suite::of("hostile", &["nvme_null nvme0 0"]);

/// The JSON of `doctor`, which always has a report. It ends as the commands that trace would.
pub fn doctor(outcome: &Outcome, case: &str) -> Value {
    let said = outcome.text(case, "doctor.err");
    let report: Value = serde_json::from_str(&outcome.text(case, "doctor.out")).unwrap();
    assert_eq!(outcome.code(case, "doctor"), report["exit_code"], "{case}: {said}");
    report
}

/// All points are observed, by the best methods.
pub fn assert_all_points(run: &ToolRun, case: &str) {
    let missing = list(&run.last["ledger"], "missing_hooks");
    assert!(missing.is_empty(), "{case}: {missing:?}");
    for point in ["setup_in", "doorbell", "irq", "cqe", "end"] {
        let kinds = kinds(run, point);
        let best = |k: &&str| ["tp_btf", "fentry", "fexit"].contains(k);
        assert!(!kinds.is_empty() && kinds.iter().all(best), "{case}: {point} {kinds:?}");
    }
}

/// No row separates `submit` from `device`: there is no doorbell.
fn assert_no_doorbell(run: &ToolRun, case: &str) {
    for row in run.rows() {
        for stage in list(row, "stages") {
            let name = text(stage, "name");
            let submits = name.contains("submit") && name != "submit.map";
            let claimed = submits != (name.contains("device") && name != "device.irq");
            assert!(!claimed || stage["count"] == 0, "{case}: {stage}");
        }
    }
}

fn kprobes_that_are_off_are_not_missed(outcome: &Outcome) {
    let run = exact(outcome, "kprobes-off", "auto");
    assert_all_points(&run, "kprobes-off");
    let words = ["--attach kprobe", "/sys/kernel/debug/kprobes/enabled"];
    outcome.assert_refused("kprobes-off", "kprobe", 5, &words);
    // without debugfs, the counts of the disks show that kprobes are off
    let run = ToolRun::ended(outcome, "kprobes-unseen", "kprobe", 1);
    let last = run.talk.lines().last().unwrap();
    assert!(last.contains("not one kprobe was called"), "{last}");
    assert!(last.contains("completed 300 requests"), "{last}");
    assert_eq!(ledger(&run, "seen"), 0);
    let run = ToolRun::ended(outcome, "kprobes-lost", "kprobe", 1);
    let last = run.talk.lines().last().unwrap();
    assert!(last.contains("kprobes are switched off"), "{last}");
    assert_eq!(run.last["ledger"]["balance"]["balanced"], true);
    assert!(ledger(&run, "seen") > 0);
    let run = exact_but_for_misses(outcome, "kprobes-on", "kprobe");
    assert!(kinds(&run, "doorbell").contains("kretprobe"));
}

fn without_ftrace_there_are_tracepoints(outcome: &Outcome) {
    let case = "ftrace-off";
    let run = exact(outcome, case, "auto");
    let missing = rejected(&run);
    let points: Vec<_> = missing.keys().map(String::as_str).collect();
    assert_eq!(points, ["doorbell", "irq", "setup_in"]);
    for why in missing.values().flatten() {
        assert!(why.contains("kernel.ftrace_enabled"), "{why}");
    }
    assert_no_doorbell(&run, case);
    let words = ["--attach kprobe", "kernel.ftrace_enabled"];
    outcome.assert_refused(case, "kprobe", 5, &words);
}

fn tracefs_is_needed_only_for_classic_tracepoints(outcome: &Outcome) {
    let run = exact(outcome, "tracefs-off", "auto");
    assert_all_points(&run, "tracefs-off");
    let words = ["--attach tracepoint", "tracefs is not mounted"];
    outcome.assert_refused("tracefs-off", "tracepoint", 5, &words);
    assert!(doctor(outcome, "tracefs-off")["facts"]["events"].is_null());
    exact_but_for_misses(outcome, "tracefs-off-kprobe", "kprobe");
    // either of the two mount points is enough
    for case in ["only-debugfs", "only-tracefs"] {
        let run = exact_but_for_misses(outcome, case, "tracepoint");
        assert_eq!(run.last["ledger"]["pairing"], "tag", "{case}");
    }
}

fn hidden_pointers_and_paranoid_events_do_not_concern_root(outcome: &Outcome) {
    let run = exact(outcome, "sysctls", "auto");
    assert_all_points(&run, "sysctls");
    exact_but_for_misses(outcome, "sysctls-kprobe", "kprobe");
}

/// The tool has only CAP_BPF and CAP_PERFMON. The kernel denies it the BTF of modules, so these
/// points use raw tracepoints, with the same types read from the files.
fn two_capabilities_are_enough(outcome: &Outcome) {
    for case in ["rights-3", "rights-2"] {
        let run = exact(outcome, case, "auto");
        for point in ["setup_out", "cqe", "complete"] {
            assert_eq!(kinds(&run, point), ["raw_tp"].into(), "{case}: {point}");
        }
        for point in ["start", "issue", "end"] {
            assert_eq!(kinds(&run, point), ["tp_btf"].into(), "{case}: {point}");
        }
        let said = doctor(outcome, case);
        assert_eq!(said["facts"]["may_use_module_btf"], false, "{case}");
    }
    // with perf_event_paranoid=3 Debian's kernels deny perf events, and so kprobes, to users
    let run = exact(outcome, "rights-3", "auto");
    let missing = rejected(&run);
    let points: Vec<_> = missing.keys().map(String::as_str).collect();
    assert_eq!(points, ["doorbell", "irq", "setup_in"]);
    let reasons = missing["doorbell"].join("; ");
    assert!(reasons.contains("CAP_SYS_ADMIN"), "{reasons}");
    assert!(reasons.contains("does not attach"), "{reasons}");
    assert_no_doorbell(&run, "rights-3");
    let run = exact(outcome, "rights-2", "auto");
    assert_eq!(kinds(&run, "doorbell"), ["kprobe", "kretprobe"].into());
    assert_eq!(rejected(&run).keys().collect::<Vec<_>>(), ["irq"]);
}

fn without_btf_there_are_classic_tracepoints(outcome: &Outcome) {
    let run = exact_but_for_misses(outcome, "no-btf", "auto");
    assert_eq!(run.last["ledger"]["pairing"], "tag");
    assert!(run.talk.contains("by tracepoint"), "{}", run.talk);
    assert!(ledger(&run, "seen") > 0);
    assert_eq!(doctor(outcome, "no-btf")["facts"]["vmlinux_btf"], false);
    let case = "no-btf-no-tracefs";
    let words = ["CONFIG_DEBUG_INFO_BTF", "tracefs is not mounted", "doctor"];
    outcome.assert_refused(case, "latency", 5, &words);
    assert_eq!(doctor(outcome, case)["exit_code"], 5);
}

fn files_that_do_not_fit_are_refused(outcome: &Outcome) {
    let misfit = ["/tmp/other.btf", "nvme_request has 32 bytes there and 40"];
    for (name, words) in [
        ("text", &["/tmp/text", "holds no BTF", "17 bytes"][..]),
        ("empty", &["/tmp/empty", "holds no BTF", "0 bytes"]),
        ("tmp", &["/tmp", "directory"]),
        ("missing", &["/tmp/missing", "No such file"]),
        ("nvme", &["/sys/kernel/btf/nvme", "split BTF"]),
        ("other.btf", &misfit),
        ("doctor", &misfit),
    ] {
        outcome.assert_refused("files", name, 2, words);
    }
}

super::on_kernels! {
    suite HOSTILE [
        kprobes_that_are_off_are_not_missed without_ftrace_there_are_tracepoints
        tracefs_is_needed_only_for_classic_tracepoints
        hidden_pointers_and_paranoid_events_do_not_concern_root two_capabilities_are_enough
        without_btf_there_are_classic_tracepoints files_that_do_not_fit_are_refused
        assert_nothing_is_left
    ] {
        | only_in_test_all on_6_12 "6.12"
    }
}
