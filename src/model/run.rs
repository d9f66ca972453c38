// SPDX-License-Identifier: MIT OR Apache-2.0
//! Data of a run that is not in a snapshot: how completions are matched, stacks, run times, slots at the
//! end.

use serde::{Deserialize, Serialize};

use super::histogram::Histogram;

/// How a completion is matched with its set-up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Pairing {
    /// By the request: exact.
    #[default]
    Request,
    /// By controller, queue and tag, which is all that classic tracepoints print.
    Tag,
}

/// Commands in the slots at the end of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Scan {
    /// Set up and not completed.
    pub in_flight: u64,
    /// Completed, and not ended by blk-mq.
    pub ending: u64,
}

/// Runs of one program. The time includes the kernel's time measurement, but not the kernel's path
/// to the program.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Runs {
    /// Number of runs.
    pub count: u64,
    /// Sum of their times, in nanoseconds.
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
    /// The time that they cover, in nanoseconds.
    pub elapsed_ns: u64,
}
