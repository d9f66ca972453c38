// SPDX-License-Identifier: MIT OR Apache-2.0
//! Histograms of values by row and slice of time. All slices have the same length, which grows with
//! the recording: when there are too many slices, each two neighbours become one. So memory does not
//! depend on the length of the recording.

use std::collections::BTreeMap;

use super::histogram::FineHistogram;

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
    rows: BTreeMap<K, Vec<FineHistogram>>,
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
            slices.resize_with(at + 1, FineHistogram::default);
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
    pub fn of(&self, row: &K) -> &[FineHistogram] {
        self.rows.get(row).map_or(&[], Vec::as_slice)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slices_grow_with_the_recording_and_keep_every_value() {
        let mut slices = Slices::new();
        let step = 100_000_000;
        for n in 0..10_000_u64 {
            slices.record(n % 3, 5_000 + n * step, n);
        }
        // 1000 s
        assert_eq!(slices.width_ns, 16_000_000_000);
        assert_eq!(slices.count(), 63);
        for row in 0..3 {
            let sum: u128 = slices.of(&row).iter().map(FineHistogram::sum).sum();
            let want: u64 = (0..10_000).filter(|n| n % 3 == row).sum();
            assert_eq!(sum, u128::from(want));
        }
        assert_eq!(slices.of(&0)[1].count() + slices.of(&1)[1].count(), 107);
    }

    #[test]
    fn one_event_at_a_very_late_time_ends_the_loop() {
        let mut slices = Slices::new();
        slices.record((), 0, 1);
        slices.record((), u64::MAX, 2);
        assert!(slices.count() <= MAX_SLICES);
        assert_eq!(slices.of(&())[0].count(), 1);
    }
}
