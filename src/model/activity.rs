// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the machine did besides the commands, with `--context`: counters since the begin of the run,
//! and gaps. `None`: not observed.

use serde::Deserialize;
use serde::Serialize;

/// The counters up to a time.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Activity {
    /// CLOCK_MONOTONIC nanoseconds of the reading.
    pub at_ns: u64,
    /// Online CPUs, by number.
    pub cpus: Vec<CpuActivity>,
    /// Waits for a tag, by controller and namespace.
    pub waits: Option<Vec<TagWaits>>,
    /// Bounce buffers used (tracepoint `swiotlb_bounced`), all devices.
    pub bounces: Option<Volume>,
    /// Bounce buffers in use, and in all, in bytes (debugfs `swiotlb`).
    pub bounce_pool: Option<Pool>,
    /// IOMMU mappings (tracepoint `map` of the IOMMU), all devices.
    pub iommu_maps: Option<Volume>,
    /// IOMMU mappings removed (tracepoint `unmap`).
    pub iommu_unmaps: Option<Volume>,
    /// bios split for a limit of the queue (`block_split`), by controller and namespace.
    pub splits: Option<Vec<Splits>>,
    /// Gaps since the last reading.
    pub gaps: Vec<Gap>,
    /// Gaps that found no room, since the begin.
    pub gaps_lost: u64,
    /// The programs of these observations that the kernel skipped, since the begin.
    pub skipped: u64,
}

/// Counters of a CPU, nanoseconds since the begin of the run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct CpuActivity {
    /// Its number.
    pub cpu: u32,
    /// Ready to run, but the hypervisor ran something else (/proc/stat).
    pub steal_ns: u64,
    /// In hard interrupts (/proc/stat).
    pub irq_ns: u64,
    /// In soft interrupts (/proc/stat).
    pub softirq_ns: u64,
    /// Idle (/proc/stat).
    pub idle_ns: u64,
    /// Gaps in the ticks of a timer of this CPU; `None`: no timer.
    pub gaps: Option<u64>,
    /// Their sum.
    pub gap_ns: u64,
}

/// A time in which a CPU did not run its timer: the hypervisor ran something else, or interrupts were
/// off.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Gap {
    /// The CPU.
    pub cpu: u32,
    /// CLOCK_MONOTONIC nanoseconds of its begin.
    pub begin_ns: u64,
    /// And of its end.
    pub end_ns: u64,
}

/// Waits for a tag: from `block_bio_queue` to `block_getrq` of a task.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct TagWaits {
    /// Controller instance.
    pub ctrl: u32,
    /// Namespace id; 0: any.
    pub nsid: u32,
    /// Requests observed.
    pub requests: u64,
    /// Of these, waits above 20 us.
    pub waited: u64,
    /// Sum of all waits, in nanoseconds.
    pub sum_ns: u64,
    /// The longest.
    pub max_ns: u64,
}

/// A number, and bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Volume {
    /// How often.
    pub count: u64,
    /// Bytes.
    pub bytes: u64,
}

/// A pool of memory, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Pool {
    /// In use.
    pub used: u64,
    /// In all.
    pub size: u64,
}

/// Splits of bios.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Splits {
    /// Controller instance.
    pub ctrl: u32,
    /// Namespace id; 0: any.
    pub nsid: u32,
    /// How many.
    pub count: u64,
}
