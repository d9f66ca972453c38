// SPDX-License-Identifier: MIT OR Apache-2.0
//! Settings of a machine, of its controllers and of its disks. Recordings hold them as JSON: a field that
//! one lacks has its default.

use serde::{Deserialize, Serialize};

use super::io_control::{IoCost, IoLimits};
use super::untrusted::Untrusted;

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
    /// Where cgroups of version 2 are mounted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cgroup_mount: Option<Untrusted>,
    /// The controllers.
    pub controllers: Vec<MachineController>,
}

impl MachineInfo {
    /// Removes the names that users gave, and what identifies the machine.
    pub fn redact(&mut self) {
        for controller in &mut self.controllers {
            controller.bar = None;
            let disks = controller.disks.iter_mut();
            let limits = disks.filter_map(|disk| disk.limits.as_mut());
            for limit in limits.flat_map(|limits| &mut limits.cgroups) {
                limit.cgroup = Untrusted::default();
            }
        }
    }
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
    pub zoned: Option<Untrusted>,
}
