// SPDX-License-Identifier: MIT OR Apache-2.0
//! The values of one row on one side, by slice, prepared for resampling.

use crate::model::histogram::Histogram;
use crate::stats::intervals::{Resamples, effective_number, variance_factor};
use std::array::from_fn;
use std::collections::BTreeMap;
use std::iter::repeat;

/// The quantiles of [`STATISTICS`], in the same order; the mean follows.
pub const QUANTILES: [f64; 3] = [0.5, 0.9, 0.99];
/// Names of the statistics.
pub const STATISTICS: [&str; 4] = ["p50", "p90", "p99", "mean"];

/// log2 of the number of buckets per power of two in slices.
const BITS: u32 = 7;
/// Largest width of a bucket, relative to its values.
pub const RESOLUTION: f64 = 1.0 / (1 << BITS) as f64;

/// The values of a slice: a recording has up to 64 for each row, so they are not exact.
pub const fn empty_slice() -> Histogram {
    Histogram::with_bits(BITS)
}

/// One number for each of [`STATISTICS`].
pub type Values = [f64; STATISTICS.len()];

/// The values of a row.
#[derive(Clone, Debug)]
pub struct Sample {
    recordings: usize,
    counts: Vec<u64>,
    sums: Vec<f64>,
    /// Lower and upper ends of the buckets in use.
    bounds: Vec<(f64, f64)>,
    /// Values in a bucket and those before it: a number per slice, bucket after bucket.
    below: Vec<u32>,
}

/// The weighted sum. A loop, because it is where the time goes, also without optimisation.
fn dot(weights: &[u32], values: &[u32]) -> u64 {
    let mut sum = 0;
    for (&weight, &value) in weights.iter().zip(values) {
        sum += u64::from(weight) * u64::from(value);
    }
    sum
}

impl Sample {
    /// The slices of a row in each recording, and the number of slices that each recording has.
    pub fn new(recordings: &[(&[Histogram], usize)]) -> Self {
        let empty = empty_slice();
        let padded = recordings
            .iter()
            .flat_map(|(slices, count)| slices.iter().chain(repeat(&empty)).take(*count));
        let slices: Vec<&Histogram> = padded.collect();
        let mut used: BTreeMap<(u64, u64), Vec<u32>> = BTreeMap::new();
        for (at, slice) in slices.iter().enumerate() {
            for bucket in slice.buckets(BITS) {
                let counts = used.entry((bucket.first, bucket.last));
                let counts = counts.or_insert_with(|| vec![0; slices.len()]);
                counts[at] = u32::try_from(bucket.count).unwrap_or(u32::MAX);
            }
        }
        let (mut ends, mut below) = (Vec::new(), Vec::new());
        let mut sums = vec![0_u32; slices.len()];
        for ((first, last), counts) in used {
            for (sum, count) in sums.iter_mut().zip(counts) {
                *sum = sum.saturating_add(count);
            }
            ends.push((first as f64, last as f64 + 1.0));
            below.extend(&sums);
        }
        Self {
            recordings: recordings.len(),
            counts: slices.iter().map(|h| h.count()).collect(),
            sums: slices.iter().map(|h| h.sum() as f64).collect(),
            bounds: ends,
            below,
        }
    }

    /// Number of values.
    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// Number of slices with values.
    pub fn slices(&self) -> usize {
        self.counts.iter().filter(|n| **n > 0).count()
    }

    /// A quantile of all values, interpolated in its bucket; 0 without values.
    pub fn quantile_of_all(&self, q: f64) -> f64 {
        match self.bounds.is_empty() {
            true => 0.0,
            false => self.quantile(q, self.count(), &vec![1; self.counts.len()], 0).0,
        }
    }

    /// Values in buckets up to this one.
    fn up_to(&self, bucket: usize, weights: &[u32]) -> u64 {
        let n = weights.len();
        dot(weights, &self.below[bucket * n..(bucket + 1) * n])
    }

    /// A quantile of the weighted slices. The search begins at the bucket `near`. Returns the value,
    /// interpolated in its bucket, and the bucket.
    fn quantile(&self, q: f64, total: u64, weights: &[u32], near: usize) -> (f64, usize) {
        let wanted = q * total as f64;
        let last = self.bounds.len() - 1;
        let enough = |bucket: usize| self.up_to(bucket, weights) as f64 >= wanted;
        // the first bucket with enough values is in low..=high
        let (mut low, mut high, mut step) = (0, last, 1);
        if enough(near) {
            high = near;
            while high > 0 {
                let at = high.saturating_sub(step);
                if !enough(at) {
                    low = at + 1;
                    break;
                }
                (high, step) = (at, step * 2);
            }
        } else {
            low = near + 1;
            while low + step <= last {
                let at = low + step - 1;
                if enough(at) {
                    high = at;
                    break;
                }
                (low, step) = (at + 1, step * 2);
            }
        }
        while low < high {
            let middle = usize::midpoint(low, high);
            if enough(middle) {
                high = middle;
            } else {
                low = middle + 1;
            }
        }
        let before = if low == 0 { 0 } else { self.up_to(low - 1, weights) } as f64;
        let inside = self.up_to(low, weights) as f64 - before;
        let (from, to) = self.bounds[low];
        let part = ((wanted - before) / inside.max(1.0)).clamp(0.0, 1.0);
        (from + (to - from) * part, low)
    }

    /// The statistics of the weighted slices, and the buckets of the quantiles. `None` without values.
    fn weighted(
        &self,
        weights: &[u32],
        near: [usize; QUANTILES.len()],
    ) -> Option<(Values, [usize; QUANTILES.len()])> {
        let total: u64 = (weights.iter().zip(&self.counts)).map(|(&w, &n)| u64::from(w) * n).sum();
        if total == 0 {
            return None;
        }
        let (mut values, mut buckets) = ([0.0; STATISTICS.len()], near);
        for (n, q) in QUANTILES.into_iter().enumerate() {
            (values[n], buckets[n]) = self.quantile(q, total, weights, near[n]);
        }
        let sums = weights.iter().zip(&self.sums);
        let sum: f64 = sums.map(|(&w, &sum)| f64::from(w) * sum).sum();
        values[QUANTILES.len()] = sum / total as f64;
        Some((values, buckets))
    }

    /// The statistics of all values; zeroes without values.
    pub fn values(&self) -> Values {
        self.all().0
    }

    fn all(&self) -> (Values, [usize; QUANTILES.len()]) {
        let ones = vec![1; self.counts.len()];
        self.weighted(&ones, <_>::default()).unwrap_or_default()
    }

    /// The logarithms of the statistics of these resamples.
    fn logs(&self, resamples: &[Vec<u32>]) -> Vec<Values> {
        let (all, near) = self.all();
        let of_one = |weights: &Vec<u32>| {
            // a resample without values gets the statistics of all values
            let values = self.weighted(weights, near).map_or(all, |(v, _)| v);
            values.map(|v| v.max(1.0).ln())
        };
        resamples.iter().map(of_one).collect()
    }

    /// What each slice adds to the deviation of a statistic: zero on average.
    fn influence(&self, statistic: usize) -> Vec<f64> {
        let (values, buckets) = self.all();
        let n = self.counts.len();
        let counts = self.counts.iter().map(|&n| n as f64);
        match buckets.get(statistic) {
            Some(bucket) => {
                let below = &self.below[bucket * n..(bucket + 1) * n];
                let share = below.iter().map(|&n| f64::from(n)).sum::<f64>();
                let share = share / self.count() as f64;
                let pairs = below.iter().zip(counts);
                pairs.map(|(&b, n)| f64::from(b) - share * n).collect()
            }
            None => {
                let pairs = self.sums.iter().zip(counts);
                pairs.map(|(s, n)| s - values[statistic] * n).collect()
            }
        }
    }

    /// The spread of the statistics over these resamples.
    pub fn spread(&self, resamples: &Resamples) -> Spread {
        let spread = Spread {
            within: self.logs(&resamples.within),
            between: self.logs(&resamples.between),
            influence: from_fn(|n| self.influence(n)),
            slices: self.slices(),
            recordings: self.recordings,
        };
        spread.scaled()
    }
}

/// Most slices of a recording. A long one has at least half as many.
const MAX_SLICES: usize = 64;
/// Length of the slices of a short recording, in nanoseconds. Shorter slices would not be independent
/// of their neighbours.
const MIN_SLICE_NS: u64 = 250_000_000;

/// The slices of a recording, by row.
#[derive(Clone, Debug)]
pub struct Slices<K> {
    width_ns: u64,
    origin_ns: Option<u64>,
    count: usize,
    rows: BTreeMap<K, Vec<Histogram>>,
}

impl<K: Ord + Copy> Default for Slices<K> {
    fn default() -> Self {
        Self::new()
    }
}

impl<K: Ord + Copy> Slices<K> {
    /// No slices yet.
    pub const fn new() -> Self {
        Self { width_ns: MIN_SLICE_NS, origin_ns: None, count: 0, rows: BTreeMap::new() }
    }

    /// Makes slices up to a time. The first time begins the first slice. Returns the number of its
    /// slice.
    pub fn reach(&mut self, at_ns: u64) -> usize {
        let origin = *self.origin_ns.get_or_insert(at_ns);
        // an event may be slightly out of order
        let after = at_ns.saturating_sub(origin);
        while after / self.width_ns >= MAX_SLICES as u64 {
            self.widen();
        }
        let at = (after / self.width_ns) as usize;
        self.count = self.count.max(at + 1);
        at
    }

    /// Counts a value of this row, at a time.
    pub fn record(&mut self, row: K, at_ns: u64, value: u64) {
        let at = self.reach(at_ns);
        let slices = self.rows.entry(row).or_default();
        if slices.len() <= at {
            slices.resize_with(at + 1, empty_slice);
        }
        slices[at].record(value);
    }

    /// Makes one slice of each two.
    fn widen(&mut self) {
        self.width_ns = self.width_ns.saturating_mul(2);
        self.count = self.count.div_ceil(2);
        for slices in self.rows.values_mut() {
            let pairs = slices.chunks(2).map(|pair| {
                let mut both = pair[0].clone();
                pair[1..].iter().for_each(|second| both.merge(second));
                both
            });
            *slices = pairs.collect();
        }
    }

    /// Length of the slices, in nanoseconds.
    pub const fn width_ns(&self) -> u64 {
        self.width_ns
    }

    /// Number of slices. A row may have no values in some of them.
    pub const fn count(&self) -> usize {
        self.count
    }

    /// The rows.
    pub fn rows(&self) -> impl Iterator<Item = K> {
        self.rows.keys().copied()
    }

    /// The histograms of a row, as far as it has any.
    pub fn of(&self, row: &K) -> &[Histogram] {
        self.rows.get(row).map_or(&[], Vec::as_slice)
    }
}

/// Part of a variance, and its degrees of freedom.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Variance {
    /// The variance of a logarithm.
    pub value: f64,
    /// Degrees of freedom.
    pub degrees: f64,
}

/// Logarithms of the statistics over resamples.
#[derive(Clone, Debug, PartialEq)]
pub struct Spread {
    /// Of resamples of slices within their recordings.
    pub within: Vec<Values>,
    /// Of resamples of whole recordings.
    pub between: Vec<Values>,
    /// By statistic: the part of each slice in the deviation of the logarithm.
    pub influence: [Vec<f64>; STATISTICS.len()],
    /// Number of slices with values.
    pub slices: usize,
    /// Number of recordings.
    pub recordings: usize,
}

/// The variance of a statistic.
fn variance(logs: &[Values], statistic: usize) -> f64 {
    let n = logs.len().max(2) as f64;
    let mean = logs.iter().map(|l| l[statistic]).sum::<f64>() / n;
    let squares = logs.iter().map(|l| (l[statistic] - mean).powi(2));
    squares.sum::<f64>() / (n - 1.0)
}

fn differences(from: &[Values], what: &[Values]) -> Vec<Values> {
    let pairs = from.iter().zip(what);
    pairs.map(|(a, b)| [0, 1, 2, 3].map(|n| a[n] - b[n])).collect()
}

impl Spread {
    /// Scales the influences: the sum of their squares becomes the variance.
    #[must_use]
    pub fn scaled(mut self) -> Self {
        for (n, influence) in self.influence.iter_mut().enumerate() {
            let squares: f64 = influence.iter().map(|u| u * u).sum();
            let scale = (variance(&self.within, n) / squares.max(f64::MIN_POSITIVE)).sqrt();
            influence.iter_mut().for_each(|u| *u *= scale);
        }
        self
    }

    /// The spread of the difference to another sample from the same resamples. What both have in
    /// common, such as a busy machine, cancels out.
    #[must_use]
    pub fn minus(&self, other: &Self) -> Self {
        let influence = [0, 1, 2, 3].map(|n| {
            let pairs = self.influence[n].iter().zip(&other.influence[n]);
            pairs.map(|(a, b)| a - b).collect()
        });
        Self {
            within: differences(&self.within, &other.within),
            between: differences(&self.between, &other.between),
            influence,
            slices: self.slices.min(other.slices),
            recordings: self.recordings,
        }
    }

    /// The variances of a statistic: within recordings, and between them if there are several.
    pub fn variances(&self, statistic: usize) -> Vec<Variance> {
        let (slices, recordings) = (self.slices as f64, self.recordings as f64);
        let influence = &self.influence[statistic];
        let factor = variance_factor(influence);
        let degrees = (slices / factor - recordings).min(1.5 * effective_number(influence));
        // a resample varies less than the whole: by (n - 1) / n
        let free = (slices - recordings).max(1.0);
        let mut parts = vec![Variance {
            value: variance(&self.within, statistic) * factor * slices / free,
            degrees: degrees.max(1.0),
        }];
        if self.recordings > 1 {
            let degrees = recordings - 1.0;
            let value = variance(&self.between, statistic) * recordings / degrees;
            parts.push(Variance { value, degrees });
        }
        parts
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::collection::vec;
    use proptest::prelude::*;

    fn sample(slices: &Slices<()>) -> Sample {
        Sample::new(&[(slices.of(&()), slices.count())])
    }

    proptest! {
        #[test]
        fn quantiles_match_the_values(
            mut values in vec(1_u64..1 << 36, 1..400),
            near in 0_usize..400,
        ) {
            let mut slices = Slices::new();
            for (n, &value) in values.iter().enumerate() {
                slices.record((), n as u64 * 50_000_000, value);
            }
            values.sort_unstable();
            let sample = sample(&slices);
            let found = sample.values();
            for (q, got) in QUANTILES.into_iter().zip(found) {
                let rank = (q * values.len() as f64).ceil() as usize;
                let want = values[rank.max(1) - 1] as f64;
                prop_assert!((got - want).abs() <= 1.0 + want * 0.008, "{}: {} {}", q, got, want);
            }
            let mean = values.iter().sum::<u64>() as f64 / values.len() as f64;
            prop_assert!((found[3] - mean).abs() <= mean * 1e-9);
            // wherever the search begins
            let ones = vec![1; slices.count()];
            let near = near % sample.bounds.len();
            let again = sample.weighted(&ones, [near; 3]).unwrap().0;
            prop_assert_eq!(found, again);
        }
    }

    #[test]
    fn a_weight_is_a_number_of_copies() {
        let mut slices = Slices::new();
        for n in 0..4000_u64 {
            slices.record((), n * 1_000_000, 1000 + n * n % 977);
        }
        let mut doubled = slices.of(&()).to_vec();
        doubled.push(doubled[2].clone());
        let mut weights = vec![1; slices.count()];
        weights[2] = 2;
        let weighted = sample(&slices).weighted(&weights, [0; 3]).unwrap().0;
        let copied = Sample::new(&[(&doubled, doubled.len())]).values();
        assert_eq!(weighted, copied);
    }

    #[test]
    fn slices_grow_with_the_recording_and_keep_every_value() {
        let mut slices = Slices::new();
        let step = 100_000_000;
        for n in 0..10_000_u64 {
            slices.record(n % 3, 5_000 + n * step, n);
        }
        // 1000 s
        assert_eq!((slices.width_ns, slices.count()), (16_000_000_000, 63));
        for row in 0..3 {
            let sum: u128 = slices.of(&row).iter().map(Histogram::sum).sum();
            let want: u64 = (0..10_000).filter(|n| n % 3 == row).sum();
            assert_eq!(sum, u128::from(want));
        }
        assert_eq!(slices.of(&0)[1].count() + slices.of(&1)[1].count(), 107);
        // one event at a very late time ends the loop
        let mut slices = Slices::new();
        slices.record((), 0, 1);
        slices.record((), u64::MAX, 2);
        assert!(slices.count() <= MAX_SLICES);
        assert_eq!(slices.of(&())[0].count(), 1);
    }
}
