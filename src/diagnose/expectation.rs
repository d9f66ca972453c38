// SPDX-License-Identifier: MIT OR Apache-2.0
//! What commands should take, and those that take longer.

use std::collections::BTreeMap;

use crate::model::command_class::CommandClass;

use super::facts::Facts;
use super::strata::ClassFacts;
use super::subject::Subject;

/// Fewest commands of a kind whose median is compared.
const ENOUGH: u64 = 30;

/// A median is above what was expected from this part of it on: less is no difference that a reader sees.
const NOTABLE: u64 = 100;

/// What commands should take.
#[derive(Clone, Debug, Default)]
pub enum Expectation {
    /// Nothing was said: times are not judged.
    #[default]
    None,
    /// The median of each stratum should not be above this, in nanoseconds (`--expect`).
    Median(u64),
    /// The medians of another recording, by stratum (`--baseline`).
    Baseline(BTreeMap<CommandClass, Usual>),
}

/// The median of a stratum of another recording, in nanoseconds.
#[derive(Clone, Copy, Debug)]
pub struct Usual {
    /// Of all its time; `None`: the waits before the request were not observed.
    pub all_ns: Option<u64>,
    /// Of the time from the request on.
    pub begun_ns: u64,
}

impl Usual {
    /// That of a stratum.
    pub fn of(stratum: &ClassFacts) -> Self {
        Self { all_ns: stratum.has_waits.then_some(stratum.p50_ns), begun_ns: stratum.begun_p50_ns }
    }
}

/// A stratum that takes longer than expected.
#[derive(Clone, Copy, Debug)]
pub struct Slow {
    /// The stratum.
    pub stratum: CommandClass,
    /// Its median in nanoseconds.
    pub median_ns: u64,
    /// What was expected.
    pub expected_ns: u64,
}

impl Facts {
    /// Strata that take longer than expected, those with most time first.
    pub fn slow(&self) -> Vec<Slow> {
        self.slow_of(Subject::Machine)
    }

    /// Those of a subject.
    pub fn slow_of(&self, subject: Subject) -> Vec<Slow> {
        let slow = self.strata_of(subject).filter_map(|s| {
            let (median_ns, expected_ns) = match &self.expectation {
                Expectation::None => return None,
                Expectation::Median(ns) => (s.p50_ns, *ns),
                // medians are compared with those of another time: less than a fifth is noise
                Expectation::Baseline(medians) => {
                    let usual = medians.get(&s.stratum)?;
                    let of = |ns: u64| ns.saturating_mul(6) / 5;
                    match usual.all_ns.filter(|_| s.has_waits) {
                        Some(ns) => (s.p50_ns, of(ns)),
                        None => (s.begun_p50_ns, of(usual.begun_ns)),
                    }
                }
            };
            let notable = expected_ns.saturating_add(expected_ns / NOTABLE);
            (median_ns > notable && s.commands >= ENOUGH).then_some(Slow {
                stratum: s.stratum,
                median_ns,
                expected_ns,
            })
        });
        slow.collect()
    }
}
