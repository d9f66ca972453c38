// SPDX-License-Identifier: MIT OR Apache-2.0
//! Why commands are slow: rules over the commands, the activity and the settings of a machine.
//! docs/diagnose.md has the rules and their tests.

pub use crate::diagnose::affected::Affected;
pub use crate::diagnose::collect::Collector;
pub use crate::diagnose::command::{Command, Commands};
pub use crate::diagnose::expectation::{Expectation, Slow, Usual};
pub use crate::diagnose::facts::{Facts, Span};
pub use crate::diagnose::gaps::Gaps;
pub use crate::diagnose::incidents::Incidents;
pub use crate::diagnose::issuers::{Issuer, Who};
pub use crate::diagnose::judge::{Diagnosis, Judged, diagnose};
pub use crate::diagnose::measure::{Compared, Comparison};
pub use crate::diagnose::portion::{Portion, Share};
pub use crate::diagnose::rates::Rates;
pub use crate::diagnose::rules::RULES;
pub use crate::diagnose::selection::Selection;
pub use crate::diagnose::stages::Stages;
pub use crate::diagnose::strata::ClassFacts;
pub use crate::diagnose::stuck::{STUCK_NS, Stuck};
pub use crate::diagnose::subject::{Scope, Subject};
pub use crate::diagnose::verdict::Outcome;

use crate::model::command_class::CommandClass;
use crate::model::report::finding::{Finding, Severity};

/// What a rule has found: a cause, or a note.
#[derive(Clone, Debug, PartialEq)]
pub struct Cause {
    /// Rule, subject, evidence, advice.
    pub finding: Finding,
    /// The cause in one sentence.
    pub sentence: String,
    /// What the advice may cost.
    pub risk: Option<&'static str>,
    /// The part of the time of its subject's commands that it explains: 0 to 1; `None`: not measured.
    pub explains: Option<f64>,
    /// Which commands this concerns.
    pub concerns: Concerns,
    /// The single commands that it is about, if it is about some.
    pub affected: Vec<Affected>,
    /// Who issued the commands; set when all rules have answered.
    pub who: Option<Who>,
}

/// Which commands of its subject a cause makes longer.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Concerns {
    /// All of them alike.
    #[default]
    All,
    /// Each by its part of the time in these stages.
    Stages(Stages),
    /// These strata, by this part of their time.
    Kinds(Vec<(CommandClass, f64)>),
}

impl Cause {
    /// A cause.
    pub fn new(
        rule: &'static str,
        subject: &str,
        sentence: String,
        advice: impl Into<String>,
    ) -> Self {
        Self {
            finding: Finding::new(rule, Severity::Warning, advice).about(subject),
            sentence,
            risk: None,
            explains: None,
            concerns: Concerns::All,
            affected: Vec::new(),
            who: None,
        }
    }

    /// Adds evidence.
    #[must_use]
    pub fn shown_by(self, name: &str, value: impl std::fmt::Display) -> Self {
        Self { finding: self.finding.shown_by(name, value), ..self }
    }

    /// The risk of the advice.
    #[must_use]
    pub fn with_risk(self, risk: &'static str) -> Self {
        Self { risk: Some(risk), ..self }
    }

    /// The part of the time that it explains.
    #[must_use]
    pub fn explaining(self, part: f64) -> Self {
        Self { explains: Some(part), ..self }
    }

    /// It explains the time in some stages.
    #[must_use]
    pub fn explaining_stages(self, portion: &Portion) -> Self {
        Self {
            explains: Some(portion.least.part),
            concerns: Concerns::Stages(portion.stages),
            ..self
        }
    }

    /// It explains what commands with a condition took longer.
    #[must_use]
    pub fn explaining_longer(self, comparison: &Comparison) -> Self {
        Self {
            explains: Some(comparison.explains),
            concerns: Concerns::Kinds(comparison.kinds.clone()),
            ..self
        }
    }

    /// It explains this part of the time of these strata.
    #[must_use]
    pub fn concerning(self, kinds: Vec<(CommandClass, f64)>) -> Self {
        Self { concerns: Concerns::Kinds(kinds), ..self }
    }
}

/// What a rule says of a subject: exactly one of these.
#[derive(Clone, Debug, PartialEq)]
pub enum Answer {
    /// It takes a part of the time, or commands went astray.
    Cause(Box<Cause>),
    /// It is true, but takes no measured part of the time.
    Note(Box<Cause>),
    /// What the rule looks for is not there, for this reason.
    Absent(String),
    /// It was measured, and is not the cause, for this reason.
    Out(String),
    /// It could not be judged: why, and what would be needed.
    Open(String),
    /// It needs an option, this one.
    NotLooked(String),
}

impl Answer {
    /// The answer with a cause.
    pub fn cause(cause: Cause) -> Self {
        Self::Cause(Box::new(cause))
    }

    /// The answer with a note.
    pub fn note(mut cause: Cause) -> Self {
        cause.finding.severity = Severity::Note;
        cause.explains = None;
        Self::Note(Box::new(cause))
    }
}

/// What a cause is about. Incidents come first in a report.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Tier {
    /// Commands went astray: they were lost, held or failed.
    Incident,
    /// The CPUs themselves were taken away: all times grow.
    Machine,
    /// A mechanism or a setting.
    Mechanism,
    /// A limit of the device.
    Limit,
    /// The device, and nothing more specific.
    Device,
}

/// A rule.
#[derive(Clone, Copy, Debug)]
pub struct Rule {
    /// Its stable name.
    pub name: &'static str,
    /// What it looks for, as in "a rate limit could not be judged".
    pub noun: &'static str,
    /// What it is about.
    pub tier: Tier,
    /// The subjects that it is applied to.
    pub scope: Scope,
    /// The rule: a pure function of the facts and one subject.
    pub check: fn(&Facts, Subject) -> Answer,
}
