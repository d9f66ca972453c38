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

    /// How long a CPU did not run in this time, in nanoseconds.
    pub fn within(&self, cpu: u32, (from, to): (u64, u64)) -> u64 {
        let gaps = self.0.get(&cpu).map_or(&[][..], Vec::as_slice);
        let next = gaps.partition_point(|g| g.end_ns < from);
        let met = gaps[next..].iter().take_while(|g| g.begin_ns < to);
        met.map(|g| g.end_ns.min(to).saturating_sub(g.begin_ns.max(from)))
            .sum()
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

#[cfg(test)]
mod tests {
    use super::*;

    const fn gap(cpu: u32, begin_ns: u64, end_ns: u64) -> Gap {
        Gap {
            cpu,
            begin_ns,
            end_ns,
        }
    }

    #[test]
    fn the_time_of_gaps_within_a_span_is_cut_at_its_ends() {
        let gaps = Gaps::of(&[gap(0, 10, 20), gap(0, 40, 60), gap(1, 0, 100)]);
        for (span, wanted) in [
            ((0, 10), 0),
            ((0, 15), 5),
            ((15, 50), 15),
            ((0, 100), 30),
            ((20, 40), 0),
            ((45, 50), 5),
            ((60, 90), 0),
        ] {
            assert_eq!(gaps.within(0, span), wanted, "{span:?}");
        }
        assert_eq!(gaps.within(2, (0, 100)), 0);
    }
}
