// SPDX-License-Identifier: MIT OR Apache-2.0
//! The device did not notice a doorbell: the command waited until the next submission on its queue.

use std::collections::BTreeMap;
use std::collections::BTreeSet;

use super::super::Answer;
use super::super::Cause;
use super::super::Facts;
use super::stray::Queues;
use super::stray::Stray;
use crate::inflight::Verdict;
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
    let mut freed: BTreeMap<u32, (u64, u64, u16)> = BTreeMap::new();
    for stray in queues.strays(facts).filter(was_freed) {
        let found = freed.entry(stray.command.stratum.ctrl).or_default();
        *found = (found.0 + 1, found.1.max(stray.time_ns()), stray.command.qid);
    }
    freed.retain(|_, (count, longest, _)| *count > 1 || *longest >= CERTAIN_NS);
    let stuck = facts.stuck(|verdict| verdict == Some(Verdict::NotFetched));
    let ctrls: BTreeSet<u32> = freed.keys().chain(stuck.keys()).copied().collect();
    let causes = ctrls.into_iter().map(|ctrl| {
        let name = format!("nvme{ctrl}");
        let cause = Cause::new(
            "doorbell-unseen",
            &name,
            format!("{name} did not notice doorbells: commands waited for the next submission"),
            "update the virtual machine monitor; until then switch shadow doorbells off there (QEMU \
             8.1 and later: `-device nvme,dbcs=off`)",
        )
        .with_risk("without shadow doorbells each doorbell is an exit");
        let mut cause = stuck.get(&ctrl).copied().unwrap_or_default().shown_in(cause);
        if let Some((count, longest, qid)) = freed.get(&ctrl) {
            cause = cause
                .shown_by("commands that the next submission freed", count)
                .shown_by("the longest waited", nanos(*longest as f64))
                .shown_by("queue of the last", qid);
        }
        match facts.controller(ctrl).and_then(|c| c.shadow_doorbells) {
            Some(shadow) => cause.shown_by("shadow doorbells", if shadow { "yes" } else { "no" }),
            None => cause,
        }
    });
    Answer::of(
        causes.collect(),
        "no command waited for the next submission on its queue",
    )
}
