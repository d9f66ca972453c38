// SPDX-License-Identifier: MIT OR Apache-2.0
//! The blocks of a recording other than events: JSON objects. A reader ignores keys that it does not
//! have; a key that a file lacks has its default.

use std::time::Duration;

use serde::Deserialize;
use serde::Serialize;

use super::host::TargetInfo;
use crate::model::event::StackId;
use crate::model::stack::Frame;
use crate::model::stack::StackAt;
use crate::model::stack::Symbol;
use crate::model::stage::StageSet;
use crate::model::untrusted::Untrusted;
use crate::nvme::decode::CommandSet;

/// What was recorded, where and when.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct RunInfo {
    /// Version of the program that wrote the file.
    pub program: Untrusted,
    /// Name of the machine.
    pub host: Option<Untrusted>,
    /// `uname -r`
    pub kernel: Option<Untrusted>,
    /// `uname -m`
    pub arch: Untrusted,
    /// The hypervisor, or that there is none.
    pub machine: Option<Untrusted>,
    /// Differs for each boot: recordings of one boot share their clock.
    pub boot_id: Option<Untrusted>,
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
    /// Options that select commands, as typed in a shell; empty: all commands.
    pub filter: Untrusted,
    /// Only commands that took at least this long, or whose latency is not known.
    pub slow_ns: Option<u64>,
    /// Only commands that failed.
    pub errors: bool,
    /// Only the first commands, at most this many.
    pub count: Option<u64>,
    /// Whether SQ heads and tails were recorded. `None`: written before this was noted.
    pub sq: Option<bool>,
    /// Whether asynchronous events were recorded. `None`: written before this was noted.
    pub aen: Option<bool>,
    /// Whether the conditions of commands, and what the machine did besides, were recorded.
    pub context: bool,
    /// Without names of the machine, of its controllers and of processes.
    pub redacted: bool,
    /// The target whose commands these are; `None`: they are those of the driver.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target: Option<TargetInfo>,
}

impl RunInfo {
    /// Removes the names of the machine, and the text of the filters, which may have names.
    pub fn redact(&mut self) {
        self.host = None;
        self.boot_id = None;
        if !self.filter.is_empty() {
            self.filter = "redacted".into();
        }
        self.redacted = true;
    }

    /// The options other than filters that left commands out; empty: none.
    pub fn chosen_by(&self) -> String {
        let slow = self.slow_ns.map(|ns| {
            let time = format!("{:?}", Duration::from_nanos(ns));
            format!("--slow {}", time.replace('µ', "u"))
        });
        let errors = self.errors.then(|| "--errors".to_owned());
        let count = self.count.map(|n| format!("-n {n}"));
        let all = [slow, errors, count].into_iter().flatten();
        all.collect::<Vec<String>>().join(" ")
    }
}

/// The offset of the wall clock, from here on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ClockOffset {
    /// Wall clock minus CLOCK_MONOTONIC, in nanoseconds.
    pub wall_ns: i64,
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
    /// Of the host's TSC: that of the virtual machine at this time. `None`: not known, or the process
    /// runs none by KVM.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub guest: Option<TscScale>,
}

/// A controller.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ControllerInfo {
    /// Its number: 0 for nvme0.
    pub instance: u32,
    /// Model, as reported by the controller.
    pub model: Untrusted,
    /// `pcie`, `tcp`, `rdma`, `fc`, `loop`.
    pub transport: Untrusted,
    /// Controller id. `None`: not known, or written before this was noted.
    pub cntlid: Option<u16>,
    /// NVMe Qualified Name of the subsystem of a fabrics controller. `None` as for `cntlid`; also for
    /// PCI, where it may contain a serial number, and if names are left out.
    pub nqn: Option<Untrusted>,
    /// Number of queues, including the admin queue.
    pub queues: Option<u32>,
    /// Entries of an I/O submission queue.
    pub depth: Option<u32>,
    /// Its namespaces.
    pub disks: Vec<DiskInfo>,
}

impl ControllerInfo {
    /// Bytes of a logical block, by controller and namespace.
    pub fn block_sizes(&self) -> impl Iterator<Item = ((u32, u32), u32)> {
        let sizes = self.disks.iter().map(|d| (d.nsid, d.lba_bytes));
        sizes.map(|(nsid, bytes)| ((self.instance, nsid), bytes))
    }
}

/// A namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct DiskInfo {
    /// The block device's name: `nvme0n1`.
    pub name: Untrusted,
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

/// Settings of the machine that explain latency; `None`: not known.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct MachineInfo {
    /// The hypervisor; `None` also without one.
    pub hypervisor: Option<Untrusted>,
    /// There is a hypervisor.
    pub is_virtual: Option<bool>,
    /// The processor seems to be emulated (QEMU without KVM).
    pub is_emulated: bool,
    /// CPUs that are online.
    pub cpus: Option<u32>,
    /// Completions run in threads (PREEMPT_RT, or nvme.use_threaded_interrupts).
    pub threaded_interrupts: Option<bool>,
    /// nvme.poll_queues
    pub poll_queues: Option<u32>,
    /// nvme_core.io_timeout, in seconds.
    pub io_timeout_s: Option<u32>,
    /// `strict` or `lazy` invalidation of the IOMMU, where one is in use.
    pub iommu_strict: Option<bool>,
    /// The controllers.
    pub controllers: Vec<MachineController>,
}

/// Settings of a controller.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct MachineController {
    /// Its number: 0 for nvme0.
    pub instance: u32,
    /// The kind of device: the name of a `machine::nvme_class::Class`.
    pub class: Untrusted,
    /// Transport.
    pub transport: Option<Untrusted>,
    /// `live`, ...
    pub state: Option<Untrusted>,
    /// I/O queues, without the admin queue.
    pub io_queues: Option<u32>,
    /// Entries of an I/O submission queue.
    pub depth: Option<u32>,
    /// Interrupt vectors.
    pub vectors: Option<u32>,
    /// It offers shadow doorbells.
    pub shadow_doorbells: Option<bool>,
    /// Type of its IOMMU group: `DMA`, `DMA-FQ`, `identity`.
    pub iommu_group: Option<Untrusted>,
    /// First and last physical address of BAR 0, its registers.
    pub bar: Option<[u64; 2]>,
    /// Its namespaces.
    pub disks: Vec<MachineDisk>,
}

/// Settings of a namespace in the block layer.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct MachineDisk {
    /// The block device's name.
    pub name: Untrusted,
    /// The namespace id.
    pub nsid: u32,
    /// The I/O scheduler.
    pub scheduler: Option<Untrusted>,
    /// Requests that a queue has room for.
    pub nr_requests: Option<u32>,
    /// 1: complete near the submitting CPU; 2: on it.
    pub rq_affinity: Option<u32>,
    /// Polled queues are in use.
    pub io_poll: Option<bool>,
    /// `write back` or `write through`.
    pub write_cache: Option<Untrusted>,
    /// Largest transfer in bytes (queue/max_hw_sectors_kb).
    pub max_hw_bytes: Option<u64>,
    /// Largest transfer in use, in bytes (queue/max_sectors_kb).
    pub max_bytes: Option<u64>,
    /// Physical block size in bytes.
    pub physical_bytes: Option<u32>,
    /// Logical block size in bytes.
    pub logical_bytes: Option<u32>,
    /// Request timeout in milliseconds.
    pub io_timeout_ms: Option<u32>,
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
    pub name: Option<Untrusted>,
    /// Offset from its start, in bytes.
    pub offset: u64,
    /// The module; `None` for the kernel image.
    pub module: Option<Untrusted>,
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
