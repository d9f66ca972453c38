// SPDX-License-Identifier: MIT OR Apache-2.0
//! A CQE waited without an interrupt: it waits now, or the driver found it only when it polled the
//! queue after the timeout.

use std::collections::BTreeSet;

use crate::diagnose::incidents::TimedOut;
use crate::diagnose::report::{Answer, Cause, Facts, Subject};
use crate::machine::inflight::StuckState;
use crate::units::nanos;

pub fn check(facts: &Facts, subject: Subject) -> Answer {
    let Some(ctrl) = subject.ctrl() else {
        return Answer::Absent("no controller".into());
    };
    if let Some(transport) = facts.fabric(ctrl) {
        return Answer::Absent(format!("{transport} has no interrupt of its own"));
    }
    let stuck = facts.stuck(|verdict| verdict == Some(StuckState::Answered));
    let stuck = stuck.get(&ctrl).copied();
    let found = facts.incidents.polled(ctrl);
    let is_polled = facts.is_polled(ctrl);
    let (unpolled, polled): (Vec<&TimedOut>, Vec<&TimedOut>) =
        found.partition(|t| is_polled(t.id.qid));
    if stuck.is_none() && polled.is_empty() {
        let waiting = facts.stuck(|verdict| verdict == Some(StuckState::NotPolled));
        return match facts.incidents.unpolled(ctrl) {
            _ if !unpolled.is_empty() || waiting.contains_key(&ctrl) => Answer::Out(
                "the completed commands that waited are on polled queues, which have no interrupt: nothing polled them"
                    .into(),
            ),
            0 => Answer::Absent("no command timed out".into()),
            _ => Answer::Out("after the timeouts, the driver's poll found no CQE".into()),
        };
    }
    let name = format!("nvme{ctrl}");
    let cause = Cause::new(
        "lost-interrupt",
        &name,
        format!("{name} completed commands, but its interrupt did not arrive"),
        format!(
            "compare `grep {name}q /proc/interrupts` over time with the queues of these commands \
             (`inflight` shows stuck ones), check the affinity of their vectors \
             (/proc/irq/N/smp_affinity_list), and report it to {}, with this report",
            facts.maker()
        ),
    );
    let cause = stuck.unwrap_or_default().shown_in(cause);
    let Some(longest) = polled.iter().map(|t| t.age_ns).max() else {
        return Answer::cause(cause);
    };
    let queues: BTreeSet<u16> = polled.iter().map(|t| t.id.qid).collect();
    let queues: Vec<String> = queues.iter().map(ToString::to_string).collect();
    Answer::cause(
        cause
            .shown_by("commands that the driver's poll completed", polled.len())
            .shown_by("the longest waited", nanos(longest as f64))
            .shown_by("queue ids", queues.join(", ")),
    )
}
