// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the machine did besides the commands: counters since the start of the run,
//! and gaps. `None`: not observed.

use super::machine::redacted_upper;
use super::text::Text;
use serde::{Deserialize, Serialize};

/// The counters up to a time.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Activity {
    /// CLOCK_MONOTONIC nanoseconds of the reading.
    pub at_ns: u64,
    /// Online CPUs, by number.
    pub cpus: Vec<CpuActivity>,
    /// Waits before the request, by controller and namespace.
    pub waits: Option<Vec<TagWaits>>,
    /// Bounce buffers used (tracepoint `swiotlb_bounced`), all devices.
    pub bounces: Option<Volume>,
    /// Bounce buffers in use, and in all, in bytes (debugfs `swiotlb`).
    pub bounce_pool: Option<Pool>,
    /// IOMMU mappings (tracepoint `map` of the IOMMU), all devices.
    pub iommu_maps: Option<Volume>,
    /// IOMMU mappings removed (tracepoint `unmap`).
    pub iommu_unmaps: Option<Volume>,
    /// Interrupts of the PCI driver that found no CQE, all controllers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub early_interrupts: Option<u64>,
    /// bios split for a limit of the queue (`block_split`), by controller and namespace.
    pub splits: Option<Vec<Splits>>,
    /// Bios of disks above NVMe: device mapper and md, by name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub upper: Option<Vec<UpperBios>>,
    /// Gaps since the last reading.
    pub gaps: Vec<Gap>,
    /// Gaps that found no room, since the start.
    pub gaps_lost: u64,
    /// How often the kernel skipped one of the programs that observe this, since the start.
    pub skipped: u64,
}

impl Activity {
    /// What was counted since an earlier reading. Gaps and the pool come from this reading.
    #[must_use]
    pub fn since(&self, first: &Self) -> Self {
        let cpus = self.cpus.iter().map(|cpu| {
            let before = first.cpus.iter().find(|c| c.cpu == cpu.cpu);
            before.map_or(*cpu, |before| cpu.since(before))
        });
        let waits = self.waits.as_ref().map(|all| {
            let before = first.waits.as_deref().unwrap_or_default();
            all.iter().map(|waits| waits.since(before)).collect()
        });
        let splits = self.splits.as_ref().map(|all| {
            let before = first.splits.as_deref().unwrap_or_default();
            all.iter().map(|splits| splits.since(before)).collect()
        });
        let upper = self.upper.as_ref().map(|all| {
            let before = first.upper.as_deref().unwrap_or_default();
            all.iter().map(|upper| upper.since(before)).collect()
        });
        let volume = |last: Option<Volume>, first: Option<Volume>| {
            last.map(|last| last.since(first.unwrap_or_default()))
        };
        Self {
            cpus: cpus.collect(),
            waits,
            splits,
            upper,
            bounces: volume(self.bounces, first.bounces),
            iommu_maps: volume(self.iommu_maps, first.iommu_maps),
            iommu_unmaps: volume(self.iommu_unmaps, first.iommu_unmaps),
            early_interrupts: self
                .early_interrupts
                .map(|n| n.saturating_sub(first.early_interrupts.unwrap_or(0))),
            gaps_lost: self.gaps_lost.saturating_sub(first.gaps_lost),
            skipped: self.skipped.saturating_sub(first.skipped),
            ..self.clone()
        }
    }
}

/// Counters of a CPU, nanoseconds since the start of the run.
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
    /// Gaps in the ticks of a timer of this CPU; `None`: it has had none.
    pub gaps: Option<u64>,
    /// Their sum.
    pub gap_ns: u64,
    /// When its timer fired first, CLOCK_MONOTONIC nanoseconds: gaps are observed from then on. A CPU
    /// gets its timer after its first commands, and a new one if it was offline. 0: from the start of the run.
    pub timed_from_ns: u64,
    /// When it fired last. 0: at the reading.
    pub timed_to_ns: u64,
}

impl CpuActivity {
    fn since(&self, first: &Self) -> Self {
        Self {
            steal_ns: self.steal_ns.saturating_sub(first.steal_ns),
            irq_ns: self.irq_ns.saturating_sub(first.irq_ns),
            softirq_ns: self.softirq_ns.saturating_sub(first.softirq_ns),
            idle_ns: self.idle_ns.saturating_sub(first.idle_ns),
            gaps: self.gaps.map(|n| n.saturating_sub(first.gaps.unwrap_or(0))),
            gap_ns: self.gap_ns.saturating_sub(first.gap_ns),
            ..*self
        }
    }
}

/// A time in which a CPU did not run its timer: the hypervisor ran something else, or interrupts were
/// off.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Gap {
    /// The CPU.
    pub cpu: u32,
    /// Its start, CLOCK_MONOTONIC nanoseconds.
    pub begin_ns: u64,
    /// Its end.
    pub end_ns: u64,
}

/// Waits before the request, for a tag among others: from `block_bio_queue` to `block_getrq` of a task, or
/// with the full stage set from `block_bio_queue` of a bio to the allocation of its request.
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

impl TagWaits {
    /// The longest one covers the whole run.
    fn since(&self, first: &[Self]) -> Self {
        let same = |w: &&Self| (w.ctrl, w.nsid) == (self.ctrl, self.nsid);
        let first = first.iter().find(same).copied().unwrap_or_default();
        Self {
            requests: self.requests.saturating_sub(first.requests),
            waited: self.waited.saturating_sub(first.waited),
            sum_ns: self.sum_ns.saturating_sub(first.sum_ns),
            ..*self
        }
    }
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

impl Volume {
    const fn since(self, first: Self) -> Self {
        Self {
            count: self.count.saturating_sub(first.count),
            bytes: self.bytes.saturating_sub(first.bytes),
        }
    }
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

impl Splits {
    fn since(&self, first: &[Self]) -> Self {
        let same = |s: &&Self| (s.ctrl, s.nsid) == (self.ctrl, self.nsid);
        let first = first.iter().find(same).copied().unwrap_or_default();
        Self { count: self.count.saturating_sub(first.count), ..*self }
    }
}

impl Activity {
    /// Removes the names that users gave.
    pub fn redact(&mut self) {
        for upper in self.upper.iter_mut().flatten() {
            upper.name = redacted_upper(&upper.name);
        }
    }
}

/// Bios of a disk above NVMe that have ended, from their submission to their end. Their pieces do not count.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct UpperBios {
    /// The disk: `dm-0`, `md0`.
    pub name: Text,
    /// How many.
    pub bios: u64,
    /// The sum of their times, in nanoseconds.
    pub sum_ns: u64,
    /// The longest.
    pub max_ns: u64,
}

impl UpperBios {
    /// The longest one covers the whole run.
    fn since(&self, first: &[Self]) -> Self {
        let before = first.iter().find(|upper| upper.name == self.name);
        let (bios, sum_ns) = before.map_or((0, 0), |upper| (upper.bios, upper.sum_ns));
        Self {
            bios: self.bios.saturating_sub(bios),
            sum_ns: self.sum_ns.saturating_sub(sum_ns),
            ..self.clone()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn differences_are_taken_per_cpu_and_namespace() {
        let cpu = |cpu, steal_ns| CpuActivity { cpu, steal_ns, ..CpuActivity::default() };
        let splits = |nsid, count| Splits { ctrl: 0, nsid, count };
        let volume = |count| Some(Volume { count, bytes: 2 * count });
        let first = Activity {
            cpus: vec![cpu(0, 5), cpu(1, 7)],
            splits: Some(vec![splits(1, 10)]),
            bounces: volume(4),
            ..Activity::default()
        };
        let last = Activity {
            // CPU 0 is offline now, CPU 2 is new
            cpus: vec![cpu(1, 8), cpu(2, 9)],
            splits: Some(vec![splits(2, 3), splits(1, 15)]),
            bounces: volume(6),
            iommu_maps: volume(1),
            ..Activity::default()
        };
        let since = last.since(&first);
        assert_eq!(since.cpus, [cpu(1, 1), cpu(2, 9)]);
        assert_eq!(since.splits, Some(vec![splits(2, 3), splits(1, 5)]));
        assert_eq!((since.bounces, since.iommu_maps), (volume(2), volume(1)));
        assert_eq!(since.waits, None);
    }
}
