// SPDX-License-Identifier: MIT OR Apache-2.0
//! Log-linear latency histogram, with the same buckets as the histograms in BPF maps.
//!
//! [`index`] must give the same bucket as the BPF program for every value: the counts of the BPF
//! maps are used without conversion. Each power of two is divided into eight equal parts, so a
//! percentile is at most 1/16 (6.25 %) away from the sample.
//! Pure: no I/O, no clock, no BPF. All values are nanoseconds.

use std::cmp::Ordering;

/// log2 of the number of buckets in each power of two.
pub const SUB_BITS: u32 = 3;
/// Exponent of the last power of two with separate buckets. Values from 2^36 ns (69 s) up share the
/// last bucket.
pub const MAX_EXP: u32 = 35;
/// Number of buckets.
pub const BUCKETS: usize = 272;

const SUB: u64 = 1 << SUB_BITS;
const LAST: usize = BUCKETS - 1;
const _: () = assert!(BUCKETS == ((MAX_EXP - SUB_BITS + 2) << SUB_BITS) as usize);

/// The bucket that counts a value of `value_ns` nanoseconds.
#[must_use]
pub const fn index(value_ns: u64) -> usize {
    if value_ns < SUB {
        return value_ns as usize;
    }
    let exp = value_ns.ilog2();
    if exp > MAX_EXP {
        return LAST;
    }
    let group = (exp - SUB_BITS + 1) as usize;
    (group << SUB_BITS) + ((value_ns >> (exp - SUB_BITS)) & (SUB - 1)) as usize
}

/// The range of a bucket in nanoseconds: lower end (inclusive) and upper end (exclusive).
///
/// The last bucket has no upper end: its second number is `u64::MAX`, and it counts that value too.
/// An `index` beyond the last bucket is treated as the last.
#[must_use]
pub fn bounds(index: usize) -> (u64, u64) {
    let bucket = index.min(LAST);
    let high = if bucket == LAST {
        u64::MAX
    } else {
        low(bucket + 1)
    };
    (low(bucket), high)
}

/// Lower end of a bucket, in nanoseconds.
fn low(bucket: usize) -> u64 {
    let (group, part) = (bucket >> SUB_BITS, bucket as u64 & (SUB - 1));
    if group == 0 {
        part
    } else {
        (SUB + part) << (group - 1)
    }
}

/// Counts of latencies by bucket, with their sum and maximum.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Histogram {
    buckets: Box<[u64; BUCKETS]>,
    count: u64,
    sum: u128,
    max: u64,
    max_exact: bool,
}

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
        let mut hist = Self {
            buckets,
            sum: u128::from(sum_ns),
            ..Self::new()
        };
        hist.count = total(&hist.buckets);
        let Some(top) = hist.top() else {
            return Some(hist);
        };
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
    }

    /// Adds the samples of `other`. Counts saturate.
    pub fn merge(&mut self, other: &Self) {
        for (mine, theirs) in self.buckets.iter_mut().zip(other.buckets.iter()) {
            *mine = mine.saturating_add(*theirs);
        }
        self.count = total(&self.buckets);
        self.sum = self.sum.saturating_add(other.sum);
        self.raise_max(other.max, other.max_exact);
    }

    /// An estimate stays one until a larger bucket is in use, whatever the order of merging.
    fn raise_max(&mut self, max: u64, exact: bool) {
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

    /// The value, in nanoseconds, that `p` percent of the samples do not exceed (nearest rank).
    ///
    /// It is the middle of the bucket of that sample, and at most the maximum. If that sample is
    /// the largest one, or is in the last, open bucket, it is the maximum itself. `p` is clamped to
    /// 0 to 100. Returns `None` if `p` is not a number, or without samples.
    #[must_use]
    pub fn percentile(&self, p: f64) -> Option<u64> {
        if self.count == 0 || p.is_nan() {
            return None;
        }
        let rank = self.rank(p.clamp(0.0, 100.0));
        if rank == self.count && self.max_exact {
            return Some(self.max);
        }
        let mut seen = 0_u64;
        let bucket = self.buckets.iter().position(|count| {
            seen = seen.saturating_add(*count);
            seen >= rank
        })?;
        let (low, high) = bounds(bucket);
        let middle = low + (high - 1 - low) / 2;
        Some(if bucket == LAST {
            self.max
        } else {
            middle.min(self.max)
        })
    }

    /// ceil(p / 100 * count), at least 1 and at most the count.
    fn rank(&self, p: f64) -> u64 {
        // Slightly less before rounding up: 99.9 has no exact binary representation, and the
        // product must not be one rank too high if the exact product is an integer.
        let exact = p * self.count as f64 / 100.0 * (1.0 - 4.0 * f64::EPSILON);
        (exact.ceil() as u64).clamp(1, self.count)
    }

    /// The buckets in use, lowest first: lower (inclusive) and upper (exclusive) end in nanoseconds
    /// as in [`bounds`], and the count.
    pub fn iter(&self) -> impl Iterator<Item = (u64, u64, u64)> {
        let used = self
            .buckets
            .iter()
            .enumerate()
            .filter(|(_, count)| **count > 0);
        used.map(|(bucket, &count)| {
            let (low, high) = bounds(bucket);
            (low, high, count)
        })
    }
}

fn total(buckets: &[u64; BUCKETS]) -> u64 {
    buckets
        .iter()
        .fold(0, |sum, &count| sum.saturating_add(count))
}

#[cfg(test)]
mod tests {
    use super::*;
    use hdrhistogram::Histogram as Oracle;
    use proptest::collection::vec;
    use proptest::prelude::*;

    fn of(samples: &[u64]) -> Histogram {
        let mut hist = Histogram::new();
        samples.iter().for_each(|&value| hist.record(value));
        hist
    }

    /// Latencies with a uniform distribution of their exponent, then of their mantissa.
    fn log_uniform() -> impl Strategy<Value = u64> {
        (0_u32..36, any::<u64>()).prop_map(|(exp, bits)| (1 << exp) | (bits & ((1 << exp) - 1)))
    }

    fn close(ours: u64, theirs: u64) -> bool {
        ours.abs_diff(theirs) as f64 <= 0.07 * theirs as f64
    }

    fn agrees_with_hdrhistogram(samples: &[u64]) -> Result<(), TestCaseError> {
        let ours = of(samples);
        let mut oracle = Oracle::<u64>::new_with_bounds(1, 1 << 37, 3).unwrap();
        samples
            .iter()
            .for_each(|&value| oracle.record(value).unwrap());
        for (percent, quantile) in [(50.0, 0.5), (90.0, 0.9), (99.0, 0.99), (99.9, 0.999)] {
            let (got, want) = (
                ours.percentile(percent).unwrap(),
                oracle.value_at_quantile(quantile),
            );
            prop_assert!(
                close(got, want),
                "p{}: {} but the oracle says {}",
                percent,
                got,
                want
            );
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

    #[test]
    fn index_undoes_bounds_and_neighbours_touch() {
        for bucket in 0..BUCKETS {
            let (low, high) = bounds(bucket);
            assert_eq!((index(low), index(high - 1)), (bucket, bucket));
            assert!(bucket == LAST || bounds(bucket + 1).0 == high);
        }
        assert_eq!((index(0), index(u64::MAX)), (0, LAST));
        assert_eq!((index(7), index(8), index(15), index(16)), (7, 8, 15, 16));
        assert_eq!((index((1 << 36) - 1), index(1 << 36)), (LAST, LAST));
        assert_eq!(bounds(LAST), (15 << 32, u64::MAX));
        assert_eq!(bounds(BUCKETS), bounds(LAST));
    }

    #[test]
    fn an_empty_histogram_has_no_statistics() {
        let empty = Histogram::from_parts(&[0; BUCKETS], 0, 0).unwrap();
        assert_eq!(empty, Histogram::default());
        assert_eq!(
            (empty.max(), empty.mean(), empty.percentile(50.0)),
            (None, None, None)
        );
        assert_eq!(empty.iter().count(), 0);
    }

    #[test]
    fn a_map_of_another_size_is_refused() {
        let sized = |n: usize| Histogram::from_parts(&vec![0; n], 0, 0);
        assert_eq!((sized(BUCKETS - 1), sized(BUCKETS + 1)), (None, None));
    }

    #[test]
    fn parts_read_from_a_map_equal_the_samples_recorded() {
        let hist = of(&[3, 900, 1000, 5_000_000, 1 << 40]);
        let sum = u64::try_from(hist.sum()).unwrap();
        assert_eq!(
            Histogram::from_parts(&hist.buckets[..], sum, 1 << 40),
            Some(hist)
        );
    }

    #[test]
    fn a_maximum_that_lags_behind_its_bucket_is_estimated() {
        let torn = |value: u64| Histogram::from_parts(&of(&[value]).buckets[..], 0, 1).unwrap();
        assert_eq!(
            (torn(1000).max(), torn(1000).max_exact()),
            (Some(1023), false)
        );
        assert_eq!((torn(9).max(), torn(9).max_exact()), (Some(9), true));
        assert_eq!(
            (torn(1 << 50).max(), torn(1 << 50).max_exact()),
            (Some(15 << 32), false)
        );
    }

    #[test]
    fn a_delta_knows_its_maximum_only_when_it_is_a_new_record() {
        let earlier = of(&[1000]);
        let higher = of(&[1000, 2000]).minus(&earlier);
        assert_eq!((higher.max(), higher.max_exact()), (Some(2000), true));
        let lower = of(&[1000, 500]).minus(&earlier);
        assert_eq!((lower.max(), lower.max_exact()), (Some(511), false));
        let capped = of(&[1000, 990]).minus(&earlier);
        assert_eq!((capped.max(), capped.max_exact()), (Some(1000), false));
        let none = earlier.minus(&earlier);
        assert_eq!(none, Histogram::new());
        assert_eq!(
            Histogram::new().minus(&earlier),
            none,
            "a reset counter gives nothing"
        );
    }

    #[test]
    fn an_estimated_maximum_stays_an_estimate_when_an_equal_one_is_merged() {
        let (mut exact, mut guess) = (of(&[1000]), of(&[1000, 990]).minus(&of(&[1000])));
        let other = exact.clone();
        exact.merge(&guess);
        guess.merge(&other);
        assert_eq!((exact.max_exact(), exact), (false, guess));
    }

    #[test]
    fn a_shared_maximum_is_an_estimate_until_a_larger_bucket_is_in_use() {
        let shared = of(&[1, 970]).with_shared_max();
        for (other, exact) in [(500, false), (960, false), (1010, false), (1024, true)] {
            let (mut a, mut b) = (shared.clone(), of(&[other]));
            b.merge(&a);
            a.record(other);
            assert_eq!((a.max_exact(), a.max()), (exact, Some(other.max(970))));
            assert_eq!((a, of(&[9]).with_shared_max().max_exact()), (b, true));
        }
    }

    #[test]
    fn percentiles_go_by_nearest_rank() {
        let hist = of(&[1, 2, 3, 4]);
        let at = |p: f64| hist.percentile(p);
        assert_eq!(
            (at(0.0), at(25.0), at(25.1), at(50.0)),
            (Some(1), Some(1), Some(2), Some(2))
        );
        assert_eq!(
            (at(75.1), at(100.0), at(1e9), at(f64::NAN)),
            (Some(4), Some(4), Some(4), None)
        );
        // 99.9 % of 1000 is the 999th sample, independent of the rounding of the product.
        let mut slow_one = of(&[5; 999]);
        slow_one.record(1 << 30);
        assert_eq!(slow_one.percentile(99.9), Some(5));
        assert_eq!(of(&[1000, 1000, 1 << 20]).percentile(50.0), Some(991));
        assert_eq!(of(&[70 << 30, 80 << 30]).percentile(50.0), Some(80 << 30));
    }

    #[test]
    fn buckets_in_use_are_listed_in_order() {
        let listed: Vec<_> = of(&[1000, 2, 1001, u64::MAX]).iter().collect();
        assert_eq!(listed, [(2, 3, 1), (960, 1024, 2), (15 << 32, u64::MAX, 1)]);
    }
}
