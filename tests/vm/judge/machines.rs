// SPDX-License-Identifier: MIT OR Apache-2.0
//! Every mode on machines and kernels of other shapes: counts are exact, and each point is observed or has a
//! reason.

use super::guest::{Outcome, Suite};
use super::json::{ToolRun, assert_sums, fio_counts, list, number, text};
use super::trace_read::TraceRun;
use crate::planted::causes;

const TWO: &[&str] = &["nvme_null nvme0 0", "nvme_null nvme1 1000000"];
const WITH_HELD: &[&str] = &["nvme_null nvme0 0", "nvme_on nvme1 served-soon"];

const fn machine(
    variant: &'static str,
    smp: &'static str,
    controllers: &'static [&'static str],
    append: &'static str,
) -> Suite {
    Suite { variant, smp, append, ..Suite::of("machine", controllers) }
}

/// For kernels of other shapes.
const PLAIN: Suite =
    Suite { env: &[("SERVED", "soon")], ..machine("", "2", WITH_HELD, "lab.held=nvme1") };
/// Every completion moves to the CPU that submitted, by an interrupt to another socket. With several sockets the
/// kernel does not trust the TSC, and the emulated HPET is so slow that seven tools take 20 ms for a batch.
const SOCKETS: Suite = machine("-sockets", "4,sockets=4", TWO, "lab.affinity=2 tsc=reliable");
const FEW_VECTORS: Suite = machine(
    "-few-vectors",
    "4",
    &["nvme_null nvme0 0 msix_qsize=3", "nvme_null nvme1 1000000 msix_qsize=2"],
    "",
);
const POSSIBLE: Suite = machine("-possible", "2,maxcpus=128", TWO, "");
const HOTPLUG: Suite = machine("-hotplug", "4", TWO, "lab.hotplug");
const ISOLATED: Suite =
    machine("-isolated", "4", TWO, "isolcpus=domain,managed_irq,2-3 nohz_full=2-3");
const CLOCK: Suite = Suite {
    env: &[("SERVED", "soon")],
    ..machine("-clock", "2", WITH_HELD, "lab.clock lab.held=nvme1")
};
const THREADS: Suite = machine("-threads", "2", TWO, "threadirqs");
const UNEQUAL: Suite = machine(
    "-unequal",
    "4",
    &[
        "nvme_null nvme0 0 max_ioqpairs=1 msix_qsize=2",
        "nvme_null nvme1 0 max_ioqpairs=64 msix_qsize=65",
    ],
    "nvme.write_queues=4 nvme.poll_queues=4",
);
const MANY: Suite = machine("-many", "2", &["nvme_null nvme0..24 0"], "");

/// Reads and writes on all disks, by fio. The kernel counts as many reads.
fn truth(outcome: &Outcome) -> [u64; 2] {
    let [reads, writes, ..] = fio_counts(outcome, "modes");
    let reads_of = |when: &str| -> u64 {
        let stats = outcome.text("modes", &format!("stats.{when}"));
        let reads = stats.lines().map(|line| line.split_whitespace().nth(1).unwrap());
        reads.map(|count| count.parse::<u64>().unwrap()).sum()
    };
    assert_eq!(reads_of("after") - reads_of("before"), reads);
    assert!(reads > 0 && writes > 0);
    [reads, writes]
}

fn latency_counts_each_command(outcome: &Outcome) {
    let want = truth(outcome);
    for name in ["total", "basic", "fine", "full"] {
        let run = ToolRun::exact(outcome, "modes", name);
        let counts = run.io_counts();
        assert_eq!([counts["read"], counts["write"]], want, "{name}");
        assert_eq!(number(&run.last["ledger"], "in_flight"), 0, "{name}");
        if !run.commands.is_empty() {
            assert_sums(&run, name);
        }
    }
}

fn events_have_each_command(outcome: &Outcome) {
    let [reads, writes] = truth(outcome);
    let run = TraceRun::read(outcome, "modes", "trace");
    // virtual CPUs share two: a point may be written into the slot's next command. It is dropped and counted.
    run.assert_nothing_lost_but(&["negative_intervals"]);
    assert!(run.entry("negative_intervals") <= (reads + writes) / 1000);
    let of = |opcode: &str| run.of("command").filter(|e| text(e, "opcode") == opcode).count();
    assert_eq!([of("read") as u64, of("write") as u64], [reads, writes]);
    let recorded = ToolRun::read(outcome, "modes", "recorded");
    let counts = recorded.io_counts();
    assert_eq!([counts["read"], counts["write"]], [reads, writes], "recorded");
    assert_eq!(outcome.code("modes", "file"), 0);
}

/// Each point that a stage set promises has a program that fires, or a reason.
fn each_point_is_observed_or_has_a_reason(outcome: &Outcome) {
    for name in ["basic", "fine", "full"] {
        let run = ToolRun::read(outcome, "modes", name);
        let ledger = &run.last["ledger"];
        let missing = list(ledger, "missing_hooks");
        for entry in list(ledger, "methods") {
            let point = text(entry, "point");
            let reason = missing.iter().find(|m| text(m, "point") == point);
            let is_known = reason.is_some_and(|m| !text(m, "why").is_empty());
            assert!(entry["method"].is_string() || is_known, "{name}: {entry} {missing:?}");
        }
        for hook in missing {
            assert_eq!(hook["tried"], false, "the plan should have known: {hook}");
        }
        for hook in list(ledger, "hooks") {
            let fires = number(hook, "hits") > 0 || hook["may_stay_silent"].is_string();
            assert!(fires, "{name}: attached and silent: {hook}");
        }
    }
}

/// Whatever slows an emulated machine, `diagnose` has seen each command.
fn diagnose_judges_what_it_saw(outcome: &Outcome) {
    let object = &outcome.objects("modes", "diagnosis")[0];
    assert_ne!(object["outcome"], "not_known", "{object}");
    let [reads, writes] = truth(outcome);
    assert!(number(object, "commands") >= reads + writes, "{object}");
    for rule in causes(object) {
        // nothing on these machines is stuck, reset or limited
        let is_strange = ["stuck", "lost", "unseen", "held", "limit", "throttle", "gap"];
        assert!(!is_strange.iter().any(|word| rule.contains(word)), "{object}");
    }
}

fn all_modes_are_exact(outcome: &Outcome) {
    latency_counts_each_command(outcome);
    events_have_each_command(outcome);
    each_point_is_observed_or_has_a_reason(outcome);
    diagnose_judges_what_it_saw(outcome);
}

/// A held read is in flight, with its age in the time of this machine.
fn inflight_shows_the_held_read(outcome: &Outcome) {
    let one = outcome.objects("held", "look");
    assert_eq!(one.len(), 1);
    let held = list(&one[0], "commands");
    assert_eq!(held.len(), 1, "{held:?}");
    assert_eq!([text(&held[0], "ctrl"), text(&held[0], "opcode")], ["nvme1", "read"]);
    let observed = outcome.objects("held", "observed");
    let ages = observed.iter().flat_map(|look| list(look, "commands"));
    let ages: Vec<u64> = ages.map(|command| number(&command["observed"], "age_ns")).collect();
    assert!(!ages.is_empty(), "{observed:?}");
    // it is held for 4 s
    assert!(ages.iter().all(|age| *age < 20_000_000_000), "{ages:?}");
}

/// `inflight` finds the driver's controllers by a variable, and reads them by their types. Without either there
/// is a reason.
fn inflight_says_what_it_lacks(outcome: &Outcome) {
    let why = match outcome.kernel() {
        "nomodulebtf-6.1" => "types lack nvme_subsystem",
        _ => "does not list its variables in /proc/kallsyms (CONFIG_KALLSYMS_ALL)",
    };
    for name in ["look", "observed"] {
        outcome.assert_refused("held", name, 5, &[why]);
    }
}

super::on_kernels! {
    sockets SOCKETS [all_modes_are_exact] { | only_in_test_all on_6_12 "6.12" on_7_x "7.x" }
    few_vectors FEW_VECTORS [all_modes_are_exact] { | only_in_test_all on_6_12 "6.12" }
    possible POSSIBLE [all_modes_are_exact] { | only_in_test_all on_6_12 "6.12" }
    hotplug HOTPLUG [all_modes_are_exact] { | only_in_test_all on_6_12 "6.12" }
    isolated ISOLATED [all_modes_are_exact] { | only_in_test_all on_6_12 "6.12" }
    threads THREADS [all_modes_are_exact] { | only_in_test_all on_6_12 "6.12" on_7_x "7.x" }
    unequal UNEQUAL [all_modes_are_exact] { | only_in_test_all on_6_12 "6.12" }
    many MANY [all_modes_are_exact] { | only_in_test_all on_6_12 "6.12" }
    clock CLOCK [all_modes_are_exact inflight_shows_the_held_read] {
        | only_in_test_all on_6_12 "6.12"
    }
    shapes PLAIN [all_modes_are_exact inflight_shows_the_held_read] {
        | only_in_test_all on_6_12 "6.12" on_builtin_6_1 "builtin-6.1"
        on_builtin_5_10 "builtin-5.10" on_notrace_6_12 "notrace-6.12" on_builtin_7_x "builtin-7.x"
    }
    shapes_without_inflight PLAIN [all_modes_are_exact inflight_says_what_it_lacks] {
        | only_in_test_all on_bare_6_12 "bare-6.12" on_nomodulebtf_6_1 "nomodulebtf-6.1"
    }
}
