// SPDX-License-Identifier: MIT OR Apache-2.0
//! Commands by kernel stack.

use std::cmp::Reverse;
use std::collections::HashMap;

use crate::model::event::{EventKind, StackId};
use crate::model::histogram::Histogram;
use crate::model::stack::{Frame, Stack, StackAt};
use crate::model::text::word;

/// The weight of a stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Weight {
    /// Number of commands
    Count,
    /// Sum of their latencies
    Latency,
}

impl Weight {
    /// The weight of a row; latency is in nanoseconds.
    #[must_use]
    pub fn of(self, row: &StackRow) -> u128 {
        match self {
            Self::Count => row.commands().into(),
            Self::Latency => row.hist.sum(),
        }
    }
}

/// The commands of one stack.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StackRow {
    /// Their process, if it is told apart.
    pub process: Option<String>,
    /// The stack.
    pub stack: Stack,
    /// Their latencies.
    pub hist: Histogram,
    /// Commands without a latency: their setup or completion was not observed.
    pub unmeasured: u64,
}

impl StackRow {
    /// Number of commands.
    #[must_use]
    pub fn commands(&self) -> u64 {
        self.hist.count() + self.unmeasured
    }
}

/// Commands by process and stack. Stacks that differ in the kernel may be equal here, because frames
/// were trimmed.
#[derive(Clone, Debug, Default)]
pub struct StackSums(HashMap<(Option<String>, Stack), (Histogram, u64)>);

impl StackSums {
    /// Adds the commands of a trimmed stack.
    pub fn add(&mut self, row: StackRow) {
        let (hist, unmeasured) = self.0.entry((row.process, row.stack)).or_default();
        hist.merge(&row.hist);
        *unmeasured += row.unmeasured;
    }

    fn into_rows(self) -> impl Iterator<Item = StackRow> {
        let rows = self.0.into_iter();
        rows.map(|((process, stack), (hist, unmeasured))| StackRow {
            process,
            stack,
            hist,
            unmeasured,
        })
    }

    /// The number of commands.
    pub fn commands(&self) -> u64 {
        self.0.values().map(|(hist, unmeasured)| hist.count() + unmeasured).sum()
    }

    /// The same, not told apart by process.
    #[must_use]
    pub fn of_all_processes(self) -> Self {
        self.into_rows().map(|row| StackRow { process: None, ..row }).collect()
    }

    /// The same, not told apart by the place of a call in a function.
    #[must_use]
    pub fn by_function(self) -> Self {
        let rows = self.into_rows().map(|mut row| {
            if let Stack::Taken(frames) = &mut row.stack {
                for frame in frames {
                    if let Some(symbol) = &mut frame.symbol {
                        (frame.address, symbol.offset) = (0, 0);
                    }
                }
            }
            row
        });
        rows.collect()
    }

    /// The stacks with commands, heaviest first. Stacks of equal weight are sorted by address, so
    /// that the order does not change from run to run.
    #[must_use]
    pub fn rows(self, by: Weight) -> Vec<StackRow> {
        let mut rows: Vec<StackRow> = self.into_rows().collect();
        rows.retain(|row| row.commands() > 0);
        rows.sort_by_cached_key(|row| {
            let addresses: Vec<u64> = row.stack.frames().iter().map(|f| f.address).collect();
            let taken = matches!(row.stack, Stack::Taken(_));
            // stacks of a recording have no addresses
            let names: Vec<String> = row.stack.frames().iter().map(Frame::to_string).collect();
            (Reverse(by.of(row)), addresses, taken, names, row.process.clone())
        });
        rows
    }
}

impl Extend<StackRow> for StackSums {
    fn extend<I: IntoIterator<Item = StackRow>>(&mut self, rows: I) {
        rows.into_iter().for_each(|row| self.add(row));
    }
}

impl FromIterator<StackRow> for StackSums {
    fn from_iter<I: IntoIterator<Item = StackRow>>(rows: I) -> Self {
        let mut sums = Self::default();
        sums.extend(rows);
        sums
    }
}

/// The stack of a finished command, and its latency. The outer `None`: not a finished command, or
/// its stack was not to be taken (`--sample`). The inner `None`: not observed.
fn stack_of(what: &EventKind, at: StackAt) -> Option<(Option<StackId>, Option<u64>)> {
    let [submit, complete] = what.stacks();
    let (submission, latency, completed) = match what {
        EventKind::Command(_, submission, end) => (Some(submission), end.latency_ns, true),
        EventKind::Missed { submission, .. } => (submission.as_ref(), None, false),
        _ => return None,
    };
    let (id, observed) = match at {
        StackAt::Submit => (submit, submission.is_some_and(|a| a.knows_submitter)),
        StackAt::Complete => (complete, completed),
    };
    match observed {
        true if !id.is_some() => None,
        observed => Some((observed.then_some(id), latency)),
    }
}

/// Most stacks of a recording: more than the kernel keeps.
pub const MOST_STACKS: usize = 16_384;

/// Sums the commands of a recording by stack.
#[derive(Debug)]
pub struct RecordedStacks {
    at: StackAt,
    /// Processes are told apart.
    by_process: bool,
    frames: HashMap<StackId, Vec<Frame>>,
    sums: HashMap<(Option<u32>, Option<StackId>), (Histogram, u64)>,
    processes: HashMap<u32, String>,
}

impl RecordedStacks {
    /// No commands yet.
    #[must_use]
    pub fn new(at: StackAt, by_process: bool) -> Self {
        let (frames, sums, processes) = <_>::default();
        Self { at, by_process, frames, sums, processes }
    }

    /// Adds a stack, before the first event with it.
    pub fn stack(&mut self, id: StackId, frames: &[Frame]) {
        self.frames.insert(id, frames.to_vec());
    }

    /// The frames of a stack, innermost first; empty if it is not known.
    #[must_use]
    pub fn frames(&self, id: StackId) -> &[Frame] {
        self.frames.get(&id).map_or(&[], Vec::as_slice)
    }

    /// Adds a command. Returns false if there are more than [`MOST_STACKS`].
    pub fn add(&mut self, what: &EventKind) -> bool {
        let Some((id, latency)) = stack_of(what, self.at) else {
            return true;
        };
        // all without a description are one
        let id = id.map(|id| match self.frames.contains_key(&id) {
            true => id,
            false => StackId(0),
        });
        if self.sums.len() > MOST_STACKS {
            return false;
        }
        let process = self.process(what);
        let (hist, unmeasured) = self.sums.entry((process, id)).or_default();
        match latency {
            Some(ns) => hist.record(ns),
            None => *unmeasured += 1,
        }
        true
    }

    /// The process that called the driver, if processes are told apart.
    fn process(&mut self, what: &EventKind) -> Option<u32> {
        let submission = what.submission().filter(|_| self.by_process)?;
        let pid = submission.knows_submitter.then_some(submission.pid)?;
        let name = || format!("{}[{pid}]", word(&submission.comm()));
        self.processes.entry(pid).or_insert_with(name);
        Some(pid)
    }

    /// The sums.
    #[must_use]
    pub fn sums(&self) -> StackSums {
        let mut all = StackSums::default();
        for ((process, id), (hist, unmeasured)) in &self.sums {
            let taken = |id| Stack::Taken(self.frames.get(&id).cloned().unwrap_or_default());
            all.add(StackRow {
                process: process.and_then(|pid| self.processes.get(&pid).cloned()),
                stack: id.map_or(Stack::NotObserved, taken),
                hist: hist.clone(),
                unmeasured: *unmeasured,
            });
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::stack::Frame;
    use proptest::collection::vec;
    use proptest::{prop_assert, prop_assert_eq, proptest};

    fn stack(addresses: &[u64]) -> Vec<Frame> {
        addresses.iter().map(|&address| Frame { address, symbol: None }).collect()
    }

    fn hist(samples: &[u64]) -> Histogram {
        let mut hist = Histogram::new();
        samples.iter().for_each(|&ns| hist.record(ns));
        hist
    }

    fn row(addresses: &[u64], samples: &[u64], unmeasured: u64) -> StackRow {
        let stack = Stack::Taken(stack(addresses));
        StackRow { process: None, stack, hist: hist(samples), unmeasured }
    }

    #[test]
    fn a_stack_that_was_not_observed_is_no_stack_that_could_not_be_taken() {
        let unseen = StackRow {
            process: None,
            stack: Stack::NotObserved,
            hist: Histogram::new(),
            unmeasured: 3,
        };
        let sums: StackSums = [row(&[], &[7], 0), unseen.clone()].into_iter().collect();
        let rows = sums.rows(Weight::Count);
        assert_eq!(rows, [unseen, row(&[], &[7], 0)]);
    }

    proptest! {
        #[test]
        fn no_command_is_lost_or_counted_twice(
            stacks in vec((vec(1_u64..4, 0..3), vec(1_u64..1 << 30, 0..5)), 0..40),
        ) {
            let entry = |(s, h): &(Vec<u64>, Vec<u64>)| row(s, h, 0);
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
                prop_assert!(rows.is_sorted_by_key(|r| Reverse(by.of(r))));
                for (n, row) in rows.iter().enumerate() {
                    prop_assert!(rows[n + 1..].iter().all(|r| r.stack != row.stack));
                }
            }
        }
    }
}
