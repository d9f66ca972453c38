// SPDX-License-Identifier: MIT OR Apache-2.0
//! The device held single commands: it completed later ones of the same queue, so it had fetched them.

use std::collections::BTreeMap;

use super::super::Answer;
use super::super::Cause;
use super::super::Facts;
use super::stray::Queues;
use super::stray::Stray;
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
    let mut by_ctrl: BTreeMap<u32, (u64, u64, u64)> = BTreeMap::new();
    for stray in queues.strays(facts).filter(was_overtaken) {
        let found = by_ctrl.entry(stray.command.stratum.ctrl).or_default();
        let time = stray.time_ns();
        *found = (found.0 + 1, found.1.max(time), stray.median_ns);
    }
    by_ctrl.retain(|_, (count, longest, _)| *count >= SEVERAL || *longest >= CERTAIN_NS);
    let causes = by_ctrl.into_iter().map(|(ctrl, (count, longest, median))| {
        let name = format!("nvme{ctrl}");
        let cause = Cause::new(
            "held-by-device",
            &name,
            format!("{name} holds single commands back, while it completes later ones"),
            format!(
                "look behind the controller at these times: the storage of the virtual machine, or the \
                 device's own log (`nvme smart-log /dev/{name}`)"
            ),
        );
        cause
            .shown_by("commands that later ones overtook", count)
            .shown_by("the longest was held", nanos(longest as f64))
            .shown_by("median of its kind", nanos(median as f64))
    });
    Answer::of(
        causes.collect(),
        "no command was overtaken for 100 ms and 20 times its median",
    )
}
