// SPDX-License-Identifier: MIT OR Apache-2.0
//! Interrupts wait for a CPU that is busy with soft interrupts, such as those of the network.

use super::condition::Condition;
use super::unseen;
use crate::diagnose::report::{Answer, Cause, Facts, Stages, Subject};
use crate::model::conditions::Conditions;

/// The part of the time that goes with it.
const EXPLAINS: f64 = 0.1;
/// Until the CQE is handled.
const STAGES: Stages = Stages::DEVICE.with(Stages::IRQ);

pub fn check(facts: &Facts, subject: Subject) -> Answer {
    if let Some(answer) = unseen(facts, subject, Conditions::in_softirq, "soft interrupts") {
        return answer;
    }
    let condition = Condition {
        subject,
        stages: STAGES,
        least: EXPLAINS,
        sides: ["completions in a soft interrupt", "outside one"],
        may_follow: false,
    };
    let (stratum, comparison) = match condition.judge(facts, |c| c.conditions.in_softirq()) {
        Ok(found) => found,
        Err(answer) => return answer,
    };
    let name = facts.subject_name(subject);
    let cause = Cause::new(
        "softirq",
        &name,
        format!("commands of {name} take longer if their interrupt comes in a soft interrupt"),
        "move that load to other CPUs (affinity of the network's interrupts, RPS), or the queue's \
         interrupt to another one",
    )
    .explaining_longer(&comparison)
    .shown_by(
        &format!("device+irq of {}, in softirq / not", facts.stratum_name(&stratum)),
        comparison.text(),
    )
    .shown_by("commands", comparison.with);
    Answer::cause(cause)
}
