// SPDX-License-Identifier: MIT OR Apache-2.0
//! Completions per second, of intervals.

use std::collections::BTreeMap;
use std::time::Duration;

use super::Place;

/// A rate from a time on.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Rate {
    /// CLOCK_MONOTONIC nanoseconds.
    pub(super) at_ns: u64,
    pub(super) place: Place,
    pub(super) per_second: f64,
}

/// Counts completions.
#[derive(Debug)]
pub(super) struct Rates {
    interval_ns: u64,
    begin_ns: u64,
    /// Number of the current interval.
    number: u64,
    /// Completions in the current interval, and whether the last rate was not zero.
    counts: BTreeMap<Place, (u64, bool)>,
}

impl Rates {
    /// Intervals of this length (not zero).
    pub(super) fn new(interval: Duration) -> Self {
        let interval_ns = u64::try_from(interval.as_nanos()).unwrap_or(u64::MAX);
        Self { interval_ns: interval_ns.max(1), begin_ns: 0, number: 0, counts: BTreeMap::new() }
    }

    /// The run begins.
    pub(super) fn begin(&mut self, begin_ns: u64) {
        self.begin_ns = begin_ns;
    }

    /// Counts a completion. Returns the rates of the intervals before it.
    pub(super) fn add(&mut self, place: [Place; 2], at_ns: u64) -> Vec<Rate> {
        let number = at_ns.saturating_sub(self.begin_ns) / self.interval_ns;
        let rates = self.close(number);
        for place in place {
            self.counts.entry(place).or_default().0 += 1;
        }
        rates
    }

    /// Returns the rates of the current interval, and zeroes after it.
    pub(super) fn end(&mut self) -> Vec<Rate> {
        self.close(self.number.saturating_add(2))
    }

    fn close(&mut self, number: u64) -> Vec<Rate> {
        let mut rates = vec![];
        // the interval, and the one after it, in which rates may be zero
        while self.number < number {
            let since_ns = self.number.saturating_mul(self.interval_ns);
            let at_ns = self.begin_ns.saturating_add(since_ns);
            let before = rates.len();
            for (place, (count, shown)) in &mut self.counts {
                if *count > 0 || *shown {
                    let seconds = self.interval_ns as f64 / 1e9;
                    rates.push(Rate { at_ns, place: *place, per_second: *count as f64 / seconds });
                }
                *shown = *count > 0;
                *count = 0;
            }
            self.counts.retain(|_, (_, shown)| *shown);
            self.number += 1;
            if rates.len() == before {
                break;
            }
        }
        self.number = self.number.max(number);
        rates
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::ids::QueueId;

    #[test]
    fn a_rate_is_of_its_interval_and_then_zero() {
        let mut rates = Rates::new(Duration::from_millis(100));
        rates.begin(1_000_000_000);
        let (queue, ctrl) = (Place::Queue(QueueId::new(0, 1)), Place::Ctrl(0));
        let at = |ms: u64| 1_000_000_000 + ms * 1_000_000;
        assert_eq!(rates.add([queue, ctrl], at(10)), []);
        assert_eq!(rates.add([queue, ctrl], at(99)), []);
        let seen: Vec<(u64, Place, f64)> = rates
            .add([queue, ctrl], at(750))
            .iter()
            .map(|r| (r.at_ns, r.place, r.per_second))
            .collect();
        let want = [
            (at(0), ctrl, 20.0),
            (at(0), queue, 20.0),
            (at(100), ctrl, 0.0),
            (at(100), queue, 0.0),
        ];
        assert_eq!(seen, want);
        let seen: Vec<(u64, f64)> = rates.end().iter().map(|r| (r.at_ns, r.per_second)).collect();
        let want = [(at(700), 10.0), (at(700), 10.0), (at(800), 0.0), (at(800), 0.0)];
        assert_eq!(seen, want);
    }
}
