// SPDX-License-Identifier: MIT OR Apache-2.0
//! Targets, the programs that serve NVMe controllers, their controllers, and what they do with commands.
//! A command in a target is an event like the driver's, with the points of `StageSet::Host`. Recordings
//! hold targets and controllers as JSON: a field that one lacks has its default.

use serde::{Deserialize, Serialize};

use super::event::CommandId;
use super::text::Text;
use super::timeline::Timeline;
use crate::nvme::decode::Blocks;
use crate::nvme::status::Status;

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
}

impl TargetKind {
    /// The name in reports and JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Nvmet => "nvmet",
            Self::Qemu => "qemu",
            Self::Spdk => "spdk",
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
    /// None: the order of the lines of a log.
    Order,
}

/// A target, and how it was observed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct TargetInfo {
    /// What it is.
    pub kind: TargetKind,
    /// How it was observed: `tracepoints`, `uprobes`, `usdt`, `log`.
    pub by: Text,
    /// Its process; `None` for the kernel, and in imports.
    pub pid: Option<u32>,
    /// Its executable.
    pub binary: Option<Text>,
    /// Its version, if it is known.
    pub version: Option<Text>,
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

impl HostController {
    /// A controller with this name; nothing else is known.
    pub fn named(name: impl Into<Text>) -> Self {
        Self { name: name.into(), ..Self::default() }
    }

    /// A controller of QEMU.
    pub fn of_qemu(serial: &str) -> Self {
        Self { serial: Some(serial.into()), ..Self::named(format!("qemu:{serial}")) }
    }
}

/// The name of a controller among these, or its number.
pub fn name_of(controllers: &[HostController], ctrl: u32) -> Text {
    let found = controllers.iter().find(|c| c.number == ctrl);
    found.map_or_else(|| ctrl.to_string().into(), |c| c.name.clone())
}

/// A finished command in a target, for a join.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Served {
    /// The command.
    pub id: CommandId,
    /// Its blocks, if they are known.
    pub blocks: Option<Blocks>,
    /// Its status, if it is known.
    pub status: Option<Status>,
    /// The observed points.
    pub times: Timeline,
    /// The first observed point.
    pub first_ns: u64,
    /// The last one.
    pub last_ns: u64,
}
