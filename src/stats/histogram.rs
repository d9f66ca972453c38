// SPDX-License-Identifier: MIT OR Apache-2.0
//! The histogram for comparing: 128 buckets per power of two, so the width of a bucket is at most
//! 1/128 (0.8 %) of its values. It keeps only the buckets with values: there is one for each slice of
//! time, and a value may be any number.

use crate::model::fine;
use crate::model::log_linear::index;

/// log2 of the number of buckets in each power of two.
const SUB_BITS: u32 = 7;

/// Largest width of a bucket, relative to its values.
pub const RESOLUTION: f64 = 1.0 / (1 << SUB_BITS) as f64;

/// Counts of values by bucket, and their sum.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FineHistogram {
    /// Numbers of buckets, ascending, and their counts.
    counts: Vec<(u32, u32)>,
    count: u64,
    sum: u128,
}

/// The range of a bucket: lower end (inclusive) and upper end (exclusive).
pub fn bounds(bucket: usize) -> (f64, f64) {
    fine::FineHistogram::<SUB_BITS>::bounds(bucket)
}

impl FineHistogram {
    fn add(&mut self, bucket: u32, more: u32) {
        match self.counts.binary_search_by_key(&bucket, |(b, _)| *b) {
            Ok(at) => {
                let count = &mut self.counts[at].1;
                *count = count.saturating_add(more);
            }
            Err(at) => self.counts.insert(at, (bucket, more)),
        }
    }

    /// Counts a value.
    pub fn record(&mut self, value: u64) {
        self.add(index::<SUB_BITS>(value) as u32, 1);
        self.count += 1;
        self.sum += u128::from(value);
    }

    /// Adds the values of another histogram.
    pub fn merge(&mut self, other: &Self) {
        for &(bucket, count) in &other.counts {
            self.add(bucket, count);
        }
        self.count += other.count;
        self.sum += other.sum;
    }

    /// The buckets with values, lowest first.
    pub fn buckets(&self) -> impl Iterator<Item = usize> {
        self.counts.iter().map(|(bucket, _)| *bucket as usize)
    }

    /// The count of a bucket.
    pub fn at(&self, bucket: usize) -> u32 {
        let found = self.counts.binary_search_by_key(&bucket, |(b, _)| *b as usize);
        found.map_or(0, |at| self.counts[at].1)
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
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn merging_is_recording(a in vec(any::<u64>(), 0..50), b in vec(0_u64..1 << 20, 0..50)) {
            let of = |values: &[u64]| {
                let mut all = FineHistogram::default();
                values.iter().for_each(|&v| all.record(v));
                all
            };
            let mut merged = of(&a);
            merged.merge(&of(&b));
            let both = of(&[a, b].concat());
            prop_assert_eq!(&merged, &both);
            let sum: u64 = both.buckets().map(|bucket| u64::from(both.at(bucket))).sum();
            prop_assert_eq!(sum, both.count());
        }
    }
}
