// SPDX-License-Identifier: MIT OR Apache-2.0
//! Lockdown: the tool traces if the kernel permits any method, and distinguishes what is forbidden
//! from what does not exist.

use super::guest::{Outcome, Suite};
use super::hostile::{assert_all_points, doctor};
use super::ledger::{assert_nothing_is_left, exact};

const fn locked(variant: &'static str, append: &'static str) -> Suite {
    Suite { variant, append, ..Suite::of("lockdown", &["nvme_null nvme0 0"]) }
}

const INTEGRITY: Suite = locked("-integrity", "lockdown=integrity");
const CONFIDENTIALITY: Suite = locked("-confidentiality", "lockdown=confidentiality");

fn integrity_costs_nothing(outcome: &Outcome) {
    let level = outcome.text("lockdown", "level");
    assert!(level.contains("[integrity]"), "{level}");
    assert_all_points(&exact(outcome, "auto", "auto"), "integrity");
    for method in ["fentry", "rawtp", "kprobe", "tracepoint"] {
        let said = outcome.text("lockdown", &format!("{method}.err"));
        assert_eq!(outcome.code("lockdown", method), 0, "{method}: {said}");
    }
    let said = doctor(outcome, "lockdown");
    assert_eq!(said["facts"]["lockdown"], "integrity");
    // debugfs is closed, and the log is gone
    assert_eq!(said["facts"]["preemption_source"], "memory");
    assert_nothing_is_left(outcome);
}

fn other_methods_are_forbidden(outcome: &Outcome) {
    let level = outcome.text("lockdown", "level");
    assert!(level.contains("[confidentiality]"), "{level}");
    for (method, why) in [
        ("rawtp", "read kernel memory by helper"),
        ("kprobe", "forbids kprobes"),
        ("tracepoint", "closes tracefs"),
    ] {
        let attach = format!("--attach {method}");
        let words = [&attach, "lockdown=confidentiality", why];
        outcome.assert_refused("lockdown", method, 5, &words);
    }
    let said = doctor(outcome, "lockdown");
    assert_eq!(said["facts"]["lockdown"], "confidentiality");
    assert_eq!(outcome.code("lockdown", "doctor-text"), said["exit_code"]);
    assert_nothing_is_left(outcome);
}

/// Since 6.2 programs can read the objects that the kernel passes to them without a helper.
fn confidentiality_leaves_typed_programs(outcome: &Outcome) {
    assert_all_points(&exact(outcome, "auto", "auto"), "confidentiality");
    assert_eq!(outcome.code("lockdown", "fentry"), 0);
    other_methods_are_forbidden(outcome);
}

fn confidentiality_leaves_nothing(outcome: &Outcome) {
    let words = ["lockdown=confidentiality", "kernels before 6.2", "doctor"];
    outcome.assert_refused("auto", "auto", 5, &words);
    outcome.assert_refused("lockdown", "fentry", 5, &words);
    other_methods_are_forbidden(outcome);
}

super::on_kernels! {
    integrity INTEGRITY [integrity_costs_nothing] { | only_in_test_all on_6_12 "6.12" on_7_x "7.x" }
    typed CONFIDENTIALITY [confidentiality_leaves_typed_programs] {
        | only_in_test_all on_6_12 "6.12" on_7_x "7.x"
    }
    untyped CONFIDENTIALITY [confidentiality_leaves_nothing] { | only_in_test_all on_6_1 "6.1" }
}
