// SPDX-License-Identifier: MIT OR Apache-2.0
//! A CQE waited without an interrupt: it waits now, or the driver found it only when it polled the
//! queue after the timeout.

use std::collections::BTreeSet;

use super::super::Answer;
use super::super::Cause;
use super::super::Facts;
use crate::inflight::Verdict;
use crate::units::nanos;

pub fn check(facts: &Facts) -> Answer {
    let stuck = facts.stuck(|verdict| verdict == Some(Verdict::Answered));
    let timeouts = &facts.incidents.timeouts;
    let mut ctrls: BTreeSet<u32> = stuck.keys().copied().collect();
    ctrls.extend(timeouts.iter().filter(|t| t.polled).map(|t| t.id.ctrl));
    let causes = ctrls.into_iter().map(|ctrl| {
        let name = format!("nvme{ctrl}");
        let cause = Cause::new(
            "lost-interrupt",
            &name,
            format!("{name} completed commands, but its interrupt did not arrive"),
            format!(
                "compare `grep {name}q /proc/interrupts` over time with the queues of these commands \
                 (`inflight` shows stuck ones), check the affinity of their vectors \
                 (/proc/irq/N/smp_affinity_list), and report it to the provider of the virtual machine \
                 monitor with this report"
            ),
        );
        let cause = stuck.get(&ctrl).copied().unwrap_or_default().shown_in(cause);
        let polled: Vec<_> = facts.incidents.polled(ctrl).collect();
        let Some(longest) = polled.iter().map(|t| t.age_ns).max() else {
            return cause;
        };
        let queues: BTreeSet<u16> = polled.iter().map(|t| t.id.qid).collect();
        let queues: Vec<String> = queues.iter().map(ToString::to_string).collect();
        cause
            .shown_by("commands that the driver's poll completed", polled.len())
            .shown_by("the longest waited", nanos(longest as f64))
            .shown_by("queues", queues.join(", "))
    });
    let otherwise = match timeouts.is_empty() {
        true => "no command timed out",
        false => "after the timeouts, the driver's poll found no CQE",
    };
    Answer::of(causes.collect(), otherwise)
}
