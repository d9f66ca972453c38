// SPDX-License-Identifier: MIT OR Apache-2.0
//! Gaps in the timers of CPUs: times in which a CPU did not run.

use std::collections::BTreeMap;

use crate::model::activity::Gap;

use super::command::Command;

/// Gaps by CPU, in order.
#[derive(Clone, Debug, Default)]
pub struct Gaps(BTreeMap<u32, Vec<Gap>>);

impl Gaps {
    /// These gaps.
    pub fn of(gaps: &[Gap]) -> Self {
        let mut all: BTreeMap<u32, Vec<Gap>> = BTreeMap::new();
        for gap in gaps {
            all.entry(gap.cpu).or_default().push(*gap);
        }
        for gaps in all.values_mut() {
            gaps.sort_by_key(|g| g.begin_ns);
        }
        Self(all)
    }

    /// Whether a CPU of this command had a gap in this time.
    pub fn met(&self, command: &Command, (from, to): (u64, u64)) -> bool {
        let cpus = [command.submit_cpu, command.end_cpu];
        cpus.into_iter().flatten().any(|cpu| {
            let gaps = self.0.get(&cpu.into()).map_or(&[][..], Vec::as_slice);
            let next = gaps.partition_point(|g| g.end_ns < from);
            gaps.get(next).is_some_and(|g| g.begin_ns <= to)
        })
    }
}
