// SPDX-License-Identifier: MIT OR Apache-2.0
//! How long commands should take, and the classes that take longer.

use std::collections::BTreeMap;

use super::classes::ClassFacts;
use super::facts::Facts;
use super::subject::Subject;
use crate::model::command_class::CommandClass;

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
pub struct Slow {
    /// The class.
    pub class: CommandClass,
    /// Its median in nanoseconds.
    pub median_ns: u64,
    /// What was expected.
    pub expected_ns: u64,
}

impl ClassFacts {
    /// Its medians, for [`Expectation::Baseline`].
    pub fn medians(&self) -> (Option<u64>, u64) {
        (self.has_waits.then_some(self.p50_ns), self.begun_p50_ns)
    }
}

impl Facts {
    /// The classes of a subject that take longer than expected, those with most time first.
    pub fn slow(&self, subject: Subject) -> Vec<Slow> {
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
            let slow = Slow { class: own.class, median_ns, expected_ns };
            (median_ns > notable && own.commands >= ENOUGH).then_some(slow)
        });
        slow.collect()
    }
}
