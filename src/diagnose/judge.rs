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
#[derive(Clone, Debug, Serialize)]
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
        (0, _) if facts.is_cut => "the part that can be read has no I/O command".into(),
        (0, Some(options)) => format!("no I/O command finished (selected by {options})"),
        (0, None) => "no I/O command finished".into(),
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
    let is_away = |v: &&Verdict| {
        let is_found = v.tier == Tier::Machine && v.status == Status::Found;
        is_found && least(v) >= AWAY && least(v) > least(&verdict)
    };
    if let Some(by) = case.found.iter().find(is_away) {
        let why = "but CPUs did not run for part of the time, which may explain it";
        let reason = open(format!("{}; {why} ({})", verdict.text, by.rule));
        verdict.finish(facts, rule, Err(reason));
    }
    verdict
}

fn least(verdict: &Verdict) -> f64 {
    verdict.share.map_or(0.0, |share| share.least)
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
        let part = if is_cause { least(v) * facts.total(v.of) / all } else { 0.0 };
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
            let mut texts = diagnosis.causes().map(|v| v.text.clone());
            let mut first: Vec<String> = texts.by_ref().take(MOST).collect();
            first.extend(match texts.count() {
                0 => None,
                more => Some(format!("{} below", counted(more as u64, "more cause"))),
            });
            first.join(". ") + "."
        }
        Outcome::Unknown => {
            let why = obstacle(facts, Subject::Machine);
            format!(
                "No verdict: {}.",
                why.unwrap_or_else(|| "no rule could be judged (-v says why)".into())
            )
        }
        Outcome::Nothing => {
            let slow = facts.slow(Subject::Machine).first().map(|slow| {
                let [median, expected] = slow.texts();
                let name = facts.class_name(slow.class.class);
                format!("No cause found, but {name} is slower than expected ({median}, expected {expected})")
            });
            let share = facts.share(facts.of(Subject::Machine), Stages::AT_DEVICE);
            let is_remote = |own: &ClassFacts| facts.fabric(own.class.ctrl).is_some();
            // nothing may separate these
            let several = match share.least < 0.005 && share.most > 0.5 {
                _ if facts.classes.all.iter().all(is_remote) => {
                    Some("the driver, the network, the target and its storage")
                }
                true => Some("the driver and the device, which were not observed apart"),
                false => None,
            };
            let place = match several {
                Some(them) => {
                    format!("up to {} of the time is spent in {them}", percent(share.most))
                }
                None => format!("{} of the time is spent in the device", share.range()),
            };
            let end = if facts.is_cut { " The end of the recording is missing." } else { "" };
            let first = slow.unwrap_or_else(|| "No cause found".into());
            format!("{first}: {place}.{end}")
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
        let names = || SOME.into_iter().chain(BY_END).filter(|name| words.contains(name));
        self.names.extend(names());
        let is_known = names().chain(NONE).any(|name| words.contains(name));
        self.unknown |= !words.is_empty() && !is_known;
    }

    /// What left out commands of a subject: `--opcode`; `None`: nothing that is known.
    fn of(&self, subject: Subject) -> Option<String> {
        // --ctrl keeps or leaves out whole controllers
        let counts = |name: &&str| subject == Subject::Machine || *name != "--ctrl";
        let names: Vec<&str> = self.names.iter().copied().filter(counts).collect();
        (!names.is_empty()).then(|| names.join(", "))
    }

    /// All options that left commands out, for the report; `None`: there are none.
    pub fn text(&self) -> Option<String> {
        let unknown = "a filter (hidden by --redact): other commands are missing";
        self.of(Subject::Machine).or_else(|| self.unknown.then(|| unknown.into()))
    }

    /// Why the times of these commands do not represent all commands: they were chosen by how they ended.
    pub fn bias(&self) -> Option<String> {
        let by_end = BY_END.into_iter().filter(|name| self.names.contains(name));
        let names = by_end.collect::<Vec<_>>().join(" and ");
        (!names.is_empty()).then(|| {
            format!(
                "the recording has only commands that {names} chose: their times do not represent all commands"
            )
        })
    }
}

impl Facts {
    /// Why not all commands of a subject are known; `None`: they are. Requests are counted whether or not a filter
    /// selects their commands.
    pub fn lacks(&self, subject: Subject) -> Option<String> {
        if let Some(what) = self.selection.of(subject) {
            return Some(format!("needs all commands, and {what} left some out"));
        }
        let counted = self.counted(|a| a.waits.as_deref()).unwrap_or_default();
        let is_own = |w: &&TagWaits| subject.ctrl().is_none_or(|ctrl| ctrl == w.ctrl);
        let mut own = counted.iter().filter(is_own).peekable();
        if self.selection.unknown && own.peek().is_none() {
            return Some("needs all commands, and a filter may have left some out".into());
        }
        let lacks = own.any(|w| {
            let disk = Subject::Disk(w.ctrl, w.nsid);
            let all = if w.nsid == 0 { Subject::Controller(w.ctrl) } else { disk };
            let commands = self.count(all) as f64;
            commands > 0.0 && commands < MOST_COMMANDS * w.requests as f64
        });
        lacks.then(|| {
            "needs all commands, and some requests of a disk are not among them, as with a filter".into()
        })
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
        let slow = self.classes.of_subject(subject).filter_map(|own| {
            let (median_ns, expected_ns) = match &self.expectation {
                Expectation::None => return None,
                Expectation::Median(ns) => (own.p50_ns, *ns),
                // medians of another time: less than a fifth is noise
                Expectation::Baseline(medians) => {
                    let (all_ns, begun_ns) = medians.get(&own.class)?;
                    let more = |ns: u64| ns.saturating_mul(6) / 5;
                    match all_ns.filter(|_| own.has_waits) {
                        Some(ns) => (own.p50_ns, more(ns)),
                        None => (own.begun_p50_ns, more(*begun_ns)),
                    }
                }
            };
            let notable = expected_ns.saturating_add(expected_ns / NOTABLE);
            let slow = Slow { class: own, median_ns, expected_ns };
            (median_ns > notable && own.commands >= ENOUGH).then_some(slow)
        });
        slow.collect()
    }
}
