// SPDX-License-Identifier: MIT OR Apache-2.0
//! Why commands are slow: rules over the commands, the activity and the settings of a machine.
//! docs/diagnose.md has the rules and their tests.

mod collect;
mod command;
mod facts;
mod gaps;
mod incidents;
mod judge;
#[cfg(test)]
mod made;
mod measure;
mod rules;
mod stages;
mod stuck;

pub use self::collect::Collector;
pub use self::command::Command;
pub use self::command::Commands;
pub use self::facts::Expectation;
pub use self::facts::Facts;
pub use self::facts::Slow;
pub use self::facts::Span;
pub use self::facts::StratumFacts;
pub use self::gaps::Gaps;
pub use self::incidents::Incidents;
pub use self::judge::Diagnosis;
pub use self::judge::Outcome;
pub use self::judge::diagnose;
pub use self::measure::Comparison;
pub use self::measure::Share;
pub use self::rules::RULES;
pub use self::stages::Stages;
pub use self::stuck::STUCK_NS;
pub use self::stuck::Stuck;
use crate::report::finding::Finding;
use crate::report::finding::Severity;

/// A cause that a rule has found.
#[derive(Clone, Debug, PartialEq)]
pub struct Cause {
    /// Rule, subject, evidence, advice.
    pub finding: Finding,
    /// The cause in one sentence.
    pub sentence: String,
    /// What the advice may cost.
    pub risk: Option<&'static str>,
    /// The part of the time of all commands that it explains: 0 to 1; `None`: not measured.
    pub explains: Option<f64>,
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
        }
    }

    /// Adds evidence.
    #[must_use]
    pub fn shown_by(self, name: &str, value: impl std::fmt::Display) -> Self {
        Self {
            finding: self.finding.shown_by(name, value),
            ..self
        }
    }

    /// The risk of the advice.
    #[must_use]
    pub fn with_risk(self, risk: &'static str) -> Self {
        Self {
            risk: Some(risk),
            ..self
        }
    }

    /// The part of all time that it explains.
    #[must_use]
    pub fn explaining(self, part: f64) -> Self {
        Self {
            explains: Some(part),
            ..self
        }
    }
}

/// What a rule says of the facts.
#[derive(Clone, Debug, PartialEq)]
pub enum Answer {
    /// These causes, of different controllers.
    Found(Vec<Cause>),
    /// It is not the cause, for this reason.
    Out(String),
    /// It cannot be judged, for this reason.
    Unknown(String),
}

impl Answer {
    /// The causes, or why there are none.
    pub fn of(causes: Vec<Cause>, otherwise: impl Into<String>) -> Self {
        if causes.is_empty() {
            Self::Out(otherwise.into())
        } else {
            Self::Found(causes)
        }
    }
}

/// How specific a cause is. The more specific one explains the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Tier {
    /// Commands went astray: they were lost, or ended by a timeout.
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
    /// How specific it is.
    pub tier: Tier,
    /// The rule: a pure function.
    pub check: fn(&Facts) -> Answer,
}
