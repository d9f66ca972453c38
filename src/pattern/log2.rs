// SPDX-License-Identifier: MIT OR Apache-2.0
//! Histograms with a bucket per power of two.

/// Number of buckets: zero, and one per bit of a value.
const BUCKETS: usize = 65;

/// Counts by power of two.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Log2 {
    counts: [u64; BUCKETS],
    sum: u128,
}

impl Default for Log2 {
    fn default() -> Self {
        Self { counts: [0; BUCKETS], sum: 0 }
    }
}

/// The range of a bucket, both ends inclusive.
const fn range(bucket: usize) -> (u64, u64) {
    match bucket {
        0 => (0, 0),
        64 => (1 << 63, u64::MAX),
        n => (1 << (n - 1), (1 << n) - 1),
    }
}

impl Log2 {
    /// Counts a value.
    pub fn record(&mut self, value: u64) {
        let bucket = u64::BITS - value.leading_zeros();
        self.counts[bucket as usize] += 1;
        self.sum += u128::from(value);
    }

    /// Number of values.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// The mean; `None` without values.
    #[must_use]
    pub fn mean(&self) -> Option<f64> {
        let count = self.count();
        (count > 0).then(|| self.sum as f64 / count as f64)
    }

    /// The buckets in use, lowest first: first value, last value, count.
    pub fn iter(&self) -> impl Iterator<Item = (u64, u64, u64)> {
        let used = self.counts.iter().enumerate().filter(|(_, n)| **n > 0);
        used.map(|(bucket, count)| {
            let (first, last) = range(bucket);
            (first, last, *count)
        })
    }

    /// The values that are not in `earlier`.
    #[must_use]
    pub fn minus(&self, earlier: &Self) -> Self {
        let mut rest = self.clone();
        let pairs = rest.counts.iter_mut().zip(&earlier.counts);
        pairs.for_each(|(n, was)| *n = n.saturating_sub(*was));
        rest.sum = rest.sum.saturating_sub(earlier.sum);
        rest
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn each_value_is_in_the_bucket_of_its_power_of_two(value: u64, shift in 0_u32..64) {
            let value = value >> shift;
            let mut hist = Log2::default();
            hist.record(value);
            let all: Vec<_> = hist.iter().collect();
            prop_assert_eq!(all.len(), 1);
            let (first, last, count) = all[0];
            prop_assert!(first <= value && value <= last && count == 1);
            prop_assert!(first == 0 || last - first == first - 1);
            prop_assert_eq!(hist.minus(&hist).count(), 0);
        }
    }
}
