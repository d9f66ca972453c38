// SPDX-License-Identifier: MIT OR Apache-2.0
//! One CPU handles the interrupts of commands of many.

use std::collections::BTreeMap;

use super::percent;
use crate::diagnose::portion::Reaches;
use crate::diagnose::report::{Answer, Cause, Facts, Stages, Subject};

/// One CPU completes this part.
const ON_ONE: f64 = 0.95;
/// And submits at most this part.
const SPREAD: f64 = 0.8;
/// The stages of the interrupt have this part of the time.
const PART: f64 = 0.3;
/// The stages of the interrupt.
const STAGES: Stages = Stages::IRQ.with(Stages::COMPLETE).with(Stages::END);

/// The CPU with most commands, and its part of them.
fn most(cpus: impl Iterator<Item = u16>) -> Option<(u16, f64)> {
    let (mut counts, mut all): (BTreeMap<u16, u64>, u64) = (BTreeMap::new(), 0);
    for cpu in cpus {
        *counts.entry(cpu).or_default() += 1;
        all += 1;
    }
    let (cpu, count) = counts.into_iter().max_by_key(|(_, n)| *n)?;
    Some((cpu, count as f64 / all as f64))
}

pub fn check(facts: &Facts, subject: Subject) -> Answer {
    if let Some(why) = facts.lacks(subject) {
        return Answer::Open(why);
    }
    let Some(portion) = facts.portion(subject, STAGES) else {
        return Answer::Absent("no commands".into());
    };
    let ends = most(facts.of_subject(subject).filter_map(|c| c.end_cpu));
    let begins = most(facts.of_subject(subject).filter_map(|c| c.submit_cpu));
    let (Some((cpu, on_one)), Some((_, spread))) = (ends, begins) else {
        return Answer::Open("the CPUs of submissions were not observed".into());
    };
    if on_one < ON_ONE || spread > SPREAD {
        return Answer::Absent("commands are completed by as many CPUs as submit them".into());
    }
    match portion.is_at_least(PART) {
        Reaches::Yes => {}
        Reaches::Open => return Answer::Open(portion.undecided()),
        Reaches::No => return Answer::Out(format!("{} have {}", STAGES.name(), portion.text())),
    }
    let name = facts.subject_name(subject);
    let mut cause = Cause::new(
        "one-irq-cpu",
        &name,
        format!("CPU {cpu} completes the commands that all CPUs submit to {name}"),
        format!(
            "give the controller more interrupt vectors (QEMU: `-device nvme,msix_qsize=N`), or move other \
             work away from CPU {cpu}"
        ),
    )
    .explaining_stages(&portion)
    .shown_by("completed there", percent(on_one))
    .shown_by("submitted by any one CPU at most", percent(spread))
    .shown_by(&STAGES.name(), portion.text());
    let controller = subject.ctrl().and_then(|ctrl| facts.controller(ctrl));
    if let Some(vectors) = controller.and_then(|c| c.vectors) {
        cause = cause.shown_by("interrupt vectors", vectors);
    }
    Answer::cause(cause)
}
