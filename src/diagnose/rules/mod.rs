// SPDX-License-Identifier: MIT OR Apache-2.0
//! The rules. docs/dev/diagnose.md describes how to add one.

mod above_nvme;
mod conditions;
mod incidents;
mod machine;
mod rate_cap;
mod waits;

use std::sync::LazyLock;

pub use self::waits::observed_waits;
use self::waits::{LARGE, unseen_wait};
use super::facts::Facts;
use super::rule::{Condition, Kind, NEVER, Rule, Tier, Wait, nothing};
use super::verdict::{Reason, absent, needs, open};
use crate::diagnose::facts::Stages;
use crate::diagnose::verdict::Scope;

/// The option that gives everything that rules look at.
pub const FULL: &str = "record --stages=full";

/// Every rule, by tier.
pub static RULES: LazyLock<Vec<&'static Rule>> = LazyLock::new(|| {
    let files = [
        incidents::RULES,
        machine::RULES,
        waits::RULES,
        conditions::RULES,
        &[above_nvme::RULE, rate_cap::RULE],
    ];
    let mut rules: Vec<&Rule> = files.into_iter().flatten().collect();
    rules.sort_by_key(|rule| rule.tier);
    rules
});

/// What most rows have in common.
const RULE: Rule = Rule {
    id: "",
    noun: "",
    tier: Tier::Mechanism,
    scope: Scope::Controller,
    kind: Kind::Event(nothing),
    found: "",
    text: "",
    advice: "",
    risk: "",
};
const CONDITION: Condition = Condition {
    stages: Stages::ALL,
    least: 0.1,
    sides: ["", ""],
    follows: false,
    itself: None,
    alone: NEVER,
    when: |_| Err(absent("")),
    then: nothing,
    otherwise: |_, _, reason| Err(reason),
};
const WAIT: Wait = Wait {
    stages: Stages::ALL,
    least: LARGE,
    what: "",
    premise: nothing,
    unseen: |case, _| Err(unseen_wait(case, LARGE)),
    then: nothing,
};

/// Why an observation of the machine is missing.
fn not_observed(facts: &Facts, what: &str) -> Reason {
    match facts.activity {
        Some(_) => open(format!("this kernel does not show {what}")),
        None => needs(FULL),
    }
}
