// SPDX-License-Identifier: MIT OR Apache-2.0
//! One CPU handles the interrupts of commands of many.

use std::collections::BTreeMap;

use super::super::Answer;
use super::super::Cause;
use super::super::Facts;
use super::super::Share;
use super::super::Stages;
use super::percent;

/// One CPU completes this part.
const ON_ONE: f64 = 0.95;
/// And submits at most this part.
const SPREAD: f64 = 0.8;
/// The stages of the interrupt have this part of the time.
const PART: f64 = 1.0 / 3.0;

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

pub fn check(facts: &Facts) -> Answer {
    let stages = Stages::IRQ | Stages::COMPLETE | Stages::END;
    let (mut causes, mut largest) = (Vec::new(), Share::default());
    for ctrl in facts.ctrls() {
        let all = facts.of_ctrl(ctrl);
        let ends = most(all.clone().filter_map(|c| c.end_cpu));
        let begins = most(all.clone().filter_map(|c| c.submit_cpu));
        let (Some((cpu, on_one)), Some((_, spread))) = (ends, begins) else {
            continue;
        };
        if on_one < ON_ONE || spread > SPREAD {
            continue;
        }
        let share = facts.share(all, stages).unwrap_or_default();
        if share.part > largest.part {
            largest = share;
        }
        if share.low < PART {
            continue;
        }
        let name = format!("nvme{ctrl}");
        let mut cause = Cause::new(
            "one-irq-cpu",
            &name,
            format!("CPU {cpu} completes the commands that all CPUs submit to {name}"),
            "give the controller more interrupt vectors (QEMU: `-device nvme,msix_qsize=N`), or move other \
             work away from that CPU",
        )
        .explaining(share.part)
        .shown_by("completed there", percent(on_one))
        .shown_by("submitted by any one CPU at most", percent(spread))
        .shown_by(&stages.name(), format!("{} of the time", share.text()));
        if let Some(vectors) = facts.controller(ctrl).and_then(|c| c.vectors) {
            cause = cause.shown_by("interrupt vectors", vectors);
        }
        causes.push(cause);
    }
    let otherwise = if largest.part > 0.0 {
        format!("{} have {} of the time", stages.name(), largest.text())
    } else {
        "commands are completed by as many CPUs as submit them".into()
    };
    Answer::of(causes, otherwise)
}
