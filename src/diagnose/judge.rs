// SPDX-License-Identifier: MIT OR Apache-2.0
//! Applies each rule to each of its subjects.

use std::cmp::Reverse;

use serde::Serialize;

use super::expectation::Slow;
use super::facts::Facts;
use super::rule::{Case, Rule, Tier};
use super::rules::{RULES, slow_device};
use super::stages::Stages;
use super::subject::Subject;
use super::verdict::{Reason, Status, Verdict, open, out};
use crate::model::ledger::Accuracy;
use crate::units::{nanos, percent};

/// Fewest commands for a verdict on times.
const MIN_COMMANDS: u64 = 200;
/// CPUs that were away for this share of the time leave open what else is seen.
const AWAY: f64 = 0.2;
/// Most sentences of causes in the first line.
const MOST: usize = 2;

/// What a diagnosis comes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum Outcome {
    /// There are causes.
    #[serde(rename = "cause")]
    Cause,
    /// No rule that could be judged has found a cause.
    #[serde(rename = "no_cause")]
    Nothing,
    /// No rule could be judged.
    #[serde(rename = "not_known")]
    Unknown,
}

/// The result: one verdict for each pair of rule and subject. Incidents come first, then what is above NVMe, then the
/// other causes, those that explain most first, then the rest in the order of the rules.
#[derive(Clone, Debug)]
pub struct Diagnosis {
    /// The outcome.
    pub outcome: Outcome,
    /// The first line: it stands on its own.
    pub headline: String,
    /// The verdicts.
    pub verdicts: Vec<Verdict>,
}

impl Diagnosis {
    /// The verdicts with a status.
    pub fn of(&self, status: Status) -> impl Iterator<Item = &Verdict> + Clone {
        self.verdicts.iter().filter(move |v| v.status == status)
    }

    /// Whether the headline has this sentence. Each of its sentences ends with a full stop.
    pub fn says(&self, sentence: &str) -> bool {
        self.headline.contains(&format!("{sentence}."))
    }

    /// The causes.
    pub fn causes(&self) -> impl Iterator<Item = &Verdict> + Clone {
        self.of(Status::Found)
    }
}

/// Why nothing can be said about the times of a subject; `None`: it can.
pub fn obstacle(facts: &Facts, subject: Subject) -> Option<String> {
    if let Some(Accuracy::Degraded(reasons)) = &facts.accuracy {
        return Some(format!("the recording is not exact ({})", reasons.join(", ")));
    }
    if let Some(why) = facts.selection.bias() {
        return Some(why);
    }
    let (all, own) = (facts.commands.seen, facts.count(subject));
    if all >= MIN_COMMANDS {
        let is_enough = subject == Subject::Machine || own >= MIN_COMMANDS;
        return (!is_enough).then(|| format!("only {own} commands, and {MIN_COMMANDS} are needed"));
    }
    Some(match (all, facts.selection.text()) {
        (0, _) if facts.commands.without_points > 0 => "no stages were observed".into(),
        (0, Some(options)) => format!("no I/O command finished that {options} selects"),
        (0, None) if facts.is_cut => "the part that can be read has no I/O command".into(),
        (0, None) => "no I/O command finished".into(),
        _ => format!("only {all} I/O commands finished, and {MIN_COMMANDS} are needed"),
    })
}

/// The rule that explains most of why a class is slow; `None`: none does, or not enough. The class is
/// as fast as expected without the time that causes take from it.
fn explained(facts: &Facts, slow: &Slow, found: &[(Tier, Verdict)]) -> Option<&'static str> {
    let excess = 1.0 - slow.expected_ns as f64 / slow.median_ns as f64;
    let own = found.iter().filter(|(tier, v)| {
        // counted waits are in no command's time
        let is_counted = v.stages.is_none() && matches!(v.rule, "tag-wait" | "request-wait");
        *tier != Tier::Incident && v.status == Status::Found && !is_counted
    });
    let shares = own.filter_map(|(_, v)| Some((v.rule, v.share_of(facts, slow.class)?)));
    let shares: Vec<(&'static str, f64)> = shares.collect();
    let sum: f64 = shares.iter().map(|(_, share)| share).sum();
    let most = shares.iter().max_by(|(_, a), (_, b)| a.total_cmp(b))?;
    (sum >= excess).then_some(most.0)
}

/// What other causes explain is not the device's.
fn without_explained(facts: &Facts, rule: &Rule, verdict: &mut Verdict, found: &[(Tier, Verdict)]) {
    let (mut by, mut left) = (None, Vec::new());
    for slow in facts.slow(verdict.of) {
        match explained(facts, &slow, found) {
            Some(rule) => by = by.or(Some(rule)),
            None => left.push(slow),
        }
    }
    let subject = verdict.of;
    *verdict = Verdict::new(rule, facts, subject);
    let result = match by {
        Some(by) if left.is_empty() => Err(out(format!("{by} explains it"))),
        _ => slow_device(&Case { facts, subject }, verdict, &left),
    };
    verdict.finish(facts, rule, result);
}

/// What a rule says of a subject, with regard to what was found before.
fn judge(facts: &Facts, rule: &Rule, subject: Subject, found: &[(Tier, Verdict)]) -> Verdict {
    let obstacle = obstacle(facts, subject);
    let is_incident = rule.tier == Tier::Incident;
    let mut verdict = match &obstacle {
        Some(_) if !is_incident => Verdict::new(rule, facts, subject),
        _ => Case { facts, subject }.apply(rule),
    };
    verdict.is_minor = subject != Subject::Machine && obstacle.is_some();
    let is_none = matches!(verdict.status, Status::NotPresent | Status::RuledOut);
    match obstacle {
        // incidents are rare: their absence says something only in an exact recording of many commands
        Some(why) if !is_incident || is_none => verdict.finish(facts, rule, Err(open(why))),
        _ if rule.tier == Tier::Device && verdict.status == Status::Found => {
            without_explained(facts, rule, &mut verdict, found);
        }
        _ if rule.tier == Tier::Mechanism && verdict.status == Status::Found => {
            if let Some(reason) = away(found, &verdict) {
                verdict.finish(facts, rule, Err(reason));
            }
        }
        _ => {}
    }
    verdict
}

fn least(verdict: &Verdict) -> f64 {
    verdict.share.map_or(0.0, |share| share.least)
}

/// If CPUs were away for a larger part of the time than a mechanism explains, that may explain it: all goes
/// with longer times then, because work piles up meanwhile.
fn away(found: &[(Tier, Verdict)], verdict: &Verdict) -> Option<Reason> {
    let is_away = |(tier, v): &&(Tier, Verdict)| {
        let is_found = *tier == Tier::Machine && v.status == Status::Found;
        is_found && least(v) >= AWAY && least(v) > least(verdict)
    };
    found.iter().find(is_away).map(|(_, by)| {
        open(format!(
            "{}; but CPUs did not run for part of the time, which may explain it ({})",
            verdict.text, by.rule
        ))
    })
}

/// Applies the rules.
pub fn diagnose(facts: &Facts) -> Diagnosis {
    let mut found: Vec<(Tier, Verdict)> = Vec::new();
    for rule in RULES.iter() {
        for subject in facts.subjects(rule.scope) {
            let verdict = judge(facts, rule, subject, &found);
            found.push((rule.tier, verdict));
        }
    }
    let all = facts.total(Subject::Machine).max(1.0);
    found.sort_by_cached_key(|(tier, v)| {
        let rank = match tier {
            Tier::Incident => 0,
            Tier::Above => 1,
            _ => 2,
        };
        // incidents in the order of their rules
        let is_cause = v.status == Status::Found && *tier != Tier::Incident;
        let part = if is_cause { least(v) * facts.total(v.of) / all } else { 0.0 };
        (v.status, rank, Reverse((part * 1e9) as u64))
    });
    let verdicts: Vec<Verdict> = found.into_iter().map(|(_, verdict)| verdict).collect();
    let has = |status| verdicts.iter().any(|v| v.status == status);
    let outcome = match () {
        () if has(Status::Found) => Outcome::Cause,
        () if has(Status::RuledOut) || has(Status::NotPresent) => Outcome::Nothing,
        () => Outcome::Unknown,
    };
    let mut diagnosis = Diagnosis { outcome, headline: String::new(), verdicts };
    diagnosis.headline = headline(facts, &diagnosis);
    diagnosis
}

fn headline(facts: &Facts, diagnosis: &Diagnosis) -> String {
    match diagnosis.outcome {
        Outcome::Cause => {
            let texts = diagnosis.causes().take(MOST).map(|v| v.text.as_str());
            let mut text = texts.collect::<Vec<_>>().join(". ") + ".";
            match diagnosis.causes().count().saturating_sub(MOST) {
                0 => {}
                1 => text += " 1 more cause below.",
                more => text += &format!(" {more} more causes below."),
            }
            text
        }
        Outcome::Unknown => {
            let why = obstacle(facts, Subject::Machine);
            format!("Not known: {}.", why.unwrap_or_else(|| "no rule could be judged".into()))
        }
        Outcome::Nothing => {
            let slow = facts.slow(Subject::Machine).into_iter().next().map(|slow| {
                let [median, expected] =
                    [slow.median_ns, slow.expected_ns].map(|ns| nanos(ns as f64));
                let name = facts.class_name(slow.class);
                format!("No cause found, but {name} is slower than expected ({median}, expected {expected})")
            });
            let share = facts.share(Subject::Machine, Stages::AT_DEVICE);
            let mut ctrls = facts.classes.all.iter().map(|own| own.class.ctrl);
            let place = match ctrls.all(|ctrl| facts.fabric(ctrl).is_some()) {
                // nothing separates these
                true => format!(
                    "{} of the time is spent in the driver, the network, the target and its storage",
                    percent(share.most)
                ),
                false => format!("{} of the time is spent in the device", share.range()),
            };
            let end = if facts.is_cut { " The end of the recording is missing." } else { "" };
            let first = slow.unwrap_or_else(|| "No cause found on this machine".into());
            format!("{first}: {place}.{end}")
        }
    }
}
