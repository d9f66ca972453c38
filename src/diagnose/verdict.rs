// SPDX-License-Identifier: MIT OR Apache-2.0
//! The outcome of a diagnosis, and its first line.

use std::collections::BTreeSet;

use crate::units::nanos;

use super::judge::obstacle;
use crate::diagnose::report::{Diagnosis, Facts, RULES, Stages, Subject};

/// Most sentences of causes, or names of rules, in the first line.
const MOST: usize = 2;

/// What a diagnosis comes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// There are causes.
    Cause,
    /// No rule that could be judged has found a cause.
    Nothing,
    /// No rule could be judged.
    Unknown,
}

/// The outcome.
pub fn outcome(diagnosis: &Diagnosis) -> Outcome {
    if !diagnosis.causes.is_empty() {
        Outcome::Cause
    } else if diagnosis.ruled_out.is_empty() {
        Outcome::Unknown
    } else {
        Outcome::Nothing
    }
}

/// `a, b and c`
fn list(names: &[&str]) -> String {
    match names {
        [] => String::new(),
        [one] => (*one).into(),
        [first @ .., last] => format!("{} and {last}", first.join(", ")),
    }
}

/// What could not be judged, in the order of the rules.
fn open(diagnosis: &Diagnosis) -> Option<String> {
    let is_open = |name: &str| {
        let mut all = diagnosis.not_judged.iter();
        all.any(|judged| judged.rule == name && !judged.is_minor)
    };
    let nouns = RULES.iter().rev().filter(|rule| is_open(rule.name));
    let nouns: Vec<&str> = nouns.map(|rule| rule.noun).collect();
    let more;
    let mut shown: Vec<&str> = nouns.iter().take(MOST).copied().collect();
    if nouns.len() > MOST {
        more = format!("{} more", nouns.len() - MOST);
        shown.push(&more);
    }
    (!shown.is_empty()).then(|| format!("{} could not be judged", list(&shown)))
}

/// How many rules need observations that the recording lacks. `record` has all of them by default.
fn not_looked_at(diagnosis: &Diagnosis) -> Option<String> {
    let lacking = diagnosis.not_looked_at.iter().filter(|j| j.why.starts_with("record "));
    let rules: BTreeSet<&str> = lacking.map(|judged| judged.rule).collect();
    let advice = "more than was recorded: use `record` without --stages";
    match rules.len() {
        0 => None,
        1 => Some(format!("1 rule needs {advice}")),
        n => Some(format!("{n} rules need {advice}")),
    }
}

/// The device's part of the time.
fn device(facts: &Facts) -> Option<String> {
    let portion = facts.portion(Subject::Machine, Stages::DEVICE)?;
    let range = portion.range();
    Some(match portion.is_exact() {
        true => format!("{range} of the time is the device's"),
        false => format!("the device's part is {range} of the time"),
    })
}

/// The first line: it stands on its own.
pub fn verdict(facts: &Facts, diagnosis: &Diagnosis) -> String {
    match outcome(diagnosis) {
        Outcome::Cause => {
            let sentences = diagnosis.causes.iter().map(|cause| cause.sentence.as_str());
            let mut shown: Vec<&str> = sentences.take(MOST).collect();
            let more = diagnosis.causes.len().saturating_sub(MOST);
            let text = match more {
                0 => String::new(),
                1 => "1 more cause below".into(),
                more => format!("{more} more causes below"),
            };
            shown.extend((more > 0).then_some(text.as_str()));
            shown.join("; ")
        }
        Outcome::Unknown => {
            let why = obstacle(facts, Subject::Machine);
            let why = why.unwrap_or_else(|| "no rule could be judged".into());
            format!("not known: {why}")
        }
        Outcome::Nothing => {
            let slow = facts.slow().into_iter().next();
            let slow = slow.map(|slow| {
                format!(
                    "{} is slower than expected ({}, expected {}), and no cause was found",
                    facts.stratum_name(&slow.stratum),
                    nanos(slow.median_ns as f64),
                    nanos(slow.expected_ns as f64)
                )
            });
            let first = slow.unwrap_or_else(|| "nothing avoidable seen".into());
            let parts = [
                Some(first),
                device(facts),
                open(diagnosis),
                not_looked_at(diagnosis),
                (!facts.is_whole).then(|| "the end of the recording is missing".to_owned()),
            ];
            parts.into_iter().flatten().collect::<Vec<_>>().join("; ")
        }
    }
}
