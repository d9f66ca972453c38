// SPDX-License-Identifier: MIT OR Apache-2.0
//! The device takes the time, and nothing more specific explains it.

use super::super::Answer;
use super::super::Cause;
use super::super::Expectation;
use super::super::Facts;
use super::super::Stages;
use super::super::Subject;
use super::super::portion::Reaches;
use crate::units::nanos;

pub fn check(facts: &Facts, subject: Subject) -> Answer {
    let own = |ctrl: u32| Some(ctrl) == subject.ctrl();
    if matches!(facts.expectation, Expectation::None) {
        return Answer::NotLooked("--expect 200us or --baseline FILE".into());
    }
    if let Expectation::Baseline(medians) = &facts.expectation {
        let mut strata = facts.strata.iter().filter(|s| own(s.stratum.ctrl));
        if !strata.any(|s| medians.contains_key(&s.stratum)) {
            return Answer::Open("the baseline has no commands of these kinds".into());
        }
    }
    let slow = facts.slow().into_iter().find(|s| own(s.stratum.ctrl));
    let Some(slow) = slow else {
        return Answer::Out("no kind of commands is slower than expected".into());
    };
    let Some(portion) = facts.portion(subject, Stages::DEVICE | Stages::IRQ) else {
        return Answer::Absent("no commands".into());
    };
    match portion.is_most() {
        Reaches::Yes => {}
        Reaches::No => return Answer::Out(format!("device+irq have {}", portion.text())),
        Reaches::Open => {
            let joined = subject.ctrl().and_then(|ctrl| facts.joined(ctrl));
            return Answer::Open(joined.unwrap_or_else(|| portion.undecided()));
        }
    }
    let name = facts.subject_name(subject);
    let stratum = facts.stratum_name(&slow.stratum);
    let cause = Cause::new(
        "device",
        &name,
        format!(
            "{name} is slower than expected: {}, expected {}; {} of the time is the device's, or its backend's",
            nanos(slow.median_ns as f64),
            nanos(slow.expected_ns as f64),
            portion.range()
        ),
        subject
            .ctrl()
            .map(|ctrl| facts.behind(ctrl))
            .unwrap_or_default(),
    );
    Answer::cause(
        cause
            .explaining(portion.least.part)
            .shown_by("device+irq", portion.text())
            .shown_by(
                &format!("median of {stratum}"),
                nanos(slow.median_ns as f64),
            )
            .shown_by("expected", nanos(slow.expected_ns as f64)),
    )
}
