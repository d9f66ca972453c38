// SPDX-License-Identifier: MIT OR Apache-2.0
//! Targets, the programs that serve NVMe controllers, and their controllers. Recordings hold them as
//! JSON: a field that one lacks has its default.

use serde::{Deserialize, Serialize};

use super::text::Text;

/// Programs that serve NVMe controllers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TargetKind {
    /// The target of the Linux kernel.
    #[default]
    Nvmet,
    /// QEMU's emulation.
    Qemu,
    /// SPDK's NVMe-oF target.
    Spdk,
    /// No target: requests of the block layer.
    Block,
    /// A kind of a later version.
    #[serde(other)]
    Other,
}

impl TargetKind {
    /// The name in reports and JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Nvmet => "nvmet",
            Self::Qemu => "qemu",
            Self::Spdk => "spdk",
            Self::Block => "block",
            Self::Other => "other",
        }
    }
}

/// The clock of the times.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HostClock {
    /// CLOCK_MONOTONIC of the host.
    #[default]
    Monotonic,
    /// CLOCK_REALTIME of the host. It may be set during the run.
    Realtime,
    /// The TSC, converted to nanoseconds.
    Tsc,
    /// None: the order of the lines of a log.
    Order,
    /// A clock of a later version.
    #[serde(other)]
    Other,
}

/// A target, and how it was observed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct TargetInfo {
    /// What it is.
    pub kind: TargetKind,
    /// How it was observed: `tracepoints`, `uprobes`, `log`, `spdk_trace`.
    pub by: Text,
    /// Its process; `None` for the kernel, and in imports.
    pub pid: Option<u32>,
    /// Its executable.
    pub binary: Option<Text>,
    /// Its version, if it is known.
    pub version: Option<Text>,
    /// Its build id.
    pub build_id: Option<Text>,
    /// The clock of the times.
    pub clock: HostClock,
    /// Resolution of the times, which are rounded down to it, in nanoseconds.
    pub resolution_ns: u64,
}

/// A controller of the target.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct HostController {
    /// Its number in this recording.
    pub number: u32,
    /// Its name in reports: `nvmet:1`.
    pub name: Text,
    /// Controller id.
    pub cntlid: Option<u16>,
    /// NVMe Qualified Name of the subsystem.
    pub nqn: Option<Text>,
    /// Serial number.
    pub serial: Option<Text>,
}

/// The name of a controller among these, or its number.
pub fn name_of(controllers: &[HostController], ctrl: u32) -> Text {
    let found = controllers.iter().find(|c| c.number == ctrl);
    found.map_or_else(|| ctrl.to_string().into(), |c| c.name.clone())
}

/// How often a function was passed to SPDK as a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Call {
    /// The function that was called: `spdk_thread_send_msg`.
    pub by: &'static str,
    /// The address of the function that was passed on.
    pub function: u64,
    /// Number of calls.
    pub count: u64,
}
