// SPDX-License-Identifier: MIT OR Apache-2.0
//! Interrupts wait for a CPU that is busy with soft interrupts, such as those of the network.

use super::super::Answer;
use super::super::Cause;
use super::super::Facts;
use super::super::Stages;
use super::not_shown;

/// The part of the time that goes with it.
const EXPLAINS: f64 = 0.1;

pub fn check(facts: &Facts) -> Answer {
    let stages = Stages::DEVICE | Stages::IRQ;
    if !facts.all().any(|c| c.conditions.in_softirq().is_some()) {
        return Answer::Unknown("soft interrupts were not observed (record --context)".into());
    }
    let found = facts.compare(stages, |c| c.conditions.in_softirq());
    let Some((stratum, comparison)) = found else {
        return Answer::Out("too few interrupts came in a soft interrupt".into());
    };
    if !comparison.goes_with(EXPLAINS) {
        return not_shown("in a soft interrupt / not", &comparison);
    }
    let name = format!("nvme{}", stratum.ctrl);
    let cause = Cause::new(
        "softirq",
        &name,
        format!("completions of {name} go with soft interrupts on the same CPU"),
        "move that load to other CPUs (affinity of the network's interrupts, RPS), or the queue's \
         interrupt to another one",
    )
    .explaining(comparison.explains)
    .shown_by(
        &format!(
            "device+irq of {}, in softirq / not",
            facts.stratum_name(&stratum)
        ),
        comparison.text(),
    )
    .shown_by("commands", comparison.with);
    Answer::Found(vec![cause])
}
