// SPDX-License-Identifier: MIT OR Apache-2.0
//! Applies each rule to each of its subjects, and puts the answers into lists.

use crate::diagnose::report::Command;
use crate::model::command_class::CommandClass;
use crate::model::ledger::Accuracy;

use super::rules::device;
use super::verdict::{Outcome, outcome, verdict};
use crate::diagnose::report::{Answer, Cause, Concerns, Facts, RULES, Rule, Slow, Subject, Tier};

/// Fewest commands for a verdict on times.
const MIN_COMMANDS: u64 = 200;
/// CPUs that were away for this part of the time leave open what else is seen.
const AWAY: f64 = 0.2;

/// The answer of a rule for a subject that is no cause and no note.
#[derive(Clone, Debug, PartialEq)]
pub struct Judged {
    /// The rule.
    pub rule: &'static str,
    /// What it was applied to.
    pub subject: Subject,
    /// The name of that.
    pub name: String,
    /// Why.
    pub why: String,
    /// What the rule looks for is not there at all.
    pub is_absent: bool,
    /// It concerns too few commands to be worth mentioning first.
    pub is_minor: bool,
}

/// The result. Each pair of rule and subject is in exactly one of the lists.
#[derive(Clone, Debug)]
pub struct Diagnosis {
    /// The outcome.
    pub outcome: Outcome,
    /// The verdict in one sentence.
    pub verdict: String,
    /// Incidents, then the other causes, those that explain most first.
    pub causes: Vec<Cause>,
    /// What is true, but takes no measured part of the time.
    pub notes: Vec<Cause>,
    /// Not the cause, and why.
    pub ruled_out: Vec<Judged>,
    /// Could not be judged, and what would be needed.
    pub not_judged: Vec<Judged>,
    /// Needs an option.
    pub not_looked_at: Vec<Judged>,
}

/// A cause, and what found it.
struct Found {
    tier: Tier,
    subject: Subject,
    cause: Cause,
}

/// Why nothing can be said about the times of a subject; `None`: it can.
pub fn obstacle(facts: &Facts, subject: Subject) -> Option<String> {
    if let Some(Accuracy::Degraded(reasons)) = &facts.accuracy {
        return Some(format!("the recording is not exact ({})", reasons.join(", ")));
    }
    if let Some(why) = facts.selection.bias() {
        return Some(why);
    }
    let all = facts.commands.seen;
    if all >= MIN_COMMANDS {
        if subject == Subject::Machine {
            return None;
        }
        let own = facts.sum(facts.of_subject(subject), |_| 1) as u64;
        let enough = own >= MIN_COMMANDS;
        return (!enough).then(|| format!("only {own} commands, and {MIN_COMMANDS} are needed"));
    }
    let without = facts.commands.without_points;
    let selected = facts.selection.text();
    Some(match (all, selected) {
        (0, _) if without > 0 => "no stages were observed".into(),
        (0, Some(options)) => format!("no I/O command finished that {options} selects"),
        (0, None) if !facts.is_whole => "the part that can be read has no I/O command".into(),
        (0, None) => "no I/O command finished".into(),
        _ if subject == Subject::Machine => {
            format!("only {all} I/O commands finished, and {MIN_COMMANDS} are needed")
        }
        _ => format!(
            "only {all} I/O commands of this machine finished, and {MIN_COMMANDS} are needed"
        ),
    })
}

/// A machine whose CPUs were away for a larger part of the time than a mechanism explains. All goes with
/// longer times then, because work piles up meanwhile.
fn away<'f>(found: &'f [Found], cause: &Cause) -> Option<&'f Cause> {
    let part = cause.explains.unwrap_or(0.0);
    let away = found.iter().find(|f| {
        let explains = f.cause.explains.unwrap_or(0.0);
        f.tier == Tier::Machine && explains >= AWAY && explains > part
    });
    away.map(|f| &f.cause)
}

/// The part of the time of a stratum that a cause explains; `None`: it concerns other commands, or was not
/// measured.
fn part_of(facts: &Facts, found: &Found, kind: CommandClass) -> Option<f64> {
    let is_in_commands = match &found.cause.concerns {
        // these waits are in no command's time
        Concerns::All => !matches!(found.cause.finding.rule, "tag-wait" | "request-wait"),
        _ => true,
    };
    if found.tier == Tier::Incident || !is_in_commands || !found.subject.has_kind(kind) {
        return None;
    }
    match &found.cause.concerns {
        Concerns::All => found.cause.explains,
        Concerns::Stages(stages) => {
            facts.portion_of_kind(kind, *stages).map(|portion| portion.least.part)
        }
        Concerns::Kinds(kinds) => {
            let own = kinds.iter().find(|(stratum, _)| *stratum == kind);
            own.map(|(_, part)| *part)
        }
    }
}

/// The rule that explains most of why a stratum is slow; `None`: none does, or not enough. The stratum is
/// as fast as expected without the time that causes take from it.
fn explained(facts: &Facts, slow: &Slow, found: &[Found]) -> Option<&'static str> {
    let excess = 1.0 - slow.expected_ns as f64 / slow.median_ns as f64;
    let parts =
        found.iter().filter_map(|f| Some((f.cause.finding.rule, part_of(facts, f, slow.stratum)?)));
    let parts: Vec<(&str, f64)> = parts.collect();
    let sum: f64 = parts.iter().map(|(_, part)| part).sum();
    let most = parts.iter().max_by(|(_, a), (_, b)| a.total_cmp(b))?;
    (sum >= excess).then_some(most.0)
}

/// The answer of the rule `device`: what other causes explain is not the device's.
fn answer_of_device(facts: &Facts, rule: &Rule, subject: Subject, found: &[Found]) -> Answer {
    let answer = (rule.check)(facts, subject);
    if !matches!(answer, Answer::Cause(_)) {
        return answer;
    }
    let (mut by, mut left) = (None, Vec::new());
    for slow in facts.slow_of(subject) {
        match explained(facts, &slow, found) {
            Some(rule) => by = by.or(Some(rule)),
            None => left.push(slow),
        }
    }
    match by {
        Some(by) if left.is_empty() => Answer::Out(format!("{by} explains it")),
        _ => device(facts, subject, &left),
    }
}

/// The answer of a rule for a subject.
fn answer(facts: &Facts, rule: &Rule, subject: Subject, found: &[Found]) -> Answer {
    let obstacle = obstacle(facts, subject);
    if rule.tier != Tier::Incident {
        if let Some(why) = obstacle {
            return Answer::Open(why);
        }
        if rule.tier == Tier::Device {
            return answer_of_device(facts, rule, subject, found);
        }
        let answer = (rule.check)(facts, subject);
        let Answer::Cause(cause) = &answer else {
            return answer;
        };
        return match away(found, cause) {
            Some(by) if rule.tier == Tier::Mechanism => Answer::Open(format!(
                "{}; but CPUs did not run for part of the time, which may explain it ({})",
                cause.sentence, by.finding.rule
            )),
            _ => answer,
        };
    }
    match ((rule.check)(facts, subject), obstacle) {
        // rare: their absence says something only in an exact recording of many commands
        (Answer::Absent(_) | Answer::Out(_), Some(why)) => Answer::Open(why),
        (answer, _) => answer,
    }
}

/// The time of the commands of a subject.
fn total(facts: &Facts, subject: Subject) -> f64 {
    facts.sum(facts.of_subject(subject), Command::total)
}

/// Applies the rules.
pub fn diagnose(facts: &Facts) -> Diagnosis {
    let mut rules: Vec<&Rule> = RULES.iter().collect();
    rules.sort_by_key(|rule| rule.tier);
    let (mut found, mut notes) = (Vec::new(), Vec::new());
    let (mut ruled_out, mut not_judged, mut not_looked_at) = (Vec::new(), Vec::new(), Vec::new());
    for rule in rules {
        for subject in facts.subjects(rule.scope) {
            let judged = |why: String, is_absent: bool| Judged {
                rule: rule.name,
                subject,
                name: facts.subject_name(subject),
                why,
                is_absent,
                is_minor: subject != Subject::Machine && obstacle(facts, subject).is_some(),
            };
            match answer(facts, rule, subject, &found) {
                Answer::Cause(cause) => {
                    found.push(Found { tier: rule.tier, subject, cause: *cause })
                }
                Answer::Note(note) => notes.push(*note),
                Answer::Absent(why) => ruled_out.push(judged(why, true)),
                Answer::Out(why) => ruled_out.push(judged(why, false)),
                Answer::Open(why) => not_judged.push(judged(why, false)),
                Answer::NotLooked(why) => not_looked_at.push(judged(why, false)),
            }
        }
    }
    let all = total(facts, Subject::Machine).max(1.0);
    found.sort_by_cached_key(|f| {
        // incidents in the order of their rules
        let part = match f.tier {
            Tier::Incident => 0.0,
            _ => f.cause.explains.unwrap_or(0.0) * (total(facts, f.subject) / all),
        };
        (f.tier != Tier::Incident, std::cmp::Reverse((part * 1e9) as u64))
    });
    for Found { subject, cause, .. } in &mut found {
        cause.who = facts.who(*subject, cause);
    }
    let mut diagnosis = Diagnosis {
        outcome: Outcome::Nothing,
        verdict: String::new(),
        causes: found.into_iter().map(|f| f.cause).collect(),
        notes,
        ruled_out,
        not_judged,
        not_looked_at,
    };
    diagnosis.outcome = outcome(&diagnosis);
    diagnosis.verdict = verdict(facts, &diagnosis);
    diagnosis
}
