//! Commands by the stack that they came through.

use std::cmp::Reverse;
use std::collections::HashMap;

use super::Frame;
use crate::hist::Histogram;

/// What makes a stack heavy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Weight {
    /// How many commands came through it.
    Count,
    /// How long they took, all together.
    Latency,
}

impl Weight {
    /// That of a stack's commands; latency is in nanoseconds.
    #[must_use]
    pub fn of(self, hist: &Histogram) -> u128 {
        match self {
            Self::Count => hist.count().into(),
            Self::Latency => hist.sum(),
        }
    }
}

/// The commands that came through one stack.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StackRow {
    /// Innermost first; empty where the kernel could not take the stack.
    pub frames: Vec<Frame>,
    /// Their latencies.
    pub hist: Histogram,
}

/// Stacks that are the same, once: those that the kernel tells apart may differ only in what was
/// trimmed.
#[derive(Clone, Debug, Default)]
pub struct StackSums(HashMap<Vec<Frame>, Histogram>);

impl StackSums {
    /// Adds the commands of a stack that was trimmed.
    pub fn add(&mut self, frames: Vec<Frame>, hist: &Histogram) {
        self.0.entry(frames).or_default().merge(hist);
    }

    /// The stacks that commands came through, heaviest first. Of equal ones, that with the lower
    /// addresses: the order does not change from run to run.
    #[must_use]
    pub fn rows(self, by: Weight) -> Vec<StackRow> {
        let used = self.0.into_iter().filter(|(_, hist)| hist.count() > 0);
        let mut rows: Vec<_> = used
            .map(|(frames, hist)| StackRow { frames, hist })
            .collect();
        rows.sort_by_cached_key(|row| {
            let addresses: Vec<u64> = row.frames.iter().map(|f| f.address).collect();
            (Reverse(by.of(&row.hist)), addresses)
        });
        rows
    }
}

impl Extend<(Vec<Frame>, Histogram)> for StackSums {
    fn extend<I: IntoIterator<Item = (Vec<Frame>, Histogram)>>(&mut self, stacks: I) {
        for (frames, hist) in stacks {
            self.add(frames, &hist);
        }
    }
}

impl FromIterator<(Vec<Frame>, Histogram)> for StackSums {
    fn from_iter<I: IntoIterator<Item = (Vec<Frame>, Histogram)>>(stacks: I) -> Self {
        let mut sums = Self::default();
        sums.extend(stacks);
        sums
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::collection::vec;
    use proptest::prop_assert;
    use proptest::prop_assert_eq;
    use proptest::proptest;

    fn stack(addresses: &[u64]) -> Vec<Frame> {
        addresses
            .iter()
            .map(|&address| Frame {
                address,
                symbol: None,
            })
            .collect()
    }

    fn hist(samples: &[u64]) -> Histogram {
        let mut hist = Histogram::new();
        samples.iter().for_each(|&ns| hist.record(ns));
        hist
    }

    #[test]
    fn equal_stacks_are_one_and_the_heaviest_is_first() {
        let stacks = [
            (stack(&[2]), hist(&[10, 20])),
            (stack(&[1]), hist(&[10, 20])),
            (stack(&[2]), hist(&[5])),
            (stack(&[3]), hist(&[1000])),
            (stack(&[]), hist(&[7])),
            (stack(&[9]), hist(&[])),
        ];
        let sums: StackSums = stacks.into_iter().collect();
        let order = |by| -> Vec<(Option<u64>, u64)> {
            let rows = sums.clone().rows(by);
            let row = |r: &StackRow| (r.frames.first().map(|f| f.address), r.hist.count());
            rows.iter().map(row).collect()
        };
        assert_eq!(
            order(Weight::Count),
            [(Some(2), 3), (Some(1), 2), (None, 1), (Some(3), 1)]
        );
        assert_eq!(
            order(Weight::Latency),
            [(Some(3), 1), (Some(2), 3), (Some(1), 2), (None, 1)]
        );
    }

    proptest! {
        #[test]
        fn no_command_is_lost_or_counted_twice(
            stacks in vec((vec(1_u64..4, 0..3), vec(1_u64..1 << 30, 0..5)), 0..40),
        ) {
            let entry = |(s, h): &(Vec<u64>, Vec<u64>)| (stack(s), hist(h));
            let forward: StackSums = stacks.iter().map(entry).collect();
            let backward: StackSums = stacks.iter().rev().map(entry).collect();
            for by in [Weight::Count, Weight::Latency] {
                let rows = forward.clone().rows(by);
                prop_assert_eq!(&rows, &backward.clone().rows(by));
                let samples = || stacks.iter().flat_map(|(_, h)| h);
                let count: u64 = rows.iter().map(|r| r.hist.count()).sum();
                let sum: u128 = rows.iter().map(|r| r.hist.sum()).sum();
                prop_assert_eq!(count, samples().count() as u64);
                prop_assert_eq!(sum, samples().map(|&ns| u128::from(ns)).sum::<u128>());
                prop_assert!(rows.is_sorted_by_key(|r| Reverse(by.of(&r.hist))));
                for (n, row) in rows.iter().enumerate() {
                    prop_assert!(rows[n + 1..].iter().all(|r| r.frames != row.frames));
                }
            }
        }
    }
}
