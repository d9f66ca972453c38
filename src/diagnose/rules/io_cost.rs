// SPDX-License-Identifier: MIT OR Apache-2.0
//! io.cost holds bios back: its model of the device says that it is busy, or the cgroup has used its
//! share.

use super::before::{Before, Wait, cgroup_file, of_all_waits};
use super::waits::PART;
use crate::diagnose::report::{Answer, Cause, Facts, Stages, Subject};

const RISK: &str = "without io.cost, cgroups do not share the disk by their weights";

pub fn check(facts: &Facts, subject: Subject) -> Answer {
    let before = match Before::of(facts, subject, Stages::IOCOST, "io.cost") {
        Wait::Large(before) => before,
        Wait::Judged(answer) => return answer,
        Wait::Unseen => return of_all_waits(facts, subject, PART),
    };
    let name = facts.subject_name(subject);
    let file = cgroup_file(facts, "/", "io.cost.qos");
    let disk = before.settings(facts);
    let number = disk.and_then(|disk| disk.number);
    let number = number.map_or("MAJOR:MINOR".into(), |[major, minor]| format!("{major}:{minor}"));
    let cause = Cause::new(
        "io-cost",
        &name,
        format!("io.cost holds bios of {name} back for {} of the time", before.portion.range()),
        format!(
            "measure the device for io.cost.model (tools/cgroup/iocost_coef_gen.py of the kernel), widen min and max of \
             io.cost.qos, give {} more io.weight, or switch it off: `echo \"{number} enable=0\" > {file}`",
            before.cgroup(facts).map_or("the cgroup".into(), |name| format!("the cgroup {name}"))
        ),
    );
    let cause = before.shown_in(cause).with_risk(RISK);
    let cost = disk.and_then(|disk| disk.io_cost.as_ref());
    Answer::cause(match cost {
        Some(cost) => cause.shown_by("io.cost.qos at the begin", cost),
        None => cause,
    })
}
