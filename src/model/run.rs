// SPDX-License-Identifier: MIT OR Apache-2.0
//! The sums of a run that are no snapshot: stacks, run times, the state of slots at the end.

use super::histogram::Histogram;

/// Commands in the slots at the end of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Scan {
    /// Set up and not completed.
    pub in_flight: u64,
    /// Completed and not ended.
    pub ending: u64,
}

/// Runs of one program. The kernel's own measuring is in the time, the way into the program is not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Runs {
    /// How often it ran.
    pub count: u64,
    /// For how long, all together.
    pub ns: u64,
}

/// The commands of one stack.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StackSum {
    /// Return addresses, innermost first; `None` for commands whose stack was not observed.
    pub addresses: Option<Vec<u64>>,
    /// Their latencies.
    pub hist: Histogram,
    /// Commands without a latency.
    pub unmeasured: u64,
}

/// Run times of programs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunTimes {
    /// By hook number.
    pub runs: Vec<Runs>,
    /// The time that they cover, nanoseconds.
    pub elapsed_ns: u64,
}
