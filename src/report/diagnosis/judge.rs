// SPDX-License-Identifier: MIT OR Apache-2.0
//! From the answers of the rules to one verdict.

use crate::report::ledger::Accuracy;

use super::Answer;
use super::Cause;
use super::Facts;
use super::RULES;
use super::Rule;
use super::Tier;

/// Fewest commands for a verdict on times.
const MIN_COMMANDS: u64 = 200;
/// A cause that explains this part of all time makes less specific rules silent.
const ENOUGH: f64 = 0.5;

/// The verdict.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// There are causes.
    Cause,
    /// All rules that could be judged are silent.
    Nothing,
    /// The data do not suffice.
    Unknown,
}

/// The result.
#[derive(Clone, Debug)]
pub struct Diagnosis {
    /// The verdict.
    pub outcome: Outcome,
    /// The verdict in one sentence.
    pub verdict: String,
    /// Causes, the most specific first; of these, the one that explains most.
    pub causes: Vec<Cause>,
    /// Rules that are not the cause, and why.
    pub ruled_out: Vec<(&'static str, String)>,
    /// Rules that could not be judged, and why.
    pub not_judged: Vec<(&'static str, String)>,
}

/// Why nothing can be said about times; `None`: it can.
fn obstacle(facts: &Facts) -> Option<String> {
    if let Some(Accuracy::Degraded(reasons)) = &facts.accuracy {
        return Some(format!(
            "the recording is not exact ({})",
            reasons.join(", ")
        ));
    }
    let seen = facts.commands.seen;
    if seen < MIN_COMMANDS {
        let without = facts.commands.without_points;
        let why = if seen == 0 && without > 0 {
            "no stages were observed".into()
        } else if seen == 0 {
            "no I/O command finished".into()
        } else {
            format!("only {seen} I/O commands finished, and {MIN_COMMANDS} are needed")
        };
        return Some(why);
    }
    None
}

/// Whether a rule of this tier is silent, because these causes explain what it would find.
fn explained(tier: Tier, causes: &[(Tier, Cause)]) -> Option<&'static str> {
    let found = causes.iter().find(|(other, cause)| {
        let strong = *other == Tier::Machine || cause.explains.is_none_or(|part| part >= ENOUGH);
        let weaker = match other {
            // a single command that went astray does not explain the others
            Tier::Incident => tier >= Tier::Limit,
            Tier::Machine => tier > Tier::Machine,
            Tier::Mechanism => tier >= Tier::Limit,
            Tier::Limit => tier == Tier::Device,
            Tier::Device => false,
        };
        strong && weaker
    });
    found.map(|(_, cause)| cause.finding.rule)
}

/// Applies the rules.
pub fn diagnose(facts: &Facts) -> Diagnosis {
    let obstacle = obstacle(facts);
    let mut rules: Vec<&Rule> = RULES.iter().collect();
    rules.sort_by_key(|rule| rule.tier);
    let (mut causes, mut ruled_out, mut not_judged) = (Vec::new(), Vec::new(), Vec::new());
    for rule in rules {
        if rule.tier != Tier::Incident
            && let Some(why) = &obstacle
        {
            not_judged.push((rule.name, why.clone()));
            continue;
        }
        match (rule.check)(facts) {
            Answer::Found(found) => {
                if let Some(by) = explained(rule.tier, &causes) {
                    ruled_out.push((rule.name, format!("{by} explains it")));
                } else {
                    causes.extend(found.into_iter().map(|cause| (rule.tier, cause)));
                }
            }
            Answer::Out(why) => ruled_out.push((rule.name, why)),
            Answer::Unknown(why) => not_judged.push((rule.name, why)),
        }
    }
    causes.sort_by(|(tier_a, a), (tier_b, b)| {
        let part = |cause: &Cause| cause.explains.unwrap_or(1.0);
        tier_a.cmp(tier_b).then(part(b).total_cmp(&part(a)))
    });
    let causes: Vec<Cause> = causes.into_iter().map(|(_, cause)| cause).collect();
    let (outcome, verdict) = verdict(facts, &causes, obstacle);
    Diagnosis {
        outcome,
        verdict,
        causes,
        ruled_out,
        not_judged,
    }
}

fn verdict(facts: &Facts, causes: &[Cause], obstacle: Option<String>) -> (Outcome, String) {
    if let Some(first) = causes.first() {
        return (Outcome::Cause, first.sentence.clone());
    }
    if let Some(why) = obstacle {
        return (Outcome::Unknown, format!("not known: {why}"));
    }
    let device = facts.share(facts.commands.kept.iter(), super::Stages::DEVICE);
    let share = device.map_or_else(String::new, |share| {
        format!("; {:.0} % of the time is the device's", share.part * 100.0)
    });
    (Outcome::Nothing, format!("nothing avoidable seen{share}"))
}
