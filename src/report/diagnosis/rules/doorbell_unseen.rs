// SPDX-License-Identifier: MIT OR Apache-2.0
//! The device did not notice a doorbell: the command waited until the next submission on its queue.

use super::super::Answer;
use super::super::Cause;
use super::super::Facts;
use super::super::Subject;
use super::stray::Queues;
use super::stray::Stray;
use crate::inflight::StuckState;
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

pub fn check(facts: &Facts, subject: Subject) -> Answer {
    let Some(ctrl) = subject.ctrl() else {
        return Answer::Absent("no controller".into());
    };
    if let Some(transport) = facts.fabric(ctrl) {
        return Answer::Absent(format!("{transport} has no doorbells"));
    }
    let queues = Queues::of(facts, ctrl);
    let (mut count, mut longest, mut qid) = (0_u64, 0, 0);
    for stray in queues.strays(facts).filter(was_freed) {
        (count, longest) = (count + 1, stray.time_ns().max(longest));
        qid = stray.command.qid;
    }
    let lacks = facts.lacks(subject);
    // another command of the queue may have been completed meanwhile
    let is_freed = lacks.is_none() && (count > 1 || longest >= CERTAIN_NS);
    let stuck = facts.stuck(|verdict| verdict == Some(StuckState::NotFetched));
    let stuck = stuck.get(&ctrl).copied();
    if stuck.is_none() && !is_freed {
        if let Some(why) = lacks.filter(|_| count > 0) {
            return Answer::Open(why);
        }
        return Answer::Absent("no command waited for the next submission on its queue".to_owned());
    }
    let name = format!("nvme{ctrl}");
    let cause = Cause::new(
        "doorbell-unseen",
        &name,
        format!("{name} did not notice doorbells: commands waited for the next submission"),
        "update the virtual machine monitor; until then switch shadow doorbells off there (QEMU \
         8.1 and later: `-device nvme,dbcs=off`)",
    )
    .with_risk("without shadow doorbells each doorbell is an exit");
    let mut cause = stuck.unwrap_or_default().shown_in(cause);
    if is_freed {
        cause = cause
            .shown_by("commands that the next submission freed", count)
            .shown_by("the longest waited", nanos(longest as f64))
            .shown_by("queue id of the last", qid);
    }
    let shadow = facts.controller(ctrl).and_then(|c| c.shadow_doorbells);
    Answer::cause(match shadow {
        Some(shadow) => cause.shown_by("shadow doorbells", if shadow { "yes" } else { "no" }),
        None => cause,
    })
}
