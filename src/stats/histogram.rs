// SPDX-License-Identifier: MIT OR Apache-2.0
//! A log-linear histogram with narrow buckets, for comparing: 128 per power of two, so the width of a
//! bucket is at most 1/128 (0.8 %) of its values. It keeps only the range of buckets in use.

use std::ops::Range;

/// log2 of the number of buckets in each power of two.
const SUB_BITS: u32 = 7;
const SUB: u64 = 1 << SUB_BITS;

/// Largest width of a bucket, relative to its values.
pub const RESOLUTION: f64 = 1.0 / SUB as f64;

/// The bucket of a value.
const fn index(value: u64) -> usize {
    if value < SUB {
        return value as usize;
    }
    let exp = value.ilog2();
    let group = (exp - SUB_BITS + 1) as usize;
    (group << SUB_BITS) + ((value >> (exp - SUB_BITS)) & (SUB - 1)) as usize
}

/// Lower end (inclusive) of a bucket.
fn low(bucket: usize) -> f64 {
    let (group, part) = (bucket >> SUB_BITS, (bucket as u64 & (SUB - 1)) as f64);
    if group == 0 {
        part
    } else {
        (SUB as f64 + part) * 2_f64.powi(group as i32 - 1)
    }
}

/// The range of a bucket: lower end (inclusive) and upper end (exclusive).
pub fn bounds(bucket: usize) -> (f64, f64) {
    (low(bucket), low(bucket + 1))
}

/// Counts of values by bucket, and their sum.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FineHistogram {
    /// Number of the first bucket of `counts`.
    first: usize,
    counts: Vec<u32>,
    count: u64,
    sum: u128,
}

impl FineHistogram {
    /// Counts a value.
    pub fn record(&mut self, value: u64) {
        let bucket = index(value);
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

    proptest! {
        #[test]
        fn a_bucket_holds_its_values_and_is_narrow(value: u64) {
            let (low, high) = bounds(index(value));
            // beyond 2^53 the bounds are rounded
            prop_assert!(low <= value as f64 && value as f64 <= high);
            prop_assert!(high - low <= f64::max(1.0, low * RESOLUTION));
        }

        #[test]
        fn merging_is_recording(
            a in vec(0_u64..1 << 40, 0..50),
            b in vec(0_u64..1 << 40, 0..50),
        ) {
            let of = |values: &[u64]| {
                let mut all = FineHistogram::default();
                values.iter().for_each(|&v| all.record(v));
                all
            };
            let mut merged = of(&a);
            merged.merge(&of(&b));
            let both = of(&[a, b].concat());
            prop_assert_eq!((merged.count(), merged.sum()), (both.count(), both.sum()));
            for bucket in 0..5000 {
                prop_assert_eq!(merged.at(bucket), both.at(bucket));
            }
        }
    }
}
