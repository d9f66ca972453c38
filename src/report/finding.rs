// SPDX-License-Identifier: MIT OR Apache-2.0
//! A finding: which rule applies, what shows it, and what to do. Rules are functions of data; their
//! names are stable, so that scripts can look for them.

use std::fmt::Display;

use serde::Serialize;

/// How much a finding matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    /// To keep in mind when reading numbers.
    Note,
    /// Something works less well, and can be changed.
    Warning,
}

/// One observation that shows a finding.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Evidence {
    /// What was looked at: a sysctl, a file of sysfs, a field of a report.
    pub name: String,
    /// Its value.
    pub value: String,
}

/// A finding.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// The stable name of the rule.
    pub rule: &'static str,
    /// How much it matters.
    pub severity: Severity,
    /// The disk, the controller, or what else it is about; none: the machine.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub subject: Option<String>,
    /// What shows it.
    pub evidence: Vec<Evidence>,
    /// What it means, or what to do, in a sentence.
    pub advice: String,
}

impl Finding {
    /// Without evidence, about the machine.
    pub fn new(rule: &'static str, severity: Severity, advice: impl Into<String>) -> Self {
        Self {
            rule,
            severity,
            subject: None,
            evidence: vec![],
            advice: advice.into(),
        }
    }

    /// About this.
    #[must_use]
    pub fn about(self, subject: &str) -> Self {
        Self {
            subject: Some(subject.into()),
            ..self
        }
    }

    /// Shown by this, too.
    #[must_use]
    pub fn shown_by(mut self, name: &str, value: impl Display) -> Self {
        self.evidence.push(Evidence {
            name: name.into(),
            value: value.to_string(),
        });
        self
    }
}
