// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a rule says of a subject.

use std::fmt::Display;

use serde::Serialize;

use super::affected::{Affected, Where, ids_of};
use super::compare::Comparison;
use super::facts::Facts;
use super::issuers::Who;
use super::rule::Rule;
use super::share::Share;
use super::stages::Stages;
use super::subject::Subject;
use crate::model::command_class::CommandClass;
use crate::model::report::finding::Evidence;

/// What it comes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// It takes a share of the time, or commands were lost, held or failed.
    Found,
    /// It is true, but takes no measured share of the time.
    Noted,
    /// It was measured, and is not the cause.
    RuledOut,
    /// What the rule looks for is not there.
    NotPresent,
    /// It could not be judged.
    Inconclusive,
    /// It needs an option.
    NotObserved,
}

/// Why a rule finds nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reason(pub Status, pub String);

/// It was measured, and is not the cause.
pub fn out(why: impl Into<String>) -> Reason {
    Reason(Status::RuledOut, why.into())
}

/// What the rule looks for is not there.
pub fn absent(why: impl Into<String>) -> Reason {
    Reason(Status::NotPresent, why.into())
}

/// It could not be judged.
pub fn open(why: impl Into<String>) -> Reason {
    Reason(Status::Inconclusive, why.into())
}

/// It needs this option.
pub fn needs(option: &str) -> Reason {
    Reason(Status::NotObserved, option.into())
}

/// What a rule says of a subject.
#[derive(Clone, Debug, Serialize)]
pub struct Verdict {
    /// The id of the rule.
    pub rule: &'static str,
    /// The controller, the disk, or `machine`.
    pub subject: String,
    /// What it comes to.
    pub status: Status,
    /// The sentence that says what was found, or why nothing was.
    pub text: String,
    /// The share of the time of the subject's commands that it explains; `None`: not measured.
    pub share: Option<Share>,
    /// What it was seen by. `impact`, `when` and `setting` have lines of their own in text.
    pub evidence: Vec<Evidence>,
    /// What to do.
    pub advice: String,
    /// What that may cost.
    pub risk: Option<&'static str>,
    /// The single commands that it is about.
    pub r#where: Option<Where>,
    /// Who issued the commands.
    #[serde(flatten)]
    pub who: Who,
    /// What the rule was applied to.
    #[serde(skip)]
    pub of: Subject,
    /// The subject has too few commands to be mentioned first.
    #[serde(skip)]
    pub is_minor: bool,
    #[serde(skip)]
    pub(super) affected: Vec<Affected>,
    /// The stages that have the share.
    #[serde(skip)]
    pub(super) stages: Option<Stages>,
    /// The classes that it makes longer, and by which part of their time. Empty: all alike.
    #[serde(skip)]
    pub(super) classes: Vec<(CommandClass, f64)>,
    /// The values of the names in braces.
    #[serde(skip)]
    names: Vec<(&'static str, String)>,
}

impl Verdict {
    /// A verdict in the making.
    pub(super) fn new(rule: &Rule, facts: &Facts, of: Subject) -> Self {
        let subject = facts.subject_name(of);
        Self {
            rule: rule.id,
            names: vec![("name", subject.clone())],
            subject,
            status: Status::Found,
            text: String::new(),
            share: None,
            evidence: Vec::new(),
            advice: String::new(),
            risk: None,
            r#where: None,
            who: Who::default(),
            of,
            is_minor: false,
            affected: Vec::new(),
            stages: None,
            classes: Vec::new(),
        }
    }

    /// Adds evidence, if there is any.
    pub(super) fn shows(&mut self, name: impl Into<String>, value: impl Display) {
        let value = value.to_string();
        if !value.is_empty() {
            self.evidence.push(Evidence { name: name.into(), value });
        }
    }

    /// The same, if there is a value.
    pub(super) fn shows_if(&mut self, name: &str, value: Option<impl Display>) {
        if let Some(value) = value {
            self.shows(name, value);
        }
    }

    /// A setting: `queue/nr_requests = 4`.
    pub(super) fn setting(&mut self, name: &str, value: Option<impl Display>) {
        if let Some(value) = value {
            self.shows("setting", format!("{name} = {value}"));
        }
    }

    /// Gives a name in braces its value.
    pub(super) fn name(&mut self, name: &'static str, value: impl Display) {
        self.names.retain(|(old, _)| *old != name);
        self.names.push((name, value.to_string()));
    }

    /// The value of a name.
    pub(super) fn names(&self, name: &str) -> Option<&str> {
        self.names.iter().find(|(own, _)| *own == name).map(|(_, value)| &**value)
    }

    /// These stages have this share of the time.
    pub(super) fn has_share(&mut self, share: Share, stages: Stages) {
        (self.share, self.stages) = (Some(share), Some(stages));
        self.name("share", share.range());
        self.shows(stages.name(), format!("{} of the time", share.text()));
    }

    /// Commands with a condition take longer.
    pub(super) fn is_longer(&mut self, found: &Comparison, times: f64) {
        let more = self.share.map_or(0.0, |share| share.least);
        self.share = Some(Share::of(found.explains.max(more)));
        self.classes.extend(&found.classes);
        self.name("times", format!("{times:.1}"));
    }

    /// It is about these commands: shows when and which they were.
    pub(super) fn about(&mut self, facts: &Facts, affected: Vec<Affected>) {
        for (name, text) in [
            ("when", facts.times_of(&affected)),
            ("commands", ids_of(&affected)),
            ("blocks", facts.blocks_of(&affected)),
        ] {
            self.shows(name, text);
        }
        self.r#where = facts.where_of(&affected);
        self.affected = affected;
    }

    /// Replaces the names in braces by their values.
    fn named(&self, text: &str) -> String {
        let replace = |text: String, (name, value): &(&str, String)| {
            text.replace(&format!("{{{name}}}"), value)
        };
        self.names.iter().fold(text.to_owned(), replace)
    }

    /// Completes it with the result of its rule.
    pub(super) fn finish(&mut self, facts: &Facts, rule: &Rule, result: Result<(), Reason>) {
        if let Err(Reason(status, why)) = result {
            *self = Self {
                status,
                text: why,
                is_minor: self.is_minor,
                ..Self::new(rule, facts, self.of)
            };
            return;
        }
        if self.status == Status::Noted {
            self.share = None;
        }
        self.who = self.issued_by(facts);
        let cgroup = self.who.cgroups.first().map(|cgroup| format!("the cgroup {}", cgroup.name()));
        self.name("cgroup", cgroup.unwrap_or("the cgroup".into()));
        let text = if self.text.is_empty() { rule.text } else { &self.text };
        self.text = self.named(text);
        let advice = if self.advice.is_empty() { rule.advice } else { &self.advice };
        self.advice = self.named(advice);
        self.risk = self.risk.or(Some(rule.risk)).filter(|risk| !risk.is_empty());
    }

    /// The share of a class's time that it explains; `None`: not measured for the class.
    pub(super) fn share_of(&self, facts: &Facts, class: CommandClass) -> Option<f64> {
        if !self.of.has(class) {
            return None;
        }
        match self.stages {
            Some(stages) => {
                let class = facts.classes.get(class)?;
                Some(facts.share_of_class(class, stages).least)
            }
            None if self.classes.is_empty() => Some(self.share?.least),
            None => self.classes.iter().find(|(of, _)| *of == class).map(|(_, part)| *part),
        }
    }

    fn issued_by(&self, facts: &Facts) -> Who {
        if !self.affected.is_empty() {
            return facts
                .who(self.affected.iter().map(|a| (a.issuer, (a.time_ns() as f64).max(1.0))));
        }
        facts.who_of(facts.of(self.of), |command| match self.stages {
            Some(stages) => command.time_bounds(stages).0 as f64,
            None if self.classes.is_empty() => command.total() as f64,
            None => {
                let own = self.classes.iter().find(|(class, _)| *class == command.class);
                own.map_or(0.0, |(_, part)| part * command.total() as f64)
            }
        })
    }
}
