// SPDX-License-Identifier: MIT OR Apache-2.0
//! The device held single commands: it completed later ones of the same queue, so it had fetched them;
//! or it holds them now.

use super::stray::{Queues, Stray};
use crate::diagnose::report::{Affected, Answer, Cause, Facts, Subject};
use crate::machine::inflight::StuckState;
use crate::units::nanos;

/// One command that was held this long suffices.
const CERTAIN_NS: u64 = 500_000_000;
/// Otherwise as many of this time. Devices with bursts take 100 ms now and then.
const SEVERAL: u64 = 3;
const SEVERAL_NS: u64 = 250_000_000;

/// Whether a later command was completed in the first half of its time.
fn was_overtaken(stray: &Stray<'_>) -> bool {
    let half = stray.command.setup_ns + stray.time_ns() / 2;
    let mut later = stray.later().iter().take_while(|c| c.setup_ns < half);
    later.any(|c| c.cqe_ns < half)
}

/// Commands whose place nothing proves.
fn unproved(facts: &Facts, ctrl: u32) -> Option<u64> {
    let unproved = facts.stuck(|verdict| {
        !matches!(
            verdict,
            // completed, or not fetched yet
            Some(
                StuckState::Answered
                    | StuckState::NotPolled
                    | StuckState::NotFetched
                    | StuckState::Held
            )
        )
    });
    unproved.get(&ctrl).map(|group| group.oldest_ns)
}

pub fn check(facts: &Facts, subject: Subject) -> Answer {
    let Some(ctrl) = subject.ctrl() else {
        return Answer::Absent("no controller".into());
    };
    let queues = Queues::of(facts, ctrl);
    let (mut count, mut longest, mut median) = (0_u64, 0, 0);
    let mut held = Vec::new();
    let strays = queues.strays(facts).filter(was_overtaken);
    for stray in strays.filter(|stray| stray.time_ns() >= SEVERAL_NS) {
        (count, longest) = (count + 1, stray.time_ns().max(longest));
        median = stray.median_ns;
        held.push(Affected::of_command(facts, stray.command));
    }
    let is_held = count >= SEVERAL || longest >= CERTAIN_NS;
    let stuck = facts.stuck(|verdict| verdict == Some(StuckState::Held));
    let stuck = stuck.get(&ctrl).cloned();
    if stuck.is_none() && !is_held {
        return match unproved(facts, ctrl) {
            Some(oldest) => Answer::Open(format!(
                "a command has been in flight for {}, and nothing proves where it is: see `inflight`",
                nanos(oldest as f64)
            )),
            None => Answer::Absent(
                "no command waited 250 ms and 20 times its median while later ones completed"
                    .into(),
            ),
        };
    }
    let name = format!("nvme{ctrl}");
    let stuck = stuck.unwrap_or_default();
    let oldest = stuck.oldest_ns.max(longest);
    let mut affected = stuck.affected.clone();
    affected.extend(held.into_iter().filter(|_| is_held));
    let mut cause = Cause::new(
        "held-by-device",
        &name,
        format!("{name} delays single commands (up to {})", nanos(oldest as f64)),
        format!("{}, at {}", facts.behind(ctrl), facts.times_of(&affected)),
    );
    cause = stuck.shown_in(cause);
    if is_held {
        cause = cause
            .shown_by("commands that later ones overtook", count)
            .shown_by("the longest was held", nanos(longest as f64))
            .shown_by("median of its kind", nanos(median as f64));
    }
    Answer::cause(cause.about(facts, affected))
}
