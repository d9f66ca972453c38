// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which CPUs share a last-level cache.

use std::collections::BTreeMap;

use super::System;
use super::overview::list_ranges;

/// Indexes of the caches of a CPU in sysfs: L1 (data, instructions), L2, L3, L4.
const INDEXES: u32 = 5;

impl System {
    /// The group of each of the first `cpus` CPUs: CPUs of a group share the last-level cache. Groups
    /// have numbers from 0. All CPUs of which sysfs shows no cache, as in many virtual machines, are
    /// one group.
    pub fn cache_groups(&self, cpus: u32) -> Vec<u32> {
        let mut groups = BTreeMap::new();
        let (mut next, mut without_cache) = (0, None);
        for cpu in 0..cpus {
            if groups.contains_key(&cpu) {
                continue;
            }
            let shared = self.last_level(cpu).and_then(|list| list_ranges(&list));
            let group = match shared {
                Some(_) => next,
                None => *without_cache.get_or_insert(next),
            };
            next = next.max(group + 1);
            groups.insert(cpu, group);
            groups.extend(shared.into_iter().flatten().flatten().map(|cpu| (cpu, group)));
        }
        groups.into_values().take(cpus as usize).collect()
    }

    /// The CPUs that share this CPU's cache of the highest level, as a list.
    fn last_level(&self, cpu: u32) -> Option<String> {
        let read = |index: u32, name: &str| {
            let path = format!("sys/devices/system/cpu/cpu{cpu}/cache/index{index}/{name}");
            self.text(&path).known().cloned()
        };
        let level = |index: &u32| read(*index, "level")?.parse::<u32>().ok();
        let last = (0..INDEXES).filter(|index| level(index).is_some()).max_by_key(level)?;
        read(last, "shared_cpu_list")
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::put;
    use super::*;
    use tempfile::TempDir;

    #[test]
    fn cpus_of_a_last_level_cache_are_a_group() {
        let root = TempDir::new().unwrap();
        let system = System::at(root.path());
        assert_eq!(system.cache_groups(3), [0, 0, 0]);
        for (cpu, l2, l3) in [(0, "0", "0,2"), (1, "1", "1"), (2, "2", "0,2")] {
            for (index, level, list) in [(0, "1", l2), (2, "2", l2), (3, "3", l3)] {
                let dir = format!("sys/devices/system/cpu/cpu{cpu}/cache/index{index}");
                put(&root, &format!("{dir}/level"), level);
                put(&root, &format!("{dir}/shared_cpu_list"), list);
            }
        }
        // CPU 3 is offline
        assert_eq!(system.cache_groups(4), [0, 1, 0, 2]);
    }
}
