// SPDX-License-Identifier: MIT OR Apache-2.0
//! Counters of the BPF side: hits of each hook, and exceptions.

/// Exceptions, in the order of `enum nd_count`.
use crate::nvme::status::{Status, StatusType};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "bpf/include/abi.h says what each one is")]
pub enum Count {
    Filtered,
    FilteredDone,
    Untracked,
    UntrackedDone,
    OrphanDone,
    Requeued,
    Overwritten,
    UnseenSetup,
    UnseenComplete,
    Unattributed,
    Unmeasured,
    NoRow,
    LateDoorbell,
    UnsureDoorbell,
    EarlyIrq,
    Negative,
    PendingFull,
    RingFull,
    StartUntrusted,
    Misfit,
    Finished,
    NotShown,
    LostSubmit,
    LostEvent,
    NoStack,
    StacksFull,
    ByTask,
    FewerPoints,
    NoBio,
    BiosFull,
    UnpairedWait,
}

/// All exceptions, by number.
pub const COUNTS: [Count; 31] = [
    Count::Filtered,
    Count::FilteredDone,
    Count::Untracked,
    Count::UntrackedDone,
    Count::OrphanDone,
    Count::Requeued,
    Count::Overwritten,
    Count::UnseenSetup,
    Count::UnseenComplete,
    Count::Unattributed,
    Count::Unmeasured,
    Count::NoRow,
    Count::LateDoorbell,
    Count::UnsureDoorbell,
    Count::EarlyIrq,
    Count::Negative,
    Count::PendingFull,
    Count::RingFull,
    Count::StartUntrusted,
    Count::Misfit,
    Count::Finished,
    Count::NotShown,
    Count::LostSubmit,
    Count::LostEvent,
    Count::NoStack,
    Count::StacksFull,
    Count::ByTask,
    Count::FewerPoints,
    Count::NoBio,
    Count::BiosFull,
    Count::UnpairedWait,
];

/// Counters of one CPU, or summed over all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// By hook number. Hooks that are not attached have no hits.
    pub hits: Vec<u64>,
    /// By [`Count`].
    pub counts: [u64; COUNTS.len()],
}

impl Counters {
    /// The value of one counter.
    pub const fn get(&self, what: Count) -> u64 {
        self.counts[what as usize]
    }

    /// Number of times that a hook fired for an NVMe request.
    pub fn hits_of(&self, hook: usize) -> u64 {
        self.hits.get(hook).copied().unwrap_or(0)
    }

    /// Adds the counters of another CPU.
    pub fn add(&mut self, hits: &[u64], counts: &[u64]) {
        if self.hits.len() < hits.len() {
            self.hits.resize(hits.len(), 0);
        }
        self.hits.iter_mut().zip(hits).for_each(|(sum, n)| *sum += n);
        self.counts.iter_mut().zip(counts).for_each(|(sum, n)| *sum += n);
    }
}

/// Number of status code types (3 bits).
pub const TYPES: usize = 8;

/// Failed and retried commands of a controller.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Failures {
    /// Completed commands with a status other than success, by the number of its status code type.
    pub by_type: [u64; TYPES],
    /// Completed commands that were retries.
    pub retried: u64,
}

impl Failures {
    /// The counts with the status code types that they are of.
    pub fn types(&self) -> impl Iterator<Item = (StatusType, u64)> {
        let kinds = (0_u16..).map(|number| Status(number << 8).kind());
        kinds.zip(self.by_type)
    }
}
