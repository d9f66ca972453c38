// SPDX-License-Identifier: MIT OR Apache-2.0
//! Applies each rule to each of its subjects.

use super::facts::{ClassFacts, Facts, Stages};
use super::rules::{Case, RULES, Rule, Tier};
use super::verdict::{Reason, Status, Subject, Verdict, open};
use crate::model::activity::TagWaits;
use crate::model::command_class::CommandClass;
use crate::model::ledger::Accuracy;
use crate::units::{counted, nanos, percent};
use serde::Serialize;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

/// Fewest commands for a verdict on times.
const MIN_COMMANDS: u64 = 200;
/// CPUs that were away for this share of the time are a cause, and leave open what else is seen.
pub const AWAY: f64 = 0.2;
/// A rule about all commands of a disk needs this part of them.
const MOST_COMMANDS: f64 = 0.8;
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
    let selected = facts.selection.text().map(|options| format!(" (selected by {options})"));
    Some(match all {
        0 if facts.commands.without_points > 0 => "no stages were observed".into(),
        0 if facts.is_cut => "the part that can be read has no I/O command".into(),
        0 => format!("no I/O command finished{}", selected.unwrap_or_default()),
        _ => format!("only {all} I/O commands finished, and {MIN_COMMANDS} are needed"),
    })
}

/// What a rule says of a case.
fn judge(case: &Case<'_>, rule: &Rule) -> Verdict {
    let Case { facts, subject, .. } = *case;
    let obstacle = obstacle(facts, subject);
    let mut verdict = Verdict::new(rule, facts, subject);
    let result = match &obstacle {
        Some(why) if rule.tier != Tier::Incident => Err(open(why)),
        _ => (rule.check)(case, &mut verdict),
    };
    let result = match (result, obstacle) {
        // incidents are rare: their absence says something only in an exact recording of many commands
        (Err(Reason(Status::NotPresent | Status::RuledOut, _)), Some(why)) => Err(open(why)),
        (result, _) => result,
    };
    verdict.finish(facts, rule, result);
    if rule.tier != Tier::Mechanism || verdict.status != Status::Found {
        return verdict;
    }
    // if CPUs were away for a larger part of the time than a mechanism explains, that may explain it: all goes with
    // longer times then, because work piles up meanwhile
    let mut found = case.found.iter().filter(|v| v.status == Status::Found);
    let is_away =
        |v: &&Verdict| v.tier == Tier::Machine && v.least() >= AWAY && v.least() > verdict.least();
    if let Some(by) = found.find(is_away) {
        let why = "but CPUs did not run for part of the time, which may explain it";
        let reason = open(format!("{}; {why} ({})", verdict.text, by.rule));
        verdict.finish(facts, rule, Err(reason));
    }
    verdict
}

/// Applies the rules.
pub fn diagnose(facts: &Facts) -> Diagnosis {
    let mut verdicts = Vec::new();
    for rule in RULES.iter() {
        for subject in facts.subjects(rule.scope) {
            let verdict = judge(&Case { facts, subject, found: &verdicts }, rule);
            verdicts.push(verdict);
        }
    }
    let all = facts.total(Subject::Machine).max(1.0);
    verdicts.sort_by_cached_key(|v| {
        let rank = v.tier.min(Tier::Machine);
        // incidents in the order of their rules
        let is_cause = v.status == Status::Found && v.tier != Tier::Incident;
        let part = if is_cause { v.least() * facts.total(v.of) / all } else { 0.0 };
        (v.status, rank, Reverse((part * 1e9) as u64))
    });
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
            let mut texts: Vec<String> = diagnosis.causes().map(|v| v.text.clone()).collect();
            let more = texts.len().saturating_sub(MOST) as u64;
            texts.truncate(MOST);
            texts.extend((more > 0).then(|| format!("{} below", counted(more, "more cause"))));
            texts.join(". ") + "."
        }
        Outcome::Unknown => {
            let why = obstacle(facts, Subject::Machine);
            let why = why.unwrap_or("no rule could be judged (-v says why)".into());
            format!("No verdict: {why}.")
        }
        Outcome::Nothing => {
            let slow = facts.slow(Subject::Machine).first().map_or(String::new(), |slow| {
                let [median, expected] = slow.texts();
                let name = facts.class_name(slow.class.class);
                format!(", but {name} is slower than expected ({median}, expected {expected})")
            });
            let share = facts.share(facts.of(Subject::Machine), Stages::AT_DEVICE);
            let is_remote = |own: &ClassFacts| facts.fabric(own.class.ctrl).is_some();
            let unseparated = if facts.classes.all.iter().all(is_remote) {
                "the driver, the network, the target and its storage"
            } else if share.least < 0.005 && share.most > 0.5 {
                "the driver and the device, which were not observed apart"
            } else {
                ""
            };
            let place = match unseparated {
                "" => format!("{} of the time is spent in the device", share.range()),
                them => format!("up to {} of the time is spent in {them}", percent(share.most)),
            };
            let end = if facts.is_cut { " The end of the recording is missing." } else { "" };
            format!("No cause found{slow}: {place}.{end}")
        }
    }
}

/// Options that leave out I/O commands.
const SOME: [&str; 7] = ["--ctrl", "--nsid", "--qid", "--opcode", "--process", "--cgroup", "--lba"];
/// Those that keep commands by how they ended.
const BY_END: [&str; 2] = ["--slow", "--errors"];
/// Options that leave out no I/O command, or only the end of a run.
const NONE: [&str; 2] = ["--no-admin", "-n"];

/// The options that left commands out.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selection {
    names: BTreeSet<&'static str>,
    /// A filter whose text was removed from the recording, or is not known here.
    unknown: bool,
}

impl Selection {
    /// Adds options given as shell text; keeps only the names listed above.
    pub fn add(&mut self, options: &str) {
        let words: BTreeSet<&str> = options.split_whitespace().collect();
        let own: Vec<&str> = SOME.into_iter().chain(BY_END).filter(|n| words.contains(n)).collect();
        let is_known = !own.is_empty() || NONE.iter().any(|name| words.contains(name));
        self.unknown |= !words.is_empty() && !is_known;
        self.names.extend(own);
    }

    /// The names of these options; `None`: none of them left commands out.
    fn named(&self, counts: impl Fn(&&str) -> bool, and: &str) -> Option<String> {
        let names: Vec<&str> = self.names.iter().copied().filter(counts).collect();
        (!names.is_empty()).then(|| names.join(and))
    }

    /// All options that left commands out, for the report; `None`: there are none.
    pub fn text(&self) -> Option<String> {
        let unknown = "a filter (hidden by --redact): other commands are missing";
        self.named(|_| true, ", ").or_else(|| self.unknown.then(|| unknown.into()))
    }

    /// Why the times of these commands do not represent all commands: they were chosen by how they ended.
    pub fn bias(&self) -> Option<String> {
        let names = self.named(|name| BY_END.contains(name), " and ")?;
        Some(format!(
            "the recording has only commands that {names} chose: their times do not represent all commands"
        ))
    }
}

impl Facts {
    /// Why not all commands of a subject are known; `None`: they are. Requests are counted whether or not a filter
    /// selects their commands.
    pub fn lacks(&self, subject: Subject) -> Option<String> {
        // --ctrl keeps or leaves out whole controllers
        let counts = |name: &&str| subject == Subject::Machine || *name != "--ctrl";
        if let Some(what) = self.selection.named(counts, ", ") {
            return Some(format!("needs all commands, and {what} left some out"));
        }
        let counted = self.counted(|a| a.waits.as_deref()).unwrap_or_default();
        let is_own = |w: &&TagWaits| subject.ctrl().is_none_or(|ctrl| ctrl == w.ctrl);
        let own: Vec<&TagWaits> = counted.iter().filter(is_own).collect();
        if own.is_empty() && self.selection.unknown {
            return Some("needs all commands, and a filter may have left some out".into());
        }
        let lacks = own.iter().any(|w| {
            let disk = Subject::Disk(w.ctrl, w.nsid);
            let all = if w.nsid == 0 { Subject::Controller(w.ctrl) } else { disk };
            let commands = self.count(all) as f64;
            commands > 0.0 && commands < MOST_COMMANDS * w.requests as f64
        });
        let why =
            "needs all commands, and some requests of a disk are not among them, as with a filter";
        lacks.then(|| why.into())
    }
}

/// Fewest commands of a class whose median is compared.
const ENOUGH: u64 = 30;
/// A median is above what was expected from this part of it on: less is no difference that a reader sees.
const NOTABLE: u64 = 100;

/// How long commands should take.
#[derive(Clone, Debug, Default)]
pub enum Expectation {
    /// Nothing was said: times are not judged.
    #[default]
    None,
    /// The median of each class should not be above this, in nanoseconds (`--expect`).
    Median(u64),
    /// The medians of another recording, by class (`--baseline`): of all time, if waits before the request were
    /// observed, and from the request on.
    Baseline(BTreeMap<CommandClass, (Option<u64>, u64)>),
}

/// A class that takes longer than expected.
#[derive(Clone, Copy, Debug)]
pub struct Slow<'f> {
    /// The class.
    pub class: &'f ClassFacts,
    /// Its median in nanoseconds.
    pub median_ns: u64,
    /// What was expected.
    pub expected_ns: u64,
}

impl Slow<'_> {
    /// Its median, and what was expected.
    pub fn texts(&self) -> [String; 2] {
        [self.median_ns, self.expected_ns].map(|ns| nanos(ns as f64))
    }
}

impl Facts {
    /// The classes of a subject that take longer than expected, those with most time first.
    pub fn slow(&self, subject: Subject) -> Vec<Slow<'_>> {
        // medians of another time: less than a fifth is noise
        let more = |ns: u64| ns.saturating_mul(6) / 5;
        let slow = self.classes.of_subject(subject).filter_map(|own| {
            let (median_ns, expected_ns) = match &self.expectation {
                Expectation::None => return None,
                Expectation::Median(ns) => (own.p50_ns, *ns),
                Expectation::Baseline(medians) => match *medians.get(&own.class)? {
                    (Some(all_ns), _) if own.has_waits => (own.p50_ns, more(all_ns)),
                    (_, begun_ns) => (own.begun_p50_ns, more(begun_ns)),
                },
            };
            let notable = expected_ns.saturating_add(expected_ns / NOTABLE);
            let slow = Slow { class: own, median_ns, expected_ns };
            (median_ns > notable && own.commands >= ENOUGH).then_some(slow)
        });
        slow.collect()
    }
}
