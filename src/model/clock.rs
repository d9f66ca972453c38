// SPDX-License-Identifier: MIT OR Apache-2.0
//! Clocks that two machines can share, and readings of them. Recordings hold them as JSON: a field that
//! one lacks has its default.

use serde::{Deserialize, Serialize};

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
    /// Of the host's TSC: that of the virtual machine at this time. `None`: not known, or the process
    /// runs none by KVM.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub guest: Option<TscScale>,
}
