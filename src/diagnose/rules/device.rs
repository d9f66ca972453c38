// SPDX-License-Identifier: MIT OR Apache-2.0
//! The device takes the time, and nothing more specific explains it.

use crate::diagnose::portion::Reaches;
use crate::diagnose::report::{Answer, Cause, Expectation, Facts, Portion, Slow, Stages, Subject};
use crate::units::nanos;

/// Until the driver sees the interrupt.
const STAGES: Stages = Stages::DEVICE.with(Stages::IRQ);

pub fn check(facts: &Facts, subject: Subject) -> Answer {
    if matches!(facts.expectation, Expectation::None) {
        return Answer::NotLooked("--expect 200us or --baseline FILE".into());
    }
    if let Expectation::Baseline(medians) = &facts.expectation
        && !(facts.strata_of(subject)).any(|s| medians.contains_key(&s.stratum))
    {
        let own = facts.strata_of(subject).map(|s| facts.stratum_name(&s.stratum));
        let own: Vec<String> = own.take(2).collect();
        return Answer::Open(format!("the baseline has no commands like {}", own.join(" or ")));
    }
    let slow = facts.slow_of(subject);
    if slow.is_empty() {
        return Answer::Out("no kind of commands is slower than expected".into());
    }
    of(facts, subject, &slow)
}

/// The answer for the kinds of commands that are slower than expected, and that nothing else explains.
pub fn of(facts: &Facts, subject: Subject, slow: &[Slow]) -> Answer {
    let mut other = Answer::Absent("no commands".into());
    for slow in slow {
        let Some(portion) = facts.portion_of_kind(slow.stratum, STAGES) else {
            continue;
        };
        match portion.is_most() {
            Reaches::Yes => return Answer::cause(cause(facts, subject, slow, &portion)),
            Reaches::Open => {
                let joined = subject.ctrl().and_then(|ctrl| facts.joined(ctrl));
                other = Answer::Open(joined.unwrap_or_else(|| portion.undecided()));
            }
            Reaches::No if matches!(other, Answer::Open(_)) => {}
            Reaches::No => {
                let kind = facts.stratum_name(&slow.stratum);
                other = Answer::Out(format!("{kind}: device+irq have {}", portion.text()));
            }
        }
    }
    other
}

fn cause(facts: &Facts, subject: Subject, slow: &Slow, portion: &Portion) -> Cause {
    let name = facts.subject_name(subject);
    let kind = facts.stratum_name(&slow.stratum);
    let advice = subject.ctrl().map(|ctrl| facts.behind(ctrl));
    Cause::new(
        "device",
        &name,
        format!(
            "{name} is slower than expected: {}, expected {}; {} of the time is the device's, or its backend's",
            nanos(slow.median_ns as f64),
            nanos(slow.expected_ns as f64),
            portion.range()
        ),
        advice.unwrap_or_default(),
    )
    .concerning(vec![(slow.stratum, portion.least.part)])
    .explaining(portion.least.part)
    .shown_by("device+irq", portion.text())
    .shown_by(&format!("median of {kind}"), nanos(slow.median_ns as f64))
    .shown_by("expected", nanos(slow.expected_ns as f64))
}
