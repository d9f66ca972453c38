// SPDX-License-Identifier: MIT OR Apache-2.0
//! How much memory the maps of a run may take.

use std::fs;

use super::System;

/// Bytes that the maps of a run may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MapMemory {
    /// What they take at most, unless the slots alone need more.
    pub usual: usize,
    /// What the slots take at most.
    pub most: usize,
}

/// The usual part of the memory, and the least number of bytes.
const PART: u64 = 400;
const LEAST: u64 = 64 << 20;
/// The largest part of the memory.
const LARGEST: u64 = 16;

impl MapMemory {
    /// For a machine with this much memory, in a cgroup with this limit.
    pub fn of(total: u64, limit: Option<u64>) -> Self {
        let half = limit.map_or(u64::MAX, |limit| limit / 2);
        let usual = (total / PART).max(LEAST);
        let most = (total / LARGEST).max(usual);
        let bytes = |n: u64| usize::try_from(n).unwrap_or(usize::MAX);
        // a third of half the limit is left for the cells
        Self { usual: bytes(usual.min(half)), most: bytes(most.min(half / 3 * 2)) }
    }
}

impl System {
    /// How much memory the maps of a run may take here.
    pub fn map_memory(&self) -> MapMemory {
        MapMemory::of(self.total_memory().unwrap_or(0), self.cgroup_memory())
    }

    fn total_memory(&self) -> Option<u64> {
        let text = fs::read_to_string(self.path("proc/meminfo")).ok()?;
        let kib = text.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
        Some(kib.trim().strip_suffix(" kB")?.parse::<u64>().ok()? << 10)
    }

    /// The least limit of the cgroups of this process.
    fn cgroup_memory(&self) -> Option<u64> {
        let text = fs::read_to_string(self.path("proc/self/cgroup")).ok()?;
        let own = text.lines().find_map(|line| line.strip_prefix("0::/"))?;
        let top = self.cgroups()?;
        let dirs = top.join(own);
        let dirs = dirs.ancestors().take_while(|dir| dir.starts_with(&top));
        let limit = |dir| fs::read_to_string(dir).ok()?.trim().parse::<u64>().ok();
        dirs.filter_map(|dir| limit(dir.join("memory.max"))).min()
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::put;
    use super::*;
    use tempfile::TempDir;

    #[test]
    fn maps_take_a_part_of_the_memory_and_half_of_a_cgroups() {
        let of = |total_gib: u64, limit: Option<u64>| {
            let memory = MapMemory::of(total_gib << 30, limit.map(|mib| mib << 20));
            [memory.usual >> 20, memory.most >> 20]
        };
        for (total, limit, want) in [
            (0, None, [64, 64]),
            (4, None, [64, 256]),
            (256, None, [655, 16384]),
            (256, Some(1024), [512, 341]),
            (4, Some(96), [48, 32]),
        ] {
            assert_eq!(of(total, limit), want, "{total} GiB, {limit:?} MiB");
        }
    }

    #[test]
    fn the_least_limit_of_the_cgroups_of_this_process_counts() {
        let root = TempDir::new().unwrap();
        let system = System::at(root.path());
        assert_eq!(system.map_memory(), MapMemory::of(0, None));
        put(&root, "proc/meminfo", "MemTotal:       16384000 kB\nMemFree: 1 kB\n");
        put(&root, "proc/mounts", "c /cg cgroup2 rw 0 0\n");
        put(&root, "proc/self/cgroup", "0::/a/b\n");
        put(&root, "cg/a/memory.max", "268435456");
        put(&root, "cg/a/b/memory.max", "max");
        assert_eq!(system.map_memory(), MapMemory::of(16_384_000 << 10, Some(256 << 20)));
    }
}
