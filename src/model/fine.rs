// SPDX-License-Identifier: MIT OR Apache-2.0
//! A log-linear histogram with narrow buckets: `1 << BITS` per power of two. It keeps only the range
//! of buckets in use.

use std::ops::Range;

use crate::model::log_linear::{index, low};

/// Counts of values by bucket, and their sum.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FineHistogram<const BITS: u32> {
    /// Number of the first bucket of `counts`.
    first: usize,
    counts: Vec<u32>,
    count: u64,
    sum: u128,
}

impl<const BITS: u32> FineHistogram<BITS> {
    /// The range of a bucket: lower end (inclusive) and upper end (exclusive).
    pub fn bounds(bucket: usize) -> (f64, f64) {
        let low = |bucket| low::<BITS>(bucket) as f64;
        (low(bucket), low(bucket + 1))
    }

    /// Counts a value.
    pub fn record(&mut self, value: u64) {
        let bucket = index::<BITS>(value);
        self.cover(bucket..bucket + 1);
        let count = &mut self.counts[bucket - self.first];
        *count = count.saturating_add(1);
        self.count += 1;
        self.sum += u128::from(value);
    }

    /// Adds the values of another histogram.
    pub fn merge(&mut self, other: &Self) {
        if other.count == 0 {
            return;
        }
        self.cover(other.buckets());
        let mine = &mut self.counts[other.first - self.first..];
        for (mine, theirs) in mine.iter_mut().zip(&other.counts) {
            *mine = mine.saturating_add(*theirs);
        }
        self.count += other.count;
        self.sum += other.sum;
    }

    /// Removes values that were added before. Those that were not are ignored.
    pub fn remove(&mut self, other: &Self) {
        for (count, bucket) in self.counts.iter_mut().zip(self.first..) {
            *count = count.saturating_sub(other.at(bucket));
        }
        self.count = self.counts.iter().map(|n| u64::from(*n)).sum();
        self.sum = self.sum.saturating_sub(other.sum);
    }

    /// The value of this rank (1: the smallest), interpolated in its bucket.
    pub fn at_rank(&self, rank: u64) -> f64 {
        let mut before = 0;
        for (&count, bucket) in self.counts.iter().zip(self.first..) {
            let count = u64::from(count);
            if before + count >= rank && count > 0 {
                let (low, high) = Self::bounds(bucket);
                let part = (rank.saturating_sub(before) as f64 - 0.5) / count as f64;
                return low + (high - low - 1.0) * part;
            }
            before += count;
        }
        0.0
    }

    /// Makes room for these buckets.
    fn cover(&mut self, range: Range<usize>) {
        if self.counts.is_empty() {
            self.first = range.start;
        }
        if range.start < self.first {
            let more = self.first - range.start;
            self.counts.splice(0..0, (0..more).map(|_| 0));
            self.first = range.start;
        }
        let len = range.end - self.first;
        if len > self.counts.len() {
            self.counts.resize(len, 0);
        }
    }

    /// The range of buckets in use.
    pub const fn buckets(&self) -> Range<usize> {
        self.first..self.first + self.counts.len()
    }

    /// The count of a bucket.
    pub fn at(&self, bucket: usize) -> u32 {
        let at = bucket.checked_sub(self.first);
        at.and_then(|at| self.counts.get(at)).copied().unwrap_or(0)
    }

    /// Number of values.
    pub const fn count(&self) -> u64 {
        self.count
    }

    /// Sum of the values.
    pub const fn sum(&self) -> u128 {
        self.sum
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::collection::vec;
    use proptest::prelude::*;

    type Histogram = FineHistogram<7>;

    proptest! {
        #[test]
        fn merging_is_recording(
            a in vec(0_u64..1 << 40, 0..50),
            b in vec(0_u64..1 << 40, 0..50),
        ) {
            let of = |values: &[u64]| {
                let mut all = Histogram::default();
                values.iter().for_each(|&v| all.record(v));
                all
            };
            let mut merged = of(&a);
            merged.merge(&of(&b));
            let both = of(&[a.clone(), b.clone()].concat());
            prop_assert_eq!((merged.count(), merged.sum()), (both.count(), both.sum()));
            for bucket in 0..5000 {
                prop_assert_eq!(merged.at(bucket), both.at(bucket));
            }
            merged.remove(&of(&b));
            prop_assert_eq!(merged.count(), of(&a).count());
        }
    }
}
