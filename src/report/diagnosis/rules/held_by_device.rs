// SPDX-License-Identifier: MIT OR Apache-2.0
//! The device held single commands: it completed later ones of the same queue, so it had fetched them;
//! or it holds them now.

use std::collections::BTreeMap;
use std::collections::BTreeSet;

use super::super::Answer;
use super::super::Cause;
use super::super::Facts;
use super::stray::Queues;
use super::stray::Stray;
use crate::inflight::Verdict;
use crate::units::nanos;

/// One command that was held this long suffices.
const CERTAIN_NS: u64 = 500_000_000;
/// Otherwise as many.
const SEVERAL: u64 = 3;

/// Whether a later command was completed in the first half of its time.
fn was_overtaken(stray: &Stray<'_>) -> bool {
    let half = stray.command.setup_ns + stray.time_ns() / 2;
    let mut later = stray.later().iter().take_while(|c| c.setup_ns < half);
    later.any(|c| c.cqe_ns < half)
}

pub fn check(facts: &Facts) -> Answer {
    let queues = Queues::of(facts);
    let mut overtaken: BTreeMap<u32, (u64, u64, u64)> = BTreeMap::new();
    for stray in queues.strays(facts).filter(was_overtaken) {
        let found = overtaken.entry(stray.command.stratum.ctrl).or_default();
        let time = stray.time_ns();
        *found = (found.0 + 1, found.1.max(time), stray.median_ns);
    }
    overtaken.retain(|_, (count, longest, _)| *count >= SEVERAL || *longest >= CERTAIN_NS);
    let stuck = facts.stuck(|verdict| verdict == Some(Verdict::Held));
    let ctrls: BTreeSet<u32> = overtaken.keys().chain(stuck.keys()).copied().collect();
    let causes = ctrls.into_iter().map(|ctrl| {
        let name = format!("nvme{ctrl}");
        let mut cause = Cause::new(
            "held-by-device",
            &name,
            format!("{name} holds single commands back"),
            format!(
                "look behind the controller at these times: the storage of the virtual machine, or the \
                 device's own log (`nvme smart-log /dev/{name}`)"
            ),
        );
        cause = stuck.get(&ctrl).copied().unwrap_or_default().shown_in(cause);
        if let Some((count, longest, median)) = overtaken.get(&ctrl) {
            cause = cause
                .shown_by("commands that later ones overtook", count)
                .shown_by("the longest was held", nanos(*longest as f64))
                .shown_by("median of its kind", nanos(*median as f64));
        }
        cause
    });
    let causes: Vec<Cause> = causes.collect();
    let unproved = facts.stuck(|verdict| {
        !matches!(
            verdict,
            Some(Verdict::Answered | Verdict::NotFetched | Verdict::Held)
        )
    });
    let oldest = unproved.values().map(|g| g.oldest_ns).max();
    match oldest {
        Some(oldest) if causes.is_empty() => Answer::Unknown(format!(
            "a command has been in flight for {}, and nothing proves where it is: see `inflight`",
            nanos(oldest as f64)
        )),
        _ => Answer::of(
            causes,
            "no command was overtaken for 100 ms and 20 times its median",
        ),
    }
}
