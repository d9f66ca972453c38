// SPDX-License-Identifier: MIT OR Apache-2.0
//! Findings: the rule, the evidence, and the advice. A rule is a pure function of data. Their names are
//! stable, so that scripts can use them.

use std::fmt::Display;

use serde::Serialize;

/// Importance of a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    /// A note for reading the numbers.
    Note,
    /// Something works less well than it could, and the user can change it.
    Warning,
}

/// An observation that supports a finding.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Evidence {
    /// The source: a sysctl, a file of sysfs, a field of a report.
    pub name: String,
    /// Its value.
    pub value: String,
}

/// A diagnosis as a page shows it.
#[derive(Clone, Debug)]
pub struct Diagnosed {
    /// The first line.
    pub headline: String,
    /// What was found or noted.
    pub causes: Vec<Explained>,
    /// Rules that found nothing, by what that means: rule, subject, reason.
    pub others: Vec<(&'static str, Vec<[String; 3]>)>,
}

/// A cause, or something to note.
#[derive(Clone, Debug)]
pub struct Explained {
    /// The rule and its subject.
    pub title: String,
    /// It takes no measured share of the time.
    pub is_note: bool,
    /// Lines with their labels.
    pub lines: Vec<Evidence>,
}

/// A finding.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// The stable name of the rule.
    pub rule: &'static str,
    /// Its importance.
    pub severity: Severity,
    /// The disk, controller or other subject; `None`: the machine.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub subject: Option<String>,
    /// The observations that support it.
    pub evidence: Vec<Evidence>,
    /// The meaning, or what to do, in one sentence.
    pub advice: String,
}

impl Finding {
    /// A finding about the machine, without evidence.
    pub fn new(rule: &'static str, severity: Severity, advice: impl Into<String>) -> Self {
        Self { rule, severity, subject: None, evidence: vec![], advice: advice.into() }
    }

    /// Sets the subject.
    #[must_use]
    pub fn about(self, subject: &str) -> Self {
        Self { subject: Some(subject.into()), ..self }
    }

    /// Adds evidence.
    #[must_use]
    pub fn shown_by(mut self, name: &str, value: impl Display) -> Self {
        self.evidence.push(Evidence { name: name.into(), value: value.to_string() });
        self
    }
}
