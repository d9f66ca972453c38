// SPDX-License-Identifier: MIT OR Apache-2.0
//! Every attach method on each kernel: the tool chooses the expected methods, every planned hook
//! fires, counts are exact if the method loses nothing, and otherwise the ledger accounts for each
//! missing command.

use std::collections::BTreeMap;

use nvme_deep::model::stage::StageSet;
use nvme_deep::probe::facts::KernelFacts;
use nvme_deep::probe::plan::{PointPlan, Policy, Rejection, plan};
use serde_json::{Value, from_value};

use super::guest::{Outcome, Suite};
use super::json::{ToolRun, assert_sums, fio_counts, kernel_counts, list, number, text};
use super::table::bless;

const METHODS: Suite = Suite::of("methods", &["nvme_null nvme0 0", "nvme_null nvme1 5000000"]);

const POINTS: &str = "start setup_in setup_out issue doorbell irq cqe complete end requeue";

/// The expected methods for the fine stage set, one word per point; `-`: not available.
const NEW: &str = "fentry fentry fentry fentry fentry fentry fentry fentry fentry fentry";
/// 6.1: no block_io_start yet (6.5).
const OLD: &str = "start_time_ns fentry fentry fentry fentry fentry fentry fentry fentry fentry";
/// The same with PREEMPT_RT: kprobes can't be preempted.
const OLD_RT: &str = "start_time_ns kprobe fentry fentry kprobe kprobe fentry fentry fentry fentry";
/// 5.10: no BTF of modules.
const OLDEST: &str = "start_time_ns kprobe rawtp fentry kprobe - rawtp rawtp fentry fentry";
/// The same, if btf/ has no file for Debian's current release.
const UNKNOWN_OLDEST: &str = "start_time_ns kprobe rawtp fentry - - rawtp rawtp fentry fentry";

/// Without FUNCTION_TRACER there are no trampolines for functions, and kprobes at submission would
/// make kprobes at the interrupt miss events.
const UNTRACED: &str = "fentry kprobe fentry fentry kprobe - fentry fentry fentry fentry";

/// arm64's 6.1: no trampolines for functions, and kprobes only on demand.
const OLD_ARM64: &str = "start_time_ns - fentry fentry - - fentry fentry fentry fentry";
/// arm64's 5.10: no BTF of modules either. The file of btf/ has the driver's types.
const OLDEST_ARM64: &str = "start_time_ns - rawtp fentry - - rawtp rawtp fentry fentry";

/// The JSON of `doctor`.
pub fn doctor(outcome: &Outcome) -> Value {
    serde_json::from_str(&outcome.text("doctor", "json")).unwrap()
}

fn facts(outcome: &Outcome) -> KernelFacts {
    from_value(doctor(outcome)["facts"].clone()).unwrap()
}

/// Whether the method's hooks at setup and completion can miss commands.
fn loses(method: &str) -> bool {
    ["kprobe", "tracepoint"].contains(&method)
}

/// The method by which each point was observed; `-`: none.
pub fn got(run: &ToolRun) -> BTreeMap<String, String> {
    list(&run.last["ledger"], "methods")
        .iter()
        .map(|w| {
            let method = w["method"].as_str().unwrap_or("-");
            (text(w, "point").to_owned(), method.to_owned())
        })
        .collect()
}

/// Reads of nvme1, which answers after 5 ms.
const SLOW_READS: u64 = 40;

fn row<'r>(run: &'r ToolRun, ctrl: &str, opcode: &str) -> &'r Value {
    let is = |r: &&Value| text(r, "ctrl") == ctrl && text(r, "opcode") == opcode;
    let mut rows = run.rows().iter().filter(is);
    let row = rows.next().unwrap_or_else(|| panic!("no {ctrl} {opcode}"));
    assert!(rows.next().is_none(), "two rows of {ctrl} {opcode}");
    row
}

fn counts(run: &ToolRun) -> BTreeMap<String, u64> {
    let mine = run.rows().iter().filter(|r| text(r, "ctrl") == "nvme0");
    mine.map(|r| (text(r, "opcode").to_owned(), number(r, "count"))).collect()
}

/// The device's time must be in the stages with `device` in their name, except `device.irq`, and in no other.
fn the_slow_device_is_seen(run: &ToolRun, what: &str) {
    let reads = row(run, "nvme1", "read");
    let all = number(reads, "count");
    let mut devices = 0;
    for stage in list(reads, "stages") {
        let (name, p50) = (text(stage, "name"), number(stage, "p50_ns"));
        if name.contains("device") && name != "device.irq" {
            // no upper bound for a few merged commands (late doorbells): one may have been delayed
            let few = number(stage, "count") * 4 < all;
            let most = if few { u64::MAX } else { 9_000_000 };
            assert!((4_600_000..most).contains(&p50), "{what}: {stage}");
            devices += number(stage, "count");
        } else {
            assert!(p50 < 500_000, "{what}: {stage}");
        }
    }
    // a command has no device stage if the program at its setup or its completion was skipped
    let skipped = ["unseen_setups", "unseen_completions"];
    let unseen: u64 = skipped.iter().map(|what| number(&run.last["ledger"], what)).sum();
    assert!(devices <= all && devices + unseen >= all, "{what}");
}

/// The commands on nvme0: reads, writes, flushes.
fn truth(outcome: &Outcome, case: &str) -> BTreeMap<String, u64> {
    assert_eq!(outcome.files(case, ".fio").len(), 3, "{case}: three loads");
    let [reads, writes, _, syncs] = fio_counts(outcome, case);
    let [kernel_reads, kernel_writes, _, flushes] = kernel_counts(outcome, case);
    assert_eq!(reads, kernel_reads, "{case}");
    // the kernel counts the empty request of a sync as a write, but that never reaches the driver
    assert_eq!(writes + syncs, kernel_writes, "{case}");
    assert_eq!(reads + writes, 1800, "{case}");
    assert!(flushes > 0, "{case}");
    [("read", reads), ("write", writes), ("flush", flushes)]
        .map(|(name, n)| (name.to_owned(), n))
        .into()
}

fn the_plan_is_as_expected(outcome: &Outcome, expected: &str) {
    let run = ToolRun::read(outcome, "auto", "fine");
    let points = POINTS.split(' ').zip(expected.split(' '));
    let want: BTreeMap<String, String> =
        points.map(|(p, w)| (p.to_owned(), w.to_owned())).collect();
    assert_eq!(got(&run), want);
    // the planner makes the same choice from the facts of `doctor`, for the same reasons
    let plan = plan(StageSet::Fine, &facts(outcome), &Policy::default()).unwrap();
    let of_point = |p: &PointPlan| {
        let rejected = p.rejected.iter();
        let reason = |r: &Rejection| (p.name().to_owned(), r.hook.clone(), r.why.to_string());
        rejected.map(reason).collect::<Vec<_>>()
    };
    let reasons: Vec<_> = plan.points.iter().flat_map(of_point).collect();
    let missing = list(&run.last["ledger"], "missing_hooks").iter();
    let word = |m, field| text(m, field).to_owned();
    let shown: Vec<_> = missing
        .map(|m| {
            assert_eq!(m["tried"], false, "the plan should have known: {m}");
            (word(m, "point"), word(m, "hook"), word(m, "why"))
        })
        .collect();
    assert_eq!(shown, reasons);
    for point in &plan.points {
        let method = point.method.map_or("-", |f| f.name());
        let shown = &want[point.name()];
        let by_field = shown == "start_time_ns" && method == "-";
        assert!(by_field || shown == method, "{}: {method}", point.name());
    }
}

/// An attached hook may never fire. Only hooks that these loads do not pass may have no hits.
fn every_planned_hook_fires(outcome: &Outcome, case: &str) {
    let run = ToolRun::read(outcome, case, "fine");
    let rare = ["nvme_commit_rqs", "block_rq_requeue", "blk_mq_requeue_request"];
    // 7.x sends only plugged batches through nvme_queue_rqs(); fio's batches of one file are
    // plugged
    for hook in list(&run.last["ledger"], "hooks") {
        let target = text(hook, "target");
        if rare.contains(&target) {
            assert!(hook["may_stay_silent"].is_string(), "{hook}");
        } else {
            assert!(number(hook, "hits") > 0, "{case}: attached and silent: {hook}");
        }
    }
}

fn exact(outcome: &Outcome, case: &str, name: &str) {
    let what = format!("{case} {name}");
    let run = ToolRun::read(outcome, case, name);
    let want = truth(outcome, case);
    assert_eq!(counts(&run), want, "{what}");
    assert_eq!(number(row(&run, "nvme1", "read"), "count"), SLOW_READS, "{what}");
    run.assert_exact(&what);
    assert_eq!(number(&run.last["ledger"], "in_flight"), 0, "{what}");
    assert_eq!(run.last["ledger"]["misses_known"], true, "{what}");
    for opcode in ["read", "write"] {
        assert_eq!(number(row(&run, "nvme0", opcode), "bytes"), want[opcode] * 4096, "{what}");
    }
    if name != "total" {
        let commands: u64 = want.values().sum();
        assert_eq!(run.commands.len() as u64, commands + SLOW_READS, "{what}");
        assert_sums(&run, &what);
        the_slow_device_is_seen(&run, &what);
    }
}

/// Each command is accounted for. The submitting side loses nothing; a missed completion is
/// recovered (if the driver's types are known), or is in the ledger.
fn missing_hooks_are_in_the_ledger(outcome: &Outcome, case: &str) {
    let run = ToolRun::read(outcome, case, "fine");
    let ledger = &run.last["ledger"];
    let want = truth(outcome, case);
    let n = |field| number(ledger, field);
    let all = want.values().sum::<u64>() + SLOW_READS;
    assert_eq!(n("seen"), all, "{case}: {ledger}");
    assert_eq!(ledger["balance"]["balanced"], true, "{case}: {ledger}");
    let lost = n("overwritten") + n("in_flight");
    let found = n("unseen_completions");
    assert_eq!(n("matched") + lost, all, "{case}: {ledger}");
    if ledger["recovers"] == true {
        assert_eq!(lost, 0, "{case}: {ledger}");
        assert_eq!(counts(&run), want, "{case}");
    }
    for (opcode, count) in counts(&run) {
        assert!(count <= want[&opcode], "{case}: {opcode}");
    }
    let known = facts(outcome).misses_counted;
    assert_eq!(ledger["misses_known"], known, "{case}");
    if known {
        // the kernel's own count of skipped runs agrees
        assert_eq!(run.misses_of("complete"), lost + found, "{case}: {ledger}");
    }
    assert_sums(&run, case);
    the_slow_device_is_seen(&run, case);
}

fn forced(outcome: &Outcome, method: &str) {
    let possible = plan(
        StageSet::Fine,
        &facts(outcome),
        &Policy { only: Some(from_value(method_word(method)).unwrap()), ..Policy::default() },
    );
    match possible {
        Ok(_) => {
            let run = ToolRun::read(outcome, method, "fine");
            let methods = got(&run);
            let others =
                methods.values().filter(|w| *w != method && *w != "-" && *w != "start_time_ns");
            assert_eq!(others.count(), 0, "{method}: {methods:?}");
            if loses(method) {
                missing_hooks_are_in_the_ledger(outcome, method);
            } else {
                exact(outcome, method, "fine");
            }
            every_planned_hook_fires(outcome, method);
        }
        Err(none) => {
            assert_eq!(outcome.text(method, "fine.status").trim(), "5", "{method}");
            let said = outcome.text(method, "fine.err");
            assert!(said.contains(&format!("--attach {method}")), "{said}");
            assert!(said.contains(&none.reasons()), "{said}");
            assert_eq!(said.lines().count(), 1, "{said}");
        }
    }
}

/// The spelling of the method for serde.
fn method_word(method: &str) -> Value {
    Value::from(if method == "rawtp" { "raw_tp" } else { method })
}

/// Each method is exact, or says what it lost, or why the kernel does not have it.
pub fn all_methods(outcome: &Outcome) {
    let kernel = outcome.kernel();
    let types = &doctor(outcome)["facts"]["nvme_core_types"];
    let shipped = types["shipped"].is_string();
    let expected = match kernel {
        "5.10" if shipped => OLDEST,
        // the types of their drivers are not known
        "5.10" | "nomodulebtf-6.1" => UNKNOWN_OLDEST,
        "5.10-arm64" => OLDEST_ARM64,
        "6.1-arm64" => OLD_ARM64,
        "6.1-rt" => OLD_RT,
        "6.1" | "builtin-6.1" | "builtin-5.10" => OLD,
        "notrace-6.12" => UNTRACED,
        _ => NEW,
    };
    if kernel.ends_with("-arm64") && expected != NEW {
        assert_eq!(shipped, expected == OLDEST_ARM64, "{types}");
    }
    the_plan_is_as_expected(outcome, expected);
    every_planned_hook_fires(outcome, "auto");
    for stage_set in ["total", "basic", "fine", "full"] {
        exact(outcome, "auto", stage_set);
    }
    for method in ["fentry", "rawtp", "kprobe", "tracepoint"] {
        forced(outcome, method);
        if expected == NEW {
            assert_eq!(outcome.code(method, "fine"), 0, "{method} is available");
        }
    }
    if kernel == "5.10" {
        assert_eq!(outcome.code("fentry", "fine"), 5);
    }
    bless(outcome, kernel);
}

/// The output of `doctor`, and of a run by classic tracepoints, has the expected text.
fn doctor_reports_the_plan(outcome: &Outcome) {
    let told = outcome.text("doctor", "text");
    assert!(told.starts_with("READY: "), "{told}");
    for words in ["QEMU NVMe Ctrl", "shadow doorbells offered", "setup_out", "io_timeout 30 s"] {
        assert!(told.contains(words), "no `{words}` in:\n{told}");
    }
    let json = doctor(outcome);
    assert_eq!(json["type"], "doctor");
    let controller = &list(&json, "controllers")[0];
    assert_eq!(controller["instance"], 0, "{controller}");
    assert_eq!(controller["io_queues"], 2, "{controller}");
    assert_eq!(controller["vectors"], 3, "{controller}");
    let text = outcome.text("words", "tracepoint.out");
    assert!(text.contains("total = from the setup of the command to its completion"), "{text}");
    assert!(text.contains("no start, doorbell, cqe, requeue, because"), "{text}");
    let verdict = text.lines().find(|l| l.starts_with("accuracy ")).unwrap();
    let lost = verdict.contains("DEGRADED");
    let known = facts(outcome).misses_counted;
    assert!(lost || verdict.contains(if known { "exact" } else { "NOT KNOWN" }), "{text}");
}

/// Counts are exact on a kernel without its own BTF, if a file describes all of the kernel.
fn a_file_may_describe_the_kernel(outcome: &Outcome) {
    let run = ToolRun::read(outcome, "described", "fine");
    assert_eq!(fio_counts(outcome, "described")[0], 300);
    assert_eq!(kernel_counts(outcome, "described")[0], 300);
    assert_eq!(counts(&run), BTreeMap::from([("read".to_owned(), 300)]));
    run.assert_exact("described");
    assert_sums(&run, "described");
    let methods = got(&run);
    for point in ["start", "setup_out", "issue", "cqe", "complete", "end"] {
        assert_eq!(methods[point], "rawtp", "{methods:?}");
    }
    assert_eq!(methods["doorbell"], "kprobe", "{methods:?}");
}

super::on_kernels! {
    suite METHODS [all_methods] {
        on_6_12 "6.12" on_5_10 "5.10" on_6_1 "6.1" on_7_x "7.x" | only_in_test_all
        on_6_1_rt "6.1-rt" on_6_12_cloud "6.12-cloud" on_5_10_arm64 "5.10-arm64"
        on_6_1_arm64 "6.1-arm64" on_7_x_arm64 "7.x-arm64" on_6_12_arm64_16k "6.12-arm64-16k"
        on_bare_6_12 "bare-6.12" on_builtin_5_10 "builtin-5.10" on_builtin_6_1 "builtin-6.1"
        on_builtin_7_x "builtin-7.x" on_nomodulebtf_6_1 "nomodulebtf-6.1"
        on_notrace_6_12 "notrace-6.12"
    }
    doctor METHODS [doctor_reports_the_plan] {
        on_5_10 "5.10" on_7_x "7.x" | only_in_test_all on_6_12_cloud "6.12-cloud"
    }
    described METHODS [a_file_may_describe_the_kernel] {
        | only_in_test_all on_6_12_cloud "6.12-cloud"
    }
}
