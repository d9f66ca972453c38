// SPDX-License-Identifier: MIT OR Apache-2.0
//! The histogram of all reports: log-linear buckets, with the sum and the maximum of the values.
//!
//! Every power of two is divided into 2^`bits` equal buckets. The width belongs to the histogram:
//! BPF maps have eight buckets per power of two, so a percentile read from one is at most 1/16
//! (6.25 %) off. A histogram of a recording keeps its values, and gets narrow buckets (0.05 %) once
//! there are too many.
//!
//! Pure: no I/O, no clock, no BPF. Latencies are nanoseconds.

use std::collections::BTreeMap;

use serde::Serialize;

/// log2 of the number of buckets per power of two in BPF maps and in reports.
pub const SUB_BITS: u32 = 3;
/// Exponent of the last power of two with separate buckets in BPF maps. Values from 2^36 ns (69 s) up
/// share the last bucket.
pub const MAX_EXP: u32 = 35;
/// Number of buckets in BPF maps.
pub const BUCKETS: usize = 272;

/// Width of an exact histogram: every value has its own bucket.
const EXACT: u32 = 63;
/// Width of a histogram that had too many values to stay exact.
const NARROW: u32 = 10;
/// Most values of an exact histogram: 512 KiB.
pub const FEW: usize = 1 << 16;

const LAST: usize = BUCKETS - 1;
const _: () = assert!(BUCKETS == ((MAX_EXP - SUB_BITS + 2) << SUB_BITS) as usize);

/// The bucket of a BPF map that counts this value. The BPF program must find the same one.
#[must_use]
pub const fn index(value: u64) -> usize {
    if value < 1 << SUB_BITS {
        return value as usize;
    }
    let exp = value.ilog2();
    let part = (value >> (exp - SUB_BITS)) & ((1 << SUB_BITS) - 1);
    let bucket = (((exp - SUB_BITS + 1) as usize) << SUB_BITS) + part as usize;
    if bucket < LAST { bucket } else { LAST }
}

/// The range of a bucket of a BPF map: lower end (inclusive) and upper end (exclusive).
///
/// The last bucket has no upper end: its second number is `u64::MAX`, and it counts that value too.
/// An `index` beyond the last bucket is treated as the last.
#[must_use]
pub const fn bounds(index: usize) -> (u64, u64) {
    if index >= LAST { (low(LAST), u64::MAX) } else { (low(index), low(index + 1)) }
}

const fn low(bucket: usize) -> u64 {
    let (group, part) = (bucket >> SUB_BITS, bucket as u64 & ((1 << SUB_BITS) - 1));
    if group == 0 { part } else { ((1 << SUB_BITS) + part) << (group - 1) }
}

/// The lowest value of the bucket of `value`.
const fn first_of(value: u64, bits: u32) -> u64 {
    if value < 1 << bits { value } else { value & (u64::MAX << (value.ilog2() - bits)) }
}

/// The highest value of the bucket that begins at `low`.
const fn last_of(low: u64, bits: u32) -> u64 {
    if low < 1 << bits { low } else { low | ((1 << (low.ilog2() - bits)) - 1) }
}

/// ceil(percent / 100 * count), at least 1 and at most the count.
fn rank(percent: f64, count: u64) -> u64 {
    // Slightly less before rounding up: 99.9 has no exact binary representation, and the
    // product must not be one rank too high if the exact product is an integer.
    let exact = percent * count as f64 / 100.0 * (1.0 - 4.0 * f64::EPSILON);
    (exact.ceil() as u64).clamp(1, count.max(1))
}

/// A bucket in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Bucket {
    /// Its lowest value.
    pub first: u64,
    /// Its highest value.
    pub last: u64,
    /// Number of samples in it.
    pub count: u64,
}

/// Counts of values by bucket, with their sum and maximum.
#[derive(Clone, Debug)]
pub struct Histogram {
    /// log2 of the number of buckets per power of two.
    bits: u32,
    /// The values of an exact histogram, in any order: adding one to a tree costs ten times as much.
    values: Vec<u64>,
    /// Otherwise the counts by the lowest value of the bucket; no count is 0.
    counts: BTreeMap<u64, u64>,
    count: u64,
    sum: u128,
    max: u64,
    max_exact: bool,
}

impl PartialEq for Histogram {
    fn eq(&self, other: &Self) -> bool {
        let numbers = |h: &Self| (h.bits, h.count, h.sum, h.max, h.max_exact);
        numbers(self) == numbers(other) && self.sorted() == other.sorted()
    }
}

impl Eq for Histogram {}

impl Default for Histogram {
    fn default() -> Self {
        Self::new()
    }
}

impl Histogram {
    /// An empty histogram, exact as long as there are few values.
    #[must_use]
    pub const fn new() -> Self {
        Self::with_bits(EXACT)
    }

    /// An empty histogram with 2^`bits` buckets per power of two.
    #[must_use]
    pub const fn with_bits(bits: u32) -> Self {
        Self {
            bits,
            values: Vec::new(),
            counts: BTreeMap::new(),
            count: 0,
            sum: 0,
            max: 0,
            max_exact: true,
        }
    }

    /// Builds a histogram from a BPF map: counts by bucket, sum and maximum.
    ///
    /// The kernel updates the three one after the other, so a copy made in between may hold a
    /// sample without its maximum. The maximum is then estimated from the highest bucket in use,
    /// and [`max_exact`](Self::max_exact) is false.
    ///
    /// Returns `None` if there are not [`BUCKETS`] counts.
    #[must_use]
    pub fn from_parts(buckets: &[u64], sum_ns: u64, max_ns: u64) -> Option<Self> {
        if buckets.len() != BUCKETS {
            return None;
        }
        let used = buckets.iter().enumerate().filter(|(_, count)| **count > 0);
        let counts: BTreeMap<u64, u64> = used.map(|(at, count)| (low(at), *count)).collect();
        let Some((&top, _)) = counts.last_key_value() else {
            return Some(Self { sum: sum_ns.into(), ..Self::new() });
        };
        let mut hist =
            Self { counts, sum: sum_ns.into(), max: max_ns, ..Self::with_bits(SUB_BITS) };
        hist.recount();
        if max_ns < top {
            // the open bucket has no upper end: its lower end is a safe value
            let end = hist.end(top);
            (hist.max, hist.max_exact) =
                if end == u64::MAX { (top, false) } else { (end, end == top) };
        }
        Some(hist)
    }

    /// Counts one value.
    #[inline]
    pub fn record(&mut self, value: u64) {
        self.record_n(value, 1);
    }

    /// Counts a value `n` times.
    #[inline]
    pub fn record_n(&mut self, value: u64, n: u64) {
        if n == 0 {
            return;
        }
        self.add(value, n);
        self.count += n;
        self.sum += u128::from(value) * u128::from(n);
        self.raise_max(value, true);
    }

    #[inline]
    fn add(&mut self, value: u64, n: u64) {
        if self.bits == EXACT && n <= (FEW - self.values.len()) as u64 {
            (0..n).for_each(|_| self.values.push(value));
        } else {
            self.add_to_bucket(value, n);
        }
    }

    #[inline(never)]
    fn add_to_bucket(&mut self, value: u64, n: u64) {
        self.widen(NARROW);
        let count = self.counts.entry(first_of(value, self.bits)).or_insert(0);
        *count = count.saturating_add(n);
    }

    /// Makes the buckets at least this wide.
    fn widen(&mut self, bits: u32) {
        if bits >= self.bits {
            return;
        }
        let before = self.sorted();
        self.bits = bits;
        (self.values, self.counts) = (Vec::new(), BTreeMap::new());
        for (value, n) in before {
            self.add(value, n);
        }
    }

    /// The lowest value of each bucket in use and its count, in ascending order.
    fn sorted(&self) -> Vec<(u64, u64)> {
        if self.bits < EXACT {
            return self.counts.iter().map(|(&value, &n)| (value, n)).collect();
        }
        let mut values = self.values.clone();
        values.sort_unstable();
        values.chunk_by(u64::eq).map(|same| (same[0], same.len() as u64)).collect()
    }

    fn recount(&mut self) {
        let counts = self.counts.values();
        self.count = counts.fold(self.values.len() as u64, |sum, &n| sum.saturating_add(n));
    }

    /// Adds the samples of `other`. The wider buckets win. Counts saturate.
    pub fn merge(&mut self, other: &Self) {
        if other.count == 0 {
            return;
        }
        self.widen(other.bits);
        if self.bits == EXACT && self.values.len() + other.values.len() <= FEW {
            self.values.extend_from_slice(&other.values);
        } else {
            other.values.iter().for_each(|&value| self.add(value, 1));
        }
        for (&value, &n) in &other.counts {
            self.add(value, n);
        }
        self.recount();
        self.sum = self.sum.saturating_add(other.sum);
        self.raise_max(other.max, other.max_exact);
    }

    /// An estimate stays one until a larger bucket of reports is in use, whatever the order of
    /// merging.
    fn raise_max(&mut self, max: u64, exact: bool) {
        if exact && max <= self.max {
            return;
        }
        match index(max).cmp(&index(self.max)) {
            std::cmp::Ordering::Less => return,
            std::cmp::Ordering::Equal => self.max_exact &= exact,
            std::cmp::Ordering::Greater => self.max_exact = exact,
        }
        self.max = self.max.max(max);
    }

    /// Several CPUs added to this histogram. If two raise the maximum at once, the smaller value may
    /// win: the maximum is an estimate, unless there is only one sample.
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
        let mut later = self.clone();
        if earlier.count > 0 {
            later.widen(earlier.bits);
        }
        let mut counts: BTreeMap<u64, u64> = later.sorted().into_iter().collect();
        for (value, n) in earlier.sorted() {
            if let Some(count) = counts.get_mut(&first_of(value, later.bits)) {
                *count = count.saturating_sub(n);
            }
        }
        counts.retain(|_, count| *count > 0);
        let top = counts.last_key_value().map(|(&top, _)| top);
        let mut delta = Self::with_bits(later.bits);
        counts.into_iter().for_each(|(value, n)| delta.add(value, n));
        delta.recount();
        delta.sum = self.sum.saturating_sub(earlier.sum);
        match top {
            None => Self { sum: delta.sum, ..Self::new() },
            Some(top) if self.max <= earlier.max => {
                let end = delta.end(top);
                Self { max: self.max.min(end), max_exact: end == top, ..delta }
            }
            Some(_) => Self { max: self.max, max_exact: self.max_exact, ..delta },
        }
    }

    /// The highest value of a bucket. The last one of a BPF map has no limit.
    fn end(&self, first: u64) -> u64 {
        let is_open = self.bits == SUB_BITS && first == low(LAST);
        if is_open { u64::MAX } else { last_of(first, self.bits) }
    }

    /// Number of samples.
    #[must_use]
    pub const fn count(&self) -> u64 {
        self.count
    }

    /// Sum of all samples.
    #[must_use]
    pub const fn sum(&self) -> u128 {
        self.sum
    }

    /// Mean of all samples; `None` if there are none.
    #[must_use]
    pub fn mean(&self) -> Option<f64> {
        (self.count > 0).then(|| self.sum as f64 / self.count as f64)
    }

    /// The largest sample (see [`max_exact`](Self::max_exact)); `None` if there are none.
    #[must_use]
    pub fn max(&self) -> Option<u64> {
        (self.count > 0).then_some(self.max)
    }

    /// Whether [`max`](Self::max) was measured. If not, it is an estimate in the same bucket as the
    /// largest sample.
    #[must_use]
    pub const fn max_exact(&self) -> bool {
        self.max_exact
    }

    /// Largest error of a percentile, relative to it: 0 if all are exact.
    #[must_use]
    pub fn percentile_error(&self) -> f64 {
        if self.bits == EXACT { 0.0 } else { 0.5_f64.powi(self.bits as i32 + 1) }
    }

    /// The value that `p` percent of the samples do not exceed (nearest rank): the middle of the
    /// bucket of that sample, or the maximum itself if that sample is the largest one. `p` is clamped
    /// to 0 to 100. Returns `None` if `p` is not a number, or without samples.
    #[must_use]
    pub fn percentile(&self, p: f64) -> Option<u64> {
        if self.count == 0 || p.is_nan() {
            return None;
        }
        let rank = rank(p.clamp(0.0, 100.0), self.count);
        if rank == self.count && self.max_exact {
            return Some(self.max);
        }
        if self.bits == EXACT {
            let mut values = self.values.clone();
            return Some(*values.select_nth_unstable(rank as usize - 1).1);
        }
        let mut seen = 0_u64;
        let found = self.buckets(self.bits).find(|bucket| {
            seen = seen.saturating_add(bucket.count);
            seen >= rank
        })?;
        Some((found.first + (found.last - found.first) / 2).min(self.max))
    }

    /// The buckets in use, lowest first, with at most 2^`bits` buckets per power of two.
    /// The last bucket of a BPF map ends at the maximum.
    pub fn buckets(&self, bits: u32) -> impl Iterator<Item = Bucket> {
        let bits = bits.min(self.bits);
        let mut counts = self.sorted().into_iter().peekable();
        std::iter::from_fn(move || {
            let (value, count) = counts.next()?;
            let first = first_of(value, bits);
            let mut bucket = Bucket { first, last: last_of(first, bits), count };
            while let Some((_, n)) = counts.next_if(|(value, _)| *value <= bucket.last) {
                bucket.count = bucket.count.saturating_add(n);
            }
            if counts.peek().is_none() {
                bucket.last = bucket.last.max(self.max);
            }
            Some(bucket)
        })
    }

    /// The buckets of reports that are in use, lowest first.
    pub fn iter(&self) -> impl Iterator<Item = Bucket> {
        self.buckets(SUB_BITS)
    }
}

#[cfg(test)]
#[path = "histogram_tests.rs"]
mod tests;
