// SPDX-License-Identifier: MIT OR Apache-2.0
//! A CQE waited without an interrupt: it waits now, or the driver found it only when it polled the
//! queue after the timeout.

use crate::diagnose::affected::queues_of;
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
    let stuck = stuck.get(&ctrl).cloned();
    let found = facts.incidents.polled(ctrl);
    let is_polled = facts.is_polled(ctrl);
    let (unpolled, polled): (Vec<&TimedOut>, Vec<&TimedOut>) =
        found.partition(|t| is_polled(t.id.qid));
    if stuck.is_none() && polled.is_empty() {
        let waiting = facts.stuck(|verdict| verdict == Some(StuckState::NotPolled));
        return match facts.incidents.unpolled(ctrl).count() {
            _ if !unpolled.is_empty() || waiting.contains_key(&ctrl) => Answer::Out(
                "the completed commands that waited are on polled queues, which have no interrupt: nothing polled them"
                    .into(),
            ),
            0 => Answer::Absent("no command timed out".into()),
            _ => Answer::Out("after the timeouts, the driver's poll found no CQE".into()),
        };
    }
    let name = format!("nvme{ctrl}");
    let stuck = stuck.unwrap_or_default();
    let mut affected = stuck.affected.clone();
    affected.extend(polled.iter().map(|t| t.affected));
    let cause = Cause::new(
        "lost-interrupt",
        &name,
        format!("{name} completed commands, but its interrupt did not arrive"),
        format!(
            "compare the lines {name}qN of /proc/interrupts over time, where N is the queue id: here {} \
             (`inflight` shows commands that are stuck now), check the affinity of their vectors \
             (/proc/irq/N/smp_affinity_list), and report it to {}, with this report",
            queues_of(&affected),
            facts.maker()
        ),
    );
    let mut cause = stuck.shown_in(cause);
    if let Some(longest) = polled.iter().map(|t| t.age_ns).max() {
        cause = cause
            .shown_by("commands that the driver's poll completed", polled.len())
            .shown_by("the longest waited", nanos(longest as f64));
    }
    Answer::cause(cause.about(facts, affected))
}
