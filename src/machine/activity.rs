// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the kernel counts of the machine: CPU times, and the pool of bounce buffers.

use std::collections::BTreeSet;
use std::fs;

use rustix::param::clock_ticks_per_second;

use super::overview::list_ranges;
use super::{System, read_line};
use crate::model::activity::Pool;

/// Bytes of a bounce buffer (IO_TLB_SIZE of include/linux/swiotlb.h).
const BOUNCE_BYTES: u64 = 2048;

/// Times of a CPU since the boot, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CpuTimes {
    /// Its number.
    pub cpu: u32,
    /// Ready to run, but the hypervisor ran something else.
    pub steal_ns: u64,
    /// In hard interrupts; 0 on kernels that do not account for them.
    pub irq_ns: u64,
    /// In soft interrupts.
    pub softirq_ns: u64,
    /// Idle, with or without outstanding I/O.
    pub idle_ns: u64,
}

/// A line `cpuN ...` of /proc/stat. The times are in ticks of `tick_ns`. The procfs crate omits
/// the numbers of the CPUs. Some may be offline.
fn cpu_line(line: &str, tick_ns: u64) -> Option<CpuTimes> {
    let mut words = line.split_whitespace();
    let cpu = words.next()?.strip_prefix("cpu")?.parse().ok()?;
    // user nice system idle iowait irq softirq steal
    let times: Vec<u64> = words.map_while(|word| word.parse().ok()).collect();
    let ns = |field: usize| times.get(field).map(|ticks: &u64| ticks.saturating_mul(tick_ns));
    Some(CpuTimes {
        cpu,
        steal_ns: ns(7)?,
        irq_ns: ns(5)?,
        softirq_ns: ns(6)?,
        idle_ns: ns(3)?.saturating_add(ns(4)?),
    })
}

impl System {
    /// The times of the CPUs that are online. Empty if /proc/stat cannot be read.
    pub fn cpu_times(&self) -> Vec<CpuTimes> {
        let tick_ns = 1_000_000_000 / clock_ticks_per_second().max(1);
        let text = fs::read_to_string(self.path("proc/stat")).unwrap_or_default();
        let lines = text.lines().filter_map(|line| cpu_line(line, tick_ns));
        lines.collect()
    }

    /// How often a CPU may take samples, per second (kernel.perf_event_max_sample_rate); `None` if
    /// it cannot be read.
    pub fn sample_rate(&self) -> Option<u32> {
        let path = self.path("proc/sys/kernel/perf_event_max_sample_rate");
        read_line(&path)?.parse().ok()
    }

    /// The CPUs that tasks and interrupts are kept away from, so that nothing interrupts what runs
    /// there: `isolcpus`, `nohz_full`.
    pub fn isolated_cpus(&self) -> BTreeSet<u32> {
        let lists = ["isolated", "nohz_full"].map(|name| {
            let list = read_line(&self.path("sys/devices/system/cpu").join(name));
            // without any it is empty, or `(null)`
            list_ranges(&list.unwrap_or_default()).unwrap_or_default()
        });
        lists.into_iter().flatten().flatten().collect()
    }

    /// The pool of bounce buffers; `None` if the kernel has none, or debugfs cannot be read.
    pub fn bounce_pool(&self) -> Option<Pool> {
        let bytes = |file: &str| {
            let path = self.path("sys/kernel/debug/swiotlb").join(file);
            let slots: u64 = read_line(&path)?.parse().ok()?;
            Some(slots.saturating_mul(BOUNCE_BYTES))
        };
        Some(Pool { used: bytes("io_tlb_used")?, size: bytes("io_tlb_nslabs")? })
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::put;
    use super::*;
    use tempfile::TempDir;

    #[test]
    fn cpu_times_come_with_the_numbers_of_the_cpus() {
        let root = TempDir::new().unwrap();
        let system = System::at(root.path());
        assert_eq!(system.cpu_times(), []);
        let text = "cpu  9 9 9 9 9 9 9 9 0 0\n\
                    cpu0 1 2 3 4 5 6 7 8 0 0\n\
                    cpu2 0 0 0 100 0 0 0 0 0 0\n\
                    intr 1 2\nctxt 5\n";
        put(&root, "proc/stat", text);
        let tick = 1_000_000_000 / clock_ticks_per_second();
        let first = CpuTimes {
            cpu: 0,
            steal_ns: 8 * tick,
            irq_ns: 6 * tick,
            softirq_ns: 7 * tick,
            idle_ns: 9 * tick,
        };
        let third = CpuTimes { cpu: 2, idle_ns: 100 * tick, ..CpuTimes::default() };
        assert_eq!(system.cpu_times(), [first, third]);
    }

    #[test]
    fn isolated_cpus_are_those_of_both_lists() {
        let root = TempDir::new().unwrap();
        let system = System::at(root.path());
        assert!(system.isolated_cpus().is_empty());
        put(&root, "sys/devices/system/cpu/isolated", "\n");
        put(&root, "sys/devices/system/cpu/nohz_full", "  (null)\n");
        assert!(system.isolated_cpus().is_empty());
        put(&root, "sys/devices/system/cpu/isolated", "2-3\n");
        put(&root, "sys/devices/system/cpu/nohz_full", "3,6\n");
        assert_eq!(system.isolated_cpus(), [2, 3, 6].into());
    }

    #[test]
    fn the_limit_of_samples_is_that_of_the_kernel() {
        let root = TempDir::new().unwrap();
        let system = System::at(root.path());
        assert_eq!(system.sample_rate(), None);
        let file = "proc/sys/kernel/perf_event_max_sample_rate";
        put(&root, file, "100000\n");
        assert_eq!(system.sample_rate(), Some(100_000));
    }

    #[test]
    fn a_pool_of_bounce_buffers_is_known_if_both_numbers_are() {
        let root = TempDir::new().unwrap();
        let system = System::at(root.path());
        put(&root, "sys/kernel/debug/swiotlb/io_tlb_nslabs", "32768\n");
        assert_eq!(system.bounce_pool(), None);
        put(&root, "sys/kernel/debug/swiotlb/io_tlb_used", "3\n");
        let pool = Pool { used: 6144, size: 64 << 20 };
        assert_eq!(system.bounce_pool(), Some(pool));
    }
}
