// SPDX-License-Identifier: MIT OR Apache-2.0
//! The blocks of a recording other than events: JSON objects. A reader ignores keys that it does not
//! have; a key that a file lacks has its default.

use serde::Deserialize;
use serde::Serialize;

use crate::model::event::StackId;
use crate::model::stack::Frame;
use crate::model::stack::StackAt;
use crate::model::stack::Symbol;
use crate::model::stage::StageSet;
use crate::nvme::decode::CommandSet;

/// What was recorded, where and when.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct RunInfo {
    /// Version of the program that wrote the file.
    pub program: String,
    /// Name of the machine.
    pub host: Option<String>,
    /// `uname -r`
    pub kernel: Option<String>,
    /// `uname -m`
    pub arch: String,
    /// The hypervisor, or that there is none.
    pub machine: Option<String>,
    /// Differs for each boot: recordings of one boot share their clock.
    pub boot_id: Option<String>,
    /// CLOCK_MONOTONIC nanoseconds at which the run began.
    pub begin_ns: u64,
    /// One event per command, at its completion; otherwise one at the set-up, too.
    pub pairs: bool,
    /// The stage set; `total`: the events have no points.
    pub stage_set: StageSet,
    /// Where stacks were taken.
    pub stack: Option<StackAt>,
    /// The stack of one command in this many was taken.
    pub one_in: u32,
    /// Options that select commands, as text; empty: all commands.
    pub filter: String,
    /// Without names of the machine, of its controllers and of processes.
    pub redacted: bool,
}

/// The offset of the wall clock, from here on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ClockOffset {
    /// Wall clock minus CLOCK_MONOTONIC, in nanoseconds.
    pub wall_ns: i64,
}

/// A controller.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ControllerInfo {
    /// Its number: 0 for nvme0.
    pub instance: u32,
    /// Model, as reported by the controller.
    pub model: String,
    /// `pcie`, `tcp`, `rdma`, `fc`, `loop`.
    pub transport: String,
    /// Number of queues, including the admin queue.
    pub queues: Option<u32>,
    /// Entries of an I/O submission queue.
    pub depth: Option<u32>,
    /// Its namespaces.
    pub disks: Vec<DiskInfo>,
}

/// A namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct DiskInfo {
    /// The block device's name: `nvme0n1`.
    pub name: String,
    /// The namespace id.
    pub nsid: u32,
    /// Logical block size in bytes.
    pub lba_bytes: u32,
    /// Command set identifier: 0 NVM, 1 key value, 2 zoned.
    pub csi: u8,
}

impl DiskInfo {
    /// Its command set.
    pub fn set(&self) -> CommandSet {
        CommandSet::from_csi(self.csi).unwrap_or_default()
    }
}

/// A stack that later events refer to.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct StackInfo {
    /// Its number in this file.
    pub id: u64,
    /// Frames, innermost first.
    pub frames: Vec<FrameInfo>,
}

/// A frame. Without a function its address was not recorded.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct FrameInfo {
    /// The function.
    pub name: Option<String>,
    /// Offset from its start, in bytes.
    pub offset: u64,
    /// The module; `None` for the kernel image.
    pub module: Option<String>,
}

impl StackInfo {
    /// A stack as it is recorded: without addresses.
    pub fn new(id: StackId, frames: &[Frame]) -> Self {
        let info = |frame: &Frame| {
            frame
                .symbol
                .as_ref()
                .map_or_else(FrameInfo::default, |s| FrameInfo {
                    name: Some(s.name.clone()),
                    offset: s.offset,
                    module: s.module.clone(),
                })
        };
        Self {
            id: id.0,
            frames: frames.iter().map(info).collect(),
        }
    }

    /// The frames. Their addresses are zero.
    pub fn frames(&self) -> Vec<Frame> {
        let frame = |info: &FrameInfo| Frame {
            address: 0,
            symbol: info.name.as_ref().map(|name| Symbol {
                name: name.clone(),
                offset: info.offset,
                module: info.module.clone(),
            }),
        };
        self.frames.iter().map(frame).collect()
    }
}

/// The ledger at a time.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct LedgerInfo {
    /// Nanoseconds since the start of the run.
    pub at_ns: u64,
    /// Events that were dropped from memory before the file was written (`record --ring`).
    pub evicted: u64,
    /// The ledger, as in the JSON of a report.
    pub ledger: serde_json::Value,
}
