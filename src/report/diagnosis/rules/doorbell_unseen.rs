// SPDX-License-Identifier: MIT OR Apache-2.0
//! The device did not notice a doorbell: the command waited until the next submission on its queue.

use std::collections::BTreeMap;

use super::super::Answer;
use super::super::Cause;
use super::super::Facts;
use super::stray::Queues;
use super::stray::Stray;
use crate::units::nanos;

/// One command that waited this long suffices.
const CERTAIN_NS: u64 = 1_000_000_000;

/// Whether the next submission on its queue freed it: nothing on the queue was completed before, and
/// then this command was, as fast as any.
fn was_freed(stray: &Stray<'_>) -> bool {
    let command = stray.command;
    let Some(next) = stray.later().first() else {
        return false;
    };
    if next.setup_ns > command.cqe_ns {
        return false;
    }
    let rest = command.cqe_ns - next.setup_ns;
    let silent = stray
        .queue
        .iter()
        .all(|c| c.cqe_ns <= command.setup_ns || c.cqe_ns >= next.setup_ns);
    silent && rest < stray.time_ns() / 10 && rest < stray.median_ns * 3 + 5_000_000
}

pub fn check(facts: &Facts) -> Answer {
    let queues = Queues::of(facts);
    let mut by_ctrl: BTreeMap<u32, (u64, u64, u16)> = BTreeMap::new();
    for stray in queues.strays(facts).filter(was_freed) {
        let found = by_ctrl.entry(stray.command.stratum.ctrl).or_default();
        *found = (found.0 + 1, found.1.max(stray.time_ns()), stray.command.qid);
    }
    by_ctrl.retain(|_, (count, longest, _)| *count > 1 || *longest >= CERTAIN_NS);
    let causes = by_ctrl.into_iter().map(|(ctrl, (count, longest, qid))| {
        let name = format!("nvme{ctrl}");
        let shadow = facts.controller(ctrl).and_then(|c| c.shadow_doorbells);
        let cause = Cause::new(
            "doorbell-unseen",
            &name,
            format!("{name} did not notice doorbells: commands waited for the next submission"),
            "update the virtual machine monitor; until then switch shadow doorbells off there (QEMU \
             8.1 and later: `-device nvme,dbcs=off`)",
        );
        let cause = cause
            .with_risk("without shadow doorbells each doorbell is an exit")
            .shown_by("commands that the next submission freed", count)
            .shown_by("the longest waited", nanos(longest as f64))
            .shown_by("queue of the last", qid);
        match shadow {
            Some(shadow) => cause.shown_by("shadow doorbells", if shadow { "yes" } else { "no" }),
            None => cause,
        }
    });
    Answer::of(
        causes.collect(),
        "no command waited for the next submission on its queue",
    )
}
