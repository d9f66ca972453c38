// SPDX-License-Identifier: MIT OR Apache-2.0
//! Log-linear latency histogram, with the same buckets as the histograms in BPF maps.
//!
//! [`index`] must give the same bucket as the BPF program for every value: the counts of the BPF
//! maps are used without conversion. Each power of two is divided into eight equal parts, so a
//! percentile from the counts alone is at most 1/16 (6.25 %) away from the sample. A histogram that saw
//! the values itself, as those of recordings, has their quantiles beside the counts.
//!
//! Pure: no I/O, no clock, no BPF. All values are nanoseconds.

use std::cmp::Ordering;

use super::log_linear;
use super::quantiles::{Quantiles, rank};

/// log2 of the number of buckets in each power of two.
pub const SUB_BITS: u32 = 3;
/// Exponent of the last power of two with separate buckets. Values from 2^36 ns (69 s) up share the
/// last bucket.
pub const MAX_EXP: u32 = 35;
/// Number of buckets.
pub const BUCKETS: usize = 272;

/// The percentiles of reports.
pub const PERCENTILES: [f64; 4] = [50.0, 90.0, 99.0, 99.9];
/// Largest error of a percentile from the counts alone, relative to it.
const BUCKET_ERROR: f64 = 1.0 / 16.0;

const LAST: usize = BUCKETS - 1;
const _: () = assert!(BUCKETS == ((MAX_EXP - SUB_BITS + 2) << SUB_BITS) as usize);

/// The bucket that counts a value of `value_ns` nanoseconds.
#[must_use]
pub const fn index(value_ns: u64) -> usize {
    let bucket = log_linear::index::<SUB_BITS>(value_ns);
    if bucket < LAST { bucket } else { LAST }
}

/// The range of a bucket in nanoseconds: lower end (inclusive) and upper end (exclusive).
///
/// The last bucket has no upper end: its second number is `u64::MAX`, and it counts that value too.
/// An `index` beyond the last bucket is treated as the last.
#[must_use]
pub fn bounds(index: usize) -> (u64, u64) {
    let bucket = index.min(LAST);
    let high = if bucket == LAST { u64::MAX } else { low(bucket + 1) };
    (low(bucket), high)
}

/// Lower end of a bucket, in nanoseconds.
fn low(bucket: usize) -> u64 {
    log_linear::low::<SUB_BITS>(bucket) as u64
}

/// Where percentiles come from.
#[derive(Clone, Debug)]
enum Origin {
    /// The counts alone.
    Counts,
    /// All values.
    Values(Quantiles),
    /// All values, of which only [`PERCENTILES`] are left, and their error.
    Percentiles([u64; PERCENTILES.len()], f64),
}

/// Counts of latencies by bucket, with their sum and maximum.
#[derive(Clone, Debug)]
pub struct Histogram {
    buckets: Box<[u64; BUCKETS]>,
    count: u64,
    sum: u128,
    max: u64,
    max_exact: bool,
    origin: Origin,
}

/// Equal counts, sum and maximum, wherever percentiles come from.
impl PartialEq for Histogram {
    fn eq(&self, other: &Self) -> bool {
        let of = |h: &Self| (h.count, h.sum, h.max, h.max_exact);
        self.buckets == other.buckets && of(self) == of(other)
    }
}

impl Eq for Histogram {}

impl Default for Histogram {
    fn default() -> Self {
        Self::new()
    }
}

impl Histogram {
    /// An empty histogram.
    #[must_use]
    pub fn new() -> Self {
        Self {
            buckets: Box::new([0; BUCKETS]),
            count: 0,
            sum: 0,
            max: 0,
            max_exact: true,
            origin: Origin::Values(Quantiles::new()),
        }
    }

    /// Builds a histogram from a BPF map: counts by bucket, sum and maximum in nanoseconds.
    ///
    /// The kernel updates the three one after the other, so a copy made in between may hold a
    /// sample without its maximum. The maximum is then estimated from the highest bucket in use,
    /// and [`max_exact`](Self::max_exact) is false.
    ///
    /// Returns `None` if there are not [`BUCKETS`] counts.
    #[must_use]
    pub fn from_parts(buckets: &[u64], sum_ns: u64, max_ns: u64) -> Option<Self> {
        let buckets: Box<[u64; BUCKETS]> = Box::new(buckets.try_into().ok()?);
        let mut hist = Self { buckets, sum: u128::from(sum_ns), ..Self::new() };
        hist.count = total(&hist.buckets);
        let Some(top) = hist.top() else {
            return Some(hist);
        };
        hist.origin = Origin::Counts;
        let (low, high) = bounds(top);
        (hist.max, hist.max_exact) = match top {
            _ if max_ns >= low => (max_ns, true),
            // The last bucket has no upper end; its lower end is a safe value.
            LAST => (low, false),
            _ => (high - 1, high - low == 1),
        };
        Some(hist)
    }

    /// Counts one latency of `value_ns` nanoseconds.
    pub fn record(&mut self, value_ns: u64) {
        self.buckets[index(value_ns)] += 1;
        self.count += 1;
        self.sum += u128::from(value_ns);
        self.raise_max(value_ns, true);
        match &mut self.origin {
            Origin::Values(values) => values.record(value_ns),
            other => *other = Origin::Counts,
        }
    }

    /// Counts this many latencies of no length, in a histogram of a BPF map.
    pub fn add_zeros(&mut self, n: u64) {
        self.buckets[index(0)] += n;
        self.count += n;
        self.origin = Origin::Counts;
    }

    /// Adds the samples of `other`. Counts saturate.
    pub fn merge(&mut self, other: &Self) {
        match (&mut self.origin, &other.origin) {
            _ if other.count == 0 => {}
            (mine, theirs) if self.count == 0 => mine.clone_from(theirs),
            (Origin::Values(mine), Origin::Values(theirs)) => mine.merge(theirs),
            (mine, _) => *mine = Origin::Counts,
        }
        for (mine, theirs) in self.buckets.iter_mut().zip(other.buckets.iter()) {
            *mine = mine.saturating_add(*theirs);
        }
        self.count = total(&self.buckets);
        self.sum = self.sum.saturating_add(other.sum);
        self.raise_max(other.max, other.max_exact);
    }

    /// An estimate stays one until a larger bucket is in use, whatever the order of merging.
    fn raise_max(&mut self, max: u64, exact: bool) {
        if exact && max <= self.max {
            return;
        }
        match index(max).cmp(&index(self.max)) {
            Ordering::Less => return,
            Ordering::Equal => self.max_exact &= exact,
            Ordering::Greater => self.max_exact = exact,
        }
        self.max = self.max.max(max);
    }

    /// This histogram, to which several CPUs added. Of two that raise the maximum at once, the smaller
    /// value may be the last: an estimate, unless there is only one sample.
    #[must_use]
    pub fn with_shared_max(mut self) -> Self {
        self.max_exact &= self.count <= 1;
        self
    }

    /// The samples of this cumulative snapshot that are not in the `earlier` one.
    /// Counts and sum are exact. They saturate at zero if the kernel's were reset. The maximum of
    /// the interval is exact only if it is above the maximum of `earlier`. Otherwise it is the
    /// upper limit of its highest bucket, at most the maximum of this snapshot, and
    /// [`max_exact`](Self::max_exact) is false unless that bucket holds a single value.
    #[must_use]
    pub fn minus(&self, earlier: &Self) -> Self {
        let mut delta = Self::new();
        let pairs = self.buckets.iter().zip(earlier.buckets.iter());
        for (slot, (later, before)) in delta.buckets.iter_mut().zip(pairs) {
            *slot = later.saturating_sub(*before);
        }
        delta.count = total(&delta.buckets);
        delta.sum = self.sum.saturating_sub(earlier.sum);
        let Some(top) = delta.top() else { return delta };
        delta.origin = match (&self.origin, &earlier.origin) {
            (Origin::Values(later), Origin::Values(earlier)) => {
                Origin::Values(later.minus(earlier))
            }
            (origin, _) if earlier.count == 0 => origin.clone(),
            _ => Origin::Counts,
        };
        let (low, high) = bounds(top);
        (delta.max, delta.max_exact) = if self.max > earlier.max {
            (self.max, self.max_exact)
        } else {
            (self.max.min(high - 1), high - low == 1)
        };
        delta
    }

    /// The highest bucket in use.
    fn top(&self) -> Option<usize> {
        self.buckets.iter().rposition(|&count| count > 0)
    }

    /// Number of samples.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Sum of all samples, in nanoseconds.
    #[must_use]
    pub fn sum(&self) -> u128 {
        self.sum
    }

    /// Mean of all samples, in nanoseconds; `None` if there are none.
    #[must_use]
    pub fn mean(&self) -> Option<f64> {
        (self.count > 0).then(|| self.sum as f64 / self.count as f64)
    }

    /// The largest sample, in nanoseconds (see [`max_exact`](Self::max_exact)); `None` if there
    /// are none.
    #[must_use]
    pub fn max(&self) -> Option<u64> {
        (self.count > 0).then_some(self.max)
    }

    /// Whether [`max`](Self::max) was measured. If not, it is an estimate in the same bucket as the
    /// largest sample.
    #[must_use]
    pub fn max_exact(&self) -> bool {
        self.max_exact
    }

    /// Keeps of the values only what [`PERCENTILES`] need, to save memory.
    pub fn keep_percentiles(&mut self) {
        let origin = std::mem::replace(&mut self.origin, Origin::Counts);
        self.origin = match origin {
            Origin::Values(values) => {
                let error = values.error();
                let ranks = PERCENTILES.map(|p| rank(p, self.count));
                Origin::Percentiles(values.into_ranks(ranks), error)
            }
            other => other,
        };
    }

    /// Largest error of [`PERCENTILES`], relative to them: 0 if they are exact.
    #[must_use]
    pub const fn percentile_error(&self) -> f64 {
        match &self.origin {
            Origin::Counts => BUCKET_ERROR,
            Origin::Values(values) => values.error(),
            Origin::Percentiles(_, error) => *error,
        }
    }

    /// The value, in nanoseconds, that `p` percent of the samples do not exceed (nearest rank).
    ///
    /// If only counts are left, it is the middle of the bucket of that sample, and at most the maximum.
    /// If that sample is the largest one, or is in the last, open bucket, it is the maximum itself. `p`
    /// is clamped to 0 to 100. Returns `None` if `p` is not a number, or without samples.
    #[must_use]
    pub fn percentile(&self, p: f64) -> Option<u64> {
        if self.count == 0 || p.is_nan() {
            return None;
        }
        let rank = rank(p.clamp(0.0, 100.0), self.count);
        if rank == self.count && self.max_exact {
            return Some(self.max);
        }
        let settled = |all: &[u64; PERCENTILES.len()]| {
            let at = PERCENTILES.iter().position(|known| *known == p);
            at.map(|at| all[at])
        };
        let known = match &self.origin {
            Origin::Counts => None,
            Origin::Values(values) => Some(values.at_rank(rank)),
            Origin::Percentiles(all, _) => settled(all),
        };
        let known = known.map(|ns| ns.min(self.max));
        known.or_else(|| self.in_bucket(rank))
    }

    /// The middle of the bucket of this rank.
    fn in_bucket(&self, rank: u64) -> Option<u64> {
        let mut seen = 0_u64;
        let bucket = self.buckets.iter().position(|count| {
            seen = seen.saturating_add(*count);
            seen >= rank
        })?;
        let (low, high) = bounds(bucket);
        let middle = low + (high - 1 - low) / 2;
        Some(if bucket == LAST { self.max } else { middle.min(self.max) })
    }

    /// The buckets in use, lowest first: lower (inclusive) and upper (exclusive) end in nanoseconds
    /// as in [`bounds`], and the count.
    pub fn iter(&self) -> impl Iterator<Item = (u64, u64, u64)> {
        let used = self.buckets.iter().enumerate().filter(|(_, count)| **count > 0);
        used.map(|(bucket, &count)| {
            let (low, high) = bounds(bucket);
            (low, high, count)
        })
    }
}

fn total(buckets: &[u64; BUCKETS]) -> u64 {
    buckets.iter().fold(0, |sum, &count| sum.saturating_add(count))
}

#[cfg(test)]
#[path = "histogram_tests.rs"]
mod tests;

#[cfg(test)]
mod properties {
    use super::tests::{counted, of};
    use super::*;
    use hdrhistogram::Histogram as Oracle;
    use proptest::collection::vec;
    use proptest::prelude::*;

    /// Latencies with a uniform distribution of their exponent, then of their mantissa.
    fn log_uniform() -> impl Strategy<Value = u64> {
        (0_u32..36, any::<u64>()).prop_map(|(exp, bits)| (1 << exp) | (bits & ((1 << exp) - 1)))
    }

    fn close(ours: u64, theirs: u64) -> bool {
        ours.abs_diff(theirs) as f64 <= 0.07 * theirs as f64
    }

    fn agrees_with_hdrhistogram(samples: &[u64]) -> Result<(), TestCaseError> {
        let ours = counted(samples);
        let mut oracle = Oracle::<u64>::new_with_bounds(1, 1 << 37, 3).unwrap();
        samples.iter().for_each(|&value| oracle.record(value).unwrap());
        for (percent, quantile) in [(50.0, 0.5), (90.0, 0.9), (99.0, 0.99), (99.9, 0.999)] {
            let (got, want) =
                (ours.percentile(percent).unwrap(), oracle.value_at_quantile(quantile));
            prop_assert!(close(got, want), "p{}: {} but the oracle says {}", percent, got, want);
        }
        prop_assert_eq!(ours.count(), oracle.len());
        prop_assert_eq!(ours.max(), samples.iter().copied().max());
        Ok(())
    }

    proptest! {
        #[test]
        fn percentiles_of_uniform_samples_match_hdrhistogram(
            samples in vec(0_u64..1 << 36, 1..3000),
        ) {
            agrees_with_hdrhistogram(&samples)?;
        }

        #[test]
        fn percentiles_of_log_uniform_samples_match_hdrhistogram(
            samples in vec(log_uniform(), 1..3000),
        ) {
            agrees_with_hdrhistogram(&samples)?;
        }

        #[test]
        fn index_is_monotonic_and_its_bucket_holds_the_value(a: u64, b in log_uniform()) {
            prop_assert!(index(a.min(b)) <= index(a.max(b)));
            for value in [a, b] {
                let (low, high) = bounds(index(value));
                prop_assert!(low <= value && (value < high || value == u64::MAX));
            }
        }

        #[test]
        fn merge_does_not_depend_on_the_order(
            a in vec(log_uniform(), 0..50),
            b in vec(any::<u64>(), 0..50),
            c in vec(0_u64..20, 0..50),
        ) {
            // `a` has an estimated maximum
            let (a, b, c) = (of(&a).minus(&of(&a[..a.len() / 2])), of(&b), of(&c));
            let sum = |parts: [&Histogram; 3]| {
                let mut all = parts[0].clone();
                all.merge(parts[1]);
                all.merge(parts[2]);
                all
            };
            let mut right = b.clone();
            right.merge(&c);
            let mut nested = a.clone();
            nested.merge(&right);
            prop_assert_eq!(&sum([&a, &b, &c]), &nested);
            prop_assert_eq!(&sum([&c, &b, &a]), &nested);
        }

        #[test]
        fn minus_undoes_merge(a in vec(log_uniform(), 0..80), b in vec(log_uniform(), 0..80)) {
            let (first, second) = (of(&a), of(&b));
            let mut both = first.clone();
            both.merge(&second);
            let delta = both.minus(&first);
            prop_assert_eq!(&delta.buckets, &second.buckets);
            prop_assert_eq!((delta.count(), delta.sum()), (second.count(), second.sum()));
            if let (Some(estimate), Some(max)) = (delta.max(), second.max()) {
                prop_assert_eq!(index(estimate), index(max));
                prop_assert!(estimate >= max && (estimate == max || !delta.max_exact()));
            }
        }
    }
}
