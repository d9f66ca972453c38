// SPDX-License-Identifier: MIT OR Apache-2.0
//! Quantiles of many values in bounded memory: exact while the values are few, then from narrow
//! buckets.

use std::cmp::Ordering;

use super::fine::FineHistogram;

/// Most values that are kept: 512 KiB.
pub const FEW: usize = 1 << 16;
/// log2 of the number of buckets in each power of two, when there are more values.
const BITS: u32 = 10;
/// Largest error of a quantile when there are more values, relative to it.
pub const ERROR: f64 = 1.0 / (1 << BITS) as f64;

/// Values, for their quantiles by nearest rank.
#[derive(Clone, Debug)]
pub struct Quantiles(Values);

#[derive(Clone, Debug)]
enum Values {
    Few(Vec<u64>),
    Many(FineHistogram<BITS>),
}

impl Default for Quantiles {
    fn default() -> Self {
        Self::new()
    }
}

/// ceil(percent / 100 * count), at least 1 and at most the count.
pub fn rank(percent: f64, count: u64) -> u64 {
    // Slightly less before rounding up: 99.9 has no exact binary representation, and the
    // product must not be one rank too high if the exact product is an integer.
    let exact = percent * count as f64 / 100.0 * (1.0 - 4.0 * f64::EPSILON);
    (exact.ceil() as u64).clamp(1, count.max(1))
}

fn buckets(values: &[u64]) -> FineHistogram<BITS> {
    let mut all = FineHistogram::default();
    values.iter().for_each(|value| all.record(*value));
    all
}

/// The values of `later` that are not in `earlier`, which may be in another order.
fn difference(later: &[u64], earlier: &[u64]) -> Vec<u64> {
    let sorted = |values: &[u64]| {
        let mut values = values.to_vec();
        values.sort_unstable();
        values
    };
    let (later, earlier) = (sorted(later), sorted(earlier));
    let mut before = earlier.iter().peekable();
    let is_new = |value: &u64| loop {
        match before.peek().map_or(Ordering::Less, |known| value.cmp(known)) {
            Ordering::Less => return true,
            Ordering::Equal => {
                before.next();
                return false;
            }
            Ordering::Greater => before.next(),
        };
    };
    later.into_iter().filter(is_new).collect()
}

impl Quantiles {
    /// Without values.
    pub const fn new() -> Self {
        Self(Values::Few(Vec::new()))
    }

    fn into_buckets(self) -> FineHistogram<BITS> {
        match self.0 {
            Values::Few(values) => buckets(&values),
            Values::Many(many) => many,
        }
    }

    /// Adds a value.
    pub fn record(&mut self, value: u64) {
        match &mut self.0 {
            Values::Few(values) if values.len() < FEW => values.push(value),
            Values::Few(values) => {
                let mut many = buckets(values);
                many.record(value);
                self.0 = Values::Many(many);
            }
            Values::Many(many) => many.record(value),
        }
    }

    /// Adds the values of another.
    pub fn merge(&mut self, other: &Self) {
        match (&mut self.0, &other.0) {
            (Values::Few(mine), Values::Few(theirs)) if mine.len() + theirs.len() <= FEW => {
                mine.extend(theirs);
            }
            (Values::Few(mine), theirs) => {
                let mut many = buckets(mine);
                many.merge(&Self(theirs.clone()).into_buckets());
                self.0 = Values::Many(many);
            }
            (Values::Many(many), Values::Few(theirs)) => {
                theirs.iter().for_each(|value| many.record(*value));
            }
            (Values::Many(many), Values::Many(theirs)) => many.merge(theirs),
        }
    }

    /// The values that are not in an earlier state of this.
    #[must_use]
    pub fn minus(&self, earlier: &Self) -> Self {
        if let (Values::Few(later), Values::Few(earlier)) = (&self.0, &earlier.0) {
            return Self(Values::Few(difference(later, earlier)));
        }
        let mut many = self.clone().into_buckets();
        many.remove(&earlier.clone().into_buckets());
        Self(Values::Many(many))
    }

    /// The value of this rank: 1 is the smallest. 0 without values.
    pub fn at_rank(&self, rank: u64) -> u64 {
        match &self.0 {
            Values::Few(values) if values.is_empty() => 0,
            Values::Few(values) => {
                let mut values = values.clone();
                let last = values.len() - 1;
                let at = usize::try_from(rank.max(1) - 1).map_or(last, |at| at.min(last));
                *values.select_nth_unstable(at).1
            }
            Values::Many(many) => many.at_rank(rank) as u64,
        }
    }

    /// The values of these ranks, which ascend. It needs no copy, and looks for each rank only above the
    /// one before.
    pub fn into_ranks<const N: usize>(self, ranks: [u64; N]) -> [u64; N] {
        let mut values = match self.0 {
            Values::Few(values) if !values.is_empty() => values,
            other => return ranks.map(|rank| Self(other.clone()).at_rank(rank)),
        };
        let (mut from, last) = (0, values.len() - 1);
        ranks.map(|rank| {
            let at = usize::try_from(rank.max(1) - 1).map_or(last, |at| at.min(last));
            let at = at.max(from);
            let value = *values[from..].select_nth_unstable(at - from).1;
            from = at;
            value
        })
    }

    /// Largest error of a quantile, relative to it.
    pub const fn error(&self) -> f64 {
        match self.0 {
            Values::Few(_) => 0.0,
            Values::Many(_) => ERROR,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::collection::vec;
    use proptest::prelude::*;

    fn of(values: &[u64]) -> Quantiles {
        let mut all = Quantiles::new();
        values.iter().for_each(|value| all.record(*value));
        all
    }

    fn at_rank(values: &[u64], rank: usize) -> u64 {
        let mut values = values.to_vec();
        values.sort_unstable();
        values[rank - 1]
    }

    proptest! {
        #[test]
        fn several_ranks_are_those_of_each(a in vec(0_u64..1 << 40, 1..200)) {
            let n = a.len() as u64;
            let ranks = [50.0, 50.0, 90.0, 99.9].map(|p| rank(p, n));
            prop_assert_eq!(of(&a).into_ranks(ranks), ranks.map(|r| of(&a).at_rank(r)));
        }

        #[test]
        fn few_values_are_exact(
            a in vec(0_u64..1 << 40, 1..60),
            b in vec(0_u64..50, 0..60),
        ) {
            let all = [a.clone(), b.clone()].concat();
            let mut merged = of(&a);
            merged.merge(&of(&b));
            let later = of(&all).minus(&of(&b));
            for rank in 1..=all.len() {
                prop_assert_eq!(of(&all).at_rank(rank as u64), at_rank(&all, rank));
                prop_assert_eq!(merged.at_rank(rank as u64), at_rank(&all, rank));
            }
            for rank in 1..=a.len() {
                prop_assert_eq!(later.at_rank(rank as u64), at_rank(&a, rank));
            }
            prop_assert!(merged.error() == 0.0 && later.error() == 0.0);
        }
    }

    #[test]
    fn many_values_are_at_most_the_stated_error_off() {
        // from 1 us to 100 ms, in a mixed order
        let count = 160_000;
        let value = |n: u64| {
            let part = (n * 7919 % count) as f64 / count as f64;
            (1000.0 * 100_000_f64.powf(part)) as u64
        };
        let all: Vec<u64> = (0..count).map(value).collect();
        let (first, rest) = all.split_at(80_000);
        let mut merged = of(first);
        merged.merge(&of(&rest[..100]));
        merged.merge(&of(&rest[100..]));
        let mut grown = of(&all[..10]);
        grown.merge(&of(&all[10..]));
        let is_close = |found: u64, want: u64| found.abs_diff(want) as f64 <= ERROR * want as f64;
        for rank in [1, 1600, 80_000, 158_400, 160_000] {
            let want = at_rank(&all, rank);
            for found in [&of(&all), &merged, &grown] {
                let found = found.at_rank(rank as u64);
                assert!(is_close(found, want), "{rank}: {found} {want}");
            }
        }
        let rest_of = of(&all).minus(&of(first));
        assert!(is_close(rest_of.at_rank(10_000), at_rank(rest, 10_000)));
        assert!(ERROR <= 0.001 && rest_of.error() == ERROR);
    }

    #[test]
    fn ranks_are_those_of_the_exact_product() {
        let ranks = [(50.0, 4), (99.9, 1000), (0.0, 9), (100.0, 7), (50.0, 0)];
        assert_eq!(ranks.map(|(p, n)| rank(p, n)), [2, 999, 1, 7, 1]);
    }
}
