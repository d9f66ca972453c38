// SPDX-License-Identifier: MIT OR Apache-2.0
//! The device takes the time, and nothing more specific explains it.

use super::super::Answer;
use super::super::Cause;
use super::super::Expectation;
use super::super::Facts;
use super::super::Stages;
use crate::units::nanos;

pub fn check(facts: &Facts) -> Answer {
    if matches!(facts.expectation, Expectation::None) {
        return Answer::Unknown(
            "no expectation was given (--expect 200us or --baseline FILE)".into(),
        );
    }
    if let Expectation::Baseline(medians) = &facts.expectation
        && !facts
            .strata
            .iter()
            .any(|s| medians.contains_key(&s.stratum))
    {
        return Answer::Unknown("the baseline has no commands of these kinds".into());
    }
    let slow = facts.slow();
    if slow.is_empty() {
        return Answer::Out("no command is slower than expected".into());
    }
    let mut causes = Vec::new();
    for ctrl in facts.ctrls() {
        let Some(slow) = slow.iter().find(|s| s.stratum.ctrl == ctrl) else {
            continue;
        };
        let all = facts.of_ctrl(ctrl);
        let share = facts.share(all, Stages::DEVICE | Stages::IRQ);
        let Some(share) = share.filter(super::super::Share::is_most) else {
            continue;
        };
        let name = format!("nvme{ctrl}");
        let stratum = facts.stratum_name(&slow.stratum);
        causes.push(
            Cause::new(
                "device",
                &name,
                format!("{name} itself is slow, or what emulates it"),
                "look behind the controller: the storage of the virtual machine, the provider's metrics, the \
                 device's log",
            )
            .explaining(share.part)
            .shown_by("device", format!("{} of the time", share.text()))
            .shown_by(&format!("median of {stratum}"), nanos(slow.median_ns as f64))
            .shown_by("expected", nanos(slow.expected_ns as f64)),
        );
    }
    Answer::of(causes, "the device does not have most of the time")
}
