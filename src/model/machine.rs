// SPDX-License-Identifier: MIT OR Apache-2.0
//! Settings of a machine, of its controllers and of its disks. Recordings hold them as JSON: a field that
//! one lacks has its default.

use super::histogram::Histogram;
use super::ids::NamespaceId;
use super::point::{IN_RECORDS, Pattern, Point};
use super::text::Text;
use crate::nvme::decode::CommandSet;
use crate::nvme::log::{EbsStats, Smart};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::fmt::{Display, Formatter};

/// Settings of the machine that explain latency. `None`: not known.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct MachineInfo {
    /// The hypervisor; `None` also without one.
    pub hypervisor: Option<Text>,
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
    /// Where cgroups of version 2 are mounted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cgroup_mount: Option<Text>,
    /// The controllers.
    pub controllers: Vec<MachineController>,
    /// Disks of device mapper and md that are above NVMe.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub upper: Vec<UpperDisk>,
}

/// The name of a disk above NVMe in redacted recordings: users choose those that begin with `md_`. The
/// same name always becomes the same number, which leads to its bios.
#[must_use]
pub fn redacted_upper(name: &Text) -> Text {
    match name.starts_with("md_") {
        true => format!("md_{:04x}", crc32fast::hash(name.as_bytes()) & 0xffff).into(),
        false => name.clone(),
    }
}

/// A disk of device mapper or md.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct UpperDisk {
    /// `dm-0`, `md0`.
    pub name: Text,
    /// Who made it (`CRYPT`, `LVM`), or the level of md (`raid1`), if that is known.
    pub kind: Option<Text>,
    /// The NVMe disks below it.
    pub disks: Vec<Text>,
    /// No other such disk is above it.
    pub is_top: bool,
    /// Other disks than NVMe are below it, too.
    pub has_others: bool,
}

impl MachineInfo {
    /// Removes the names that users gave, and what identifies the machine.
    pub fn redact(&mut self) {
        for upper in &mut self.upper {
            upper.name = redacted_upper(&upper.name);
        }
        for controller in &mut self.controllers {
            (controller.bar, controller.address) = (None, None);
            (controller.model, controller.firmware) = (None, None);
            // it quotes the model
            controller.class_reason = Text::default();
            let disks = controller.disks.iter_mut();
            let limits = disks.filter_map(|disk| disk.limits.as_mut());
            for limit in limits.flat_map(|limits| &mut limits.cgroups) {
                limit.cgroup = Text::default();
            }
        }
    }
}

/// The kind of device behind a controller.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Class {
    /// A virtual machine monitor emulates it: each doorbell may cause an exit.
    Emulated,
    /// A cloud provider's device. Its storage may be remote.
    Cloud,
    /// A software target: SPDK, or Linux nvmet.
    #[serde(rename = "software target")]
    Target,
    /// None of these, in a virtual machine: most likely passed through by the host.
    Passthrough,
    /// None of these, on bare metal.
    Physical,
    /// An unidentified target over a network.
    Fabrics,
    /// Unknown, or from a later version.
    #[default]
    #[serde(other)]
    Unknown,
}

impl Class {
    /// The name in reports.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Emulated => "emulated",
            Self::Cloud => "cloud",
            Self::Target => "software target",
            Self::Passthrough => "passthrough",
            Self::Physical => "physical",
            Self::Fabrics => "fabrics",
            Self::Unknown => "unknown",
        }
    }
}

/// A controller as sysfs describes it. Its serial number is left out: reports go into bug trackers.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct MachineController {
    /// Its number: 0 for nvme0.
    pub instance: u32,
    /// Model, as reported by the controller.
    pub model: Option<Text>,
    /// Firmware revision.
    pub firmware: Option<Text>,
    /// The kind of device.
    pub class: Class,
    /// What the class was derived from.
    pub class_reason: Text,
    /// `pcie`, `tcp`, `rdma`, `fc`, `loop`.
    pub transport: Option<Text>,
    /// The PCI address, or the target's address.
    pub address: Option<Text>,
    /// `live`, `resetting`, `connecting`, `deleting`, `dead`.
    pub state: Option<Text>,
    /// PCI vendor and device ids, as in lspci: `1b36:0010`. `None`: not on PCI.
    pub pci_id: Option<Text>,
    /// PCI subsystem vendor and device ids.
    pub pci_subsystem_id: Option<Text>,
    /// The NUMA node; -1 if none.
    pub numa_node: Option<i32>,
    /// I/O queues, without the admin queue.
    pub io_queues: Option<u32>,
    /// Entries of an I/O submission queue.
    pub depth: Option<u32>,
    /// Message signalled interrupts: one for the admin queue, and at most one for each I/O queue that is
    /// not polled.
    pub vectors: Option<u32>,
    /// It offers shadow doorbells (Doorbell Buffer Config). The driver then uses them, and most doorbells
    /// are memory writes without an exit to the hypervisor.
    pub shadow_doorbells: Option<bool>,
    /// Type of its IOMMU group: `identity` (no translation), `DMA` (strict invalidation), `DMA-FQ` (lazy).
    pub iommu_group: Option<Text>,
    /// First and last physical address of BAR 0, its registers.
    pub bar: Option<[u64; 2]>,
    /// Its namespaces, sorted by id.
    pub disks: Vec<MachineDisk>,
}

impl MachineController {
    /// The name of its device: `nvme0`.
    #[must_use]
    pub fn name(&self) -> String {
        format!("nvme{}", self.instance)
    }
}

/// A namespace, and its settings in the block layer.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct MachineDisk {
    /// The block device's name: `nvme0n1`, or `nvme0c1n1` for a path of a multipath namespace.
    pub name: Text,
    /// A path of a multipath namespace; applications use another device.
    pub hidden: bool,
    /// The namespace id.
    pub nsid: u32,
    /// Size in bytes.
    pub size_bytes: Option<u64>,
    /// The block layer keeps statistics, including the times in its requests: 0 or 1.
    pub iostats: Option<u32>,
    /// Merging of requests. 0: where possible; 1: only simple merges; 2: none.
    pub nomerges: Option<u32>,
    /// The I/O scheduler.
    pub scheduler: Option<Text>,
    /// Requests that a queue has room for.
    pub nr_requests: Option<u32>,
    /// Requests other than reads that mq-deadline or kyber lets a queue have.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub async_depth: Option<u32>,
    /// 1: complete near the submitting CPU; 2: on it.
    pub rq_affinity: Option<u32>,
    /// Polled queues are in use.
    pub io_poll: Option<bool>,
    /// `write back` or `write through`.
    pub write_cache: Option<Text>,
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
    /// Major and minor number of the disk that applications use.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub number: Option<[u32; 2]>,
    /// Latency target of writeback throttling in microseconds; 0: off.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wbt_lat_us: Option<i64>,
    /// Limits of cgroups.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limits: Option<IoLimits>,
    /// io.cost.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub io_cost: Option<IoCost>,
    /// `none`, `host-aware` or `host-managed`: whether it has zones.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub zoned: Option<Text>,
}

/// Log pages of a controller.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ControllerLogs {
    /// Its number: 0 for nvme0.
    pub instance: u32,
    /// SMART / Health Information.
    pub smart: Smart,
    /// Statistics of an EBS volume; `None`: it is not one.
    pub ebs: Option<EbsStats>,
}

/// The limits of a cgroup on a disk: a line of its io.max. `None`: `max`, no limit.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct IoLimit {
    /// The path of the cgroup below the mount point, beginning with a slash; empty: not recorded.
    pub cgroup: Text,
    /// Bytes read per second.
    pub rbps: Option<u64>,
    /// Bytes written per second.
    pub wbps: Option<u64>,
    /// Read commands per second.
    pub riops: Option<u64>,
    /// Write commands per second.
    pub wiops: Option<u64>,
}

/// The limits of all cgroups on a disk.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct IoLimits {
    /// By the path of the cgroup.
    pub cgroups: Vec<IoLimit>,
    /// There may be more: not all cgroups were looked at, or there was no room.
    pub more: bool,
}

/// The settings of io.cost for a disk.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct IoCost {
    /// It is on.
    pub enabled: bool,
    /// The rest of the line of io.cost.qos; empty: there is none.
    pub qos: Text,
}

impl IoLimit {
    /// The names of the limits in io.max, and their values.
    pub const fn all(&self) -> [(&'static str, Option<u64>); 4] {
        [("rbps", self.rbps), ("wbps", self.wbps), ("riops", self.riops), ("wiops", self.wiops)]
    }

    /// Whether it limits nothing.
    pub fn is_max(&self) -> bool {
        self.all().iter().all(|(_, limit)| limit.is_none())
    }
}

/// As in io.max: `riops=60`.
impl Display for IoLimit {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let all = self.all().into_iter();
        let some = all.filter_map(|(name, limit)| Some(format!("{name}={}", limit?)));
        f.pad(&some.collect::<Vec<_>>().join(" "))
    }
}

/// `on (ctrl=user rpct=95.00)`, or `off`.
impl Display for IoCost {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self.enabled {
            true => write!(f, "on ({})", self.qos),
            false => f.write_str("off"),
        }
    }
}

/// A controller.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ControllerInfo {
    /// Its number: 0 for nvme0.
    pub instance: u32,
    /// Model, as reported by the controller.
    pub model: Text,
    /// `pcie`, `tcp`, `rdma`, `fc`, `loop`.
    pub transport: Text,
    /// Controller id. `None`: not known, or written before this was noted.
    pub cntlid: Option<u16>,
    /// NVMe Qualified Name of the subsystem of a fabrics controller. `None` as for `cntlid`; also for
    /// PCI, where it may contain a serial number, and if names are left out.
    pub nqn: Option<Text>,
    /// Number of queues, including the admin queue.
    pub queues: Option<u32>,
    /// Entries of an I/O submission queue.
    pub depth: Option<u32>,
    /// Its namespaces.
    pub disks: Vec<DiskInfo>,
}

impl ControllerInfo {
    /// The name of its device: `nvme0`.
    pub fn name(&self) -> String {
        format!("nvme{}", self.instance)
    }

    /// Adds new controllers. They replace known ones with the same number.
    pub fn update(known: &mut Vec<Self>, new: Vec<Self>) {
        known.retain(|old| new.iter().all(|new| new.instance != old.instance));
        known.extend(new);
    }

    /// Removes what names the controller.
    pub fn redact(&mut self) {
        self.model = Text::default();
        self.nqn = None;
    }

    /// Bytes of a logical block, by controller and namespace.
    pub fn block_sizes(&self) -> impl Iterator<Item = (NamespaceId, u32)> {
        let sizes = self.disks.iter().map(|d| (d.nsid, d.lba_bytes));
        sizes.map(|(nsid, bytes)| (NamespaceId::new(self.instance, nsid), bytes))
    }
}

/// A namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct DiskInfo {
    /// The block device's name: `nvme0n1`.
    pub name: Text,
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

/// The transport of a controller, as sysfs names it (`/sys/class/nvme/nvme0/transport`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transport {
    /// A PCI function, real, passed through or emulated: `nvme.ko`.
    Pcie,
    /// A fabric (tcp, rdma, fc, loop), or a driver that this tool does not hook.
    Other,
}

impl Transport {
    /// The transport with this name.
    pub fn named(name: &str) -> Self {
        match name {
            "pcie" => Self::Pcie,
            _ => Self::Other,
        }
    }

    /// The bits of the points in records that the driver passes; commands wait for a doorbell only if
    /// its bit is set. Doorbell, interrupt and CQE are in functions of `nvme.ko`; the other points are in
    /// `nvme_core` and blk-mq.
    pub fn points(self) -> Pattern {
        let passes = |point: &Point| match point {
            Point::Doorbell | Point::Irq | Point::Cqe => self == Self::Pcie,
            _ => true,
        };
        IN_RECORDS.into_iter().filter(passes).filter_map(Point::pattern_bit).sum()
    }
}

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
