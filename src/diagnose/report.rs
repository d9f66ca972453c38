// SPDX-License-Identifier: MIT OR Apache-2.0
//! Why commands are slow: rules over the commands, the activity and the settings of a machine.
//! docs/diagnose.md has the rules, docs/dev/diagnose.md the method and the tests.

pub use super::affected::Affected;
pub use super::classes::ClassFacts;
pub use super::facts::{Collector, Facts};
pub use super::judge::{Diagnosis, Outcome, diagnose};
pub use super::rule::{Rule, Tier};
pub use super::rules::RULES;
pub use super::stuck::Stuck;
pub use super::verdict::{Status, Verdict};
pub use crate::diagnose::judge::{Expectation, Slow};
pub use crate::diagnose::verdict::{Scope, Share, Subject};
