// SPDX-License-Identifier: MIT OR Apache-2.0
//! Gaps in the timers of CPUs: times in which a CPU did not run. Without a timer nothing is known.

use std::collections::BTreeMap;

use crate::model::activity::{Activity, Gap};

use super::command::Command;

/// Most gaps in memory; a machine with more is stolen from anyway.
const MOST: usize = 100_000;

/// Gaps, and when CPUs had a timer, by CPU.
#[derive(Clone, Debug, Default)]
pub struct Gaps {
    by_cpu: BTreeMap<u32, Vec<Gap>>,
    timed: BTreeMap<u32, Vec<(u64, u64)>>,
}

impl Gaps {
    /// Adds a reading.
    pub fn add(&mut self, activity: &Activity) {
        let known: usize = self.by_cpu.values().map(Vec::len).sum();
        for gap in activity.gaps.iter().take(MOST - known) {
            self.by_cpu.entry(gap.cpu).or_default().push(*gap);
        }
        for cpu in activity.cpus.iter().filter(|cpu| cpu.gaps.is_some()) {
            let from = cpu.timed_from_ns;
            let to = if cpu.timed_to_ns == 0 { activity.at_ns } else { cpu.timed_to_ns };
            let spans = self.timed.entry(cpu.cpu).or_default();
            match spans.last_mut() {
                Some(last) if last.0 == from => last.1 = to,
                _ => spans.push((from, to)),
            }
        }
    }

    /// Puts the gaps in order, after the last reading.
    pub fn sort(&mut self) {
        self.by_cpu.values_mut().for_each(|gaps| gaps.sort_by_key(|gap| gap.begin_ns));
    }

    fn spans(&self, cpu: u32) -> &[(u64, u64)] {
        self.timed.get(&cpu).map_or(&[], Vec::as_slice)
    }

    /// How long a CPU had a timer in this time, in nanoseconds.
    pub fn timed_ns(&self, cpu: u32, (from, to): (u64, u64)) -> u64 {
        let parts = self.spans(cpu).iter();
        parts.map(|span| span.1.min(to).saturating_sub(span.0.max(from))).sum()
    }

    /// Whether a CPU had a timer all of this time.
    pub fn has_timer(&self, cpu: u32, (from, to): (u64, u64)) -> bool {
        self.spans(cpu).iter().any(|span| span.0 <= from && to <= span.1)
    }

    /// The gaps of a CPU that begin in this time, or before it and end in it.
    fn in_span(&self, cpu: u32, (from, to): (u64, u64)) -> impl Iterator<Item = &Gap> {
        let gaps = self.by_cpu.get(&cpu).map_or(&[][..], Vec::as_slice);
        let next = gaps.partition_point(|g| g.end_ns < from);
        gaps[next..].iter().take_while(move |g| g.begin_ns <= to)
    }

    /// How long a CPU did not run in this time, in nanoseconds.
    pub fn within(&self, cpu: u32, (from, to): (u64, u64)) -> u64 {
        let gaps = self.in_span(cpu, (from, to));
        gaps.map(|g| g.end_ns.min(to).saturating_sub(g.begin_ns.max(from))).sum()
    }

    /// Whether a CPU of this command had a gap in this time.
    pub fn met(&self, command: &Command, span: (u64, u64)) -> bool {
        let mut cpus = [command.submit_cpu, command.end_cpu].into_iter().flatten();
        cpus.any(|cpu| self.in_span(cpu.into(), span).next().is_some())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::activity::CpuActivity;

    const fn gap(cpu: u32, begin_ns: u64, end_ns: u64) -> Gap {
        Gap { cpu, begin_ns, end_ns }
    }

    #[test]
    fn the_time_of_gaps_within_a_span_is_cut_at_its_ends() {
        let all = vec![gap(0, 40, 60), gap(1, 0, 100), gap(0, 10, 20)];
        let mut gaps = Gaps::default();
        gaps.add(&Activity { gaps: all, ..Activity::default() });
        gaps.sort();
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

    #[test]
    fn a_cpu_is_observed_while_it_has_a_timer() {
        let reading = |at_ns, timer: Option<(u64, u64)>| {
            let (timed_from_ns, timed_to_ns) = timer.unwrap_or_default();
            let cpu = CpuActivity {
                cpu: 1,
                gaps: timer.map(|_| 0),
                timed_from_ns,
                timed_to_ns,
                ..CpuActivity::default()
            };
            Activity { at_ns, cpus: vec![cpu], ..Activity::default() }
        };
        let mut gaps = Gaps::default();
        // the CPU has no commands at first, and is offline for some time
        for (at_ns, timer) in
            [(0, None), (100, Some((30, 99))), (200, Some((30, 150))), (300, Some((250, 299)))]
        {
            gaps.add(&reading(at_ns, timer));
        }
        let spans = [(30, 150), (120, 150), (250, 299)];
        assert!(spans.iter().all(|span| gaps.has_timer(1, *span)));
        let others = [(29, 100), (140, 151), (140, 260), (290, 300)];
        assert!(!others.iter().any(|span| gaps.has_timer(1, *span)));
        assert!(!gaps.has_timer(0, (40, 50)));
        assert_eq!(gaps.timed_ns(1, (0, 300)), 120 + 49);
        assert_eq!(gaps.timed_ns(1, (50, 260)), 100 + 10);
        // recordings of the time when each CPU had a timer from the start on
        let mut gaps = Gaps::default();
        gaps.add(&reading(10, Some((0, 0))));
        gaps.add(&reading(300, Some((0, 0))));
        assert!(gaps.has_timer(1, (10, 300)) && !gaps.has_timer(1, (10, 301)));
    }
}
