// SPDX-License-Identifier: MIT OR Apache-2.0
//! Data of a run that is not in a snapshot: how completions are matched, stacks, run times, slots at the
//! end.

use super::histogram::Histogram;
use serde::{Deserialize, Serialize};

/// How a completion is matched with its setup.
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

/// A clock by which the recordings of two machines can be compared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SharedClock {
    /// CLOCK_REALTIME, in nanoseconds since 1970.
    Wall,
    /// The time stamp counter of x86.
    Tsc,
    /// CLOCK_REALTIME of the host, read in a guest by ptp_kvm.
    HostWall,
    /// A clock of a later version.
    #[default]
    #[serde(other)]
    Other,
}

/// The TSC of a virtual machine: guest = (host * ratio >> bits) + offset.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct TscScale {
    /// Ticks of the guest's TSC.
    pub offset: i64,
    /// Multiplier, with `bits` bits after the binary point.
    pub ratio: u64,
    /// See `ratio`.
    pub bits: u32,
}

/// A reading of a clock, and the time of CLOCK_MONOTONIC at which it was taken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ClockReading {
    /// The clock.
    pub clock: SharedClock,
    /// Its value: nanoseconds, or ticks of the TSC.
    pub value: u64,
    /// CLOCK_MONOTONIC in nanoseconds.
    pub mono_ns: u64,
    /// `mono_ns` is wrong by at most this.
    pub error_ns: u64,
    /// The virtual machine's TSC at this time of the host's TSC. `None`: not known, or the process
    /// runs none by KVM.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub guest: Option<TscScale>,
}
