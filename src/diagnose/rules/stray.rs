// SPDX-License-Identifier: MIT OR Apache-2.0
//! Commands that took far longer than their like, beside the others of their queue.

use std::collections::BTreeMap;

use crate::diagnose::command::LONG_NS;
use crate::diagnose::report::{Command, Facts};
use crate::diagnose::stuck::OTHERS_NS;

/// A stray takes this many times the median of its stratum.
const TIMES: u64 = 20;

/// A stray, and the queue that it was in.
pub struct Stray<'f> {
    pub command: &'f Command,
    /// The commands of its queue in the order of their set-ups.
    pub queue: &'f [&'f Command],
    /// The median of its stratum, in nanoseconds.
    pub median_ns: u64,
}

/// The commands of a controller by queue, in the order of their set-ups.
pub struct Queues<'f>(BTreeMap<u16, Vec<&'f Command>>);

impl<'f> Queues<'f> {
    /// Those of a controller.
    pub fn of(facts: &'f Facts, ctrl: u32) -> Self {
        let mut queues: BTreeMap<u16, Vec<&Command>> = BTreeMap::new();
        let long = facts.commands.long.iter();
        let long = long.filter(|c| c.stratum.ctrl == ctrl);
        let set_up = facts.of_ctrl(ctrl).chain(long);
        for command in set_up.filter(|c| c.setup_ns > 0 && c.cqe_ns > 0) {
            queues.entry(command.qid).or_default().push(command);
        }
        for queue in queues.values_mut() {
            queue.sort_by_key(|c| c.setup_ns);
        }
        Self(queues)
    }

    /// The queues.
    pub fn iter(&self) -> impl Iterator<Item = &[&'f Command]> {
        self.0.values().map(Vec::as_slice)
    }

    /// The strays.
    pub fn strays(&'f self, facts: &'f Facts) -> impl Iterator<Item = Stray<'f>> {
        self.0.values().flat_map(move |queue| {
            queue.iter().filter_map(move |&command| {
                let median_ns = facts.stratum(command.stratum)?.begun_p50_ns;
                let usual = match command.is_read_or_write() {
                    true => LONG_NS,
                    false => OTHERS_NS,
                };
                let least = median_ns.saturating_mul(TIMES).max(usual);
                let at_device = command.cqe_ns.saturating_sub(command.setup_ns);
                (at_device >= least).then_some(Stray { command, queue, median_ns })
            })
        })
    }
}

impl<'f> Stray<'f> {
    /// Commands of its queue that were set up after it, in order.
    pub fn later(&self) -> &'f [&'f Command] {
        let setup_ns = self.command.setup_ns;
        let first = self.queue.partition_point(|c| c.setup_ns <= setup_ns);
        &self.queue[first..]
    }

    /// From its set-up to its CQE, in nanoseconds.
    pub const fn time_ns(&self) -> u64 {
        self.command.cqe_ns - self.command.setup_ns
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::diagnose::report::{Collector, Expectation};
    use crate::testing::{EventBuilder, STAGES};

    const MS: u64 = 1_000_000;

    /// A command each 10 ms on queues 1 and 2; those with these numbers take long.
    fn facts(long: &[(u64, u64)]) -> Facts {
        let mut collector = Collector::default();
        let mut events: Vec<_> = (0..100)
            .map(|n| {
                let mut stages = STAGES;
                let found = long.iter().find(|(number, _)| *number == n);
                stages[4] = found.map_or(stages[4], |(_, ns)| *ns);
                EventBuilder::staged(1000 * MS + n * 10 * MS, stages)
                    .cid(n as u16)
                    .qid(1 + (n % 2) as u16)
                    .command()
            })
            .collect();
        events.sort_by_key(|e| e.at_ns);
        events.iter().for_each(|e| collector.event(e));
        collector.finish(Duration::from_secs(1), None, Expectation::None)
    }

    fn strays(facts: &Facts) -> Vec<(u16, u64, u16)> {
        let queues = Queues::of(facts, 0);
        let all = queues.strays(facts);
        let of = |s: Stray<'_>| {
            let next = s.later().first().map_or(0, |c| c.cid);
            (s.command.cid, s.time_ns(), next)
        };
        all.map(of).collect()
    }

    #[test]
    fn a_stray_takes_20_times_the_median_and_100_ms() {
        let facts = facts(&[(10, 99 * MS), (20, 101 * MS), (31, 500 * MS)]);
        // from the set-up to the CQE: map, submit, device, irq
        let rest = 9000;
        let wanted = [(20, 101 * MS + rest, 22), (31, 500 * MS + rest, 33)];
        assert_eq!(strays(&facts), wanted);
    }

    #[test]
    fn where_all_take_long_none_is_a_stray() {
        let long: Vec<(u64, u64)> = (0..100).map(|n| (n, 200 * MS)).collect();
        assert!(strays(&facts(&long)).is_empty());
    }

    #[test]
    fn the_last_command_of_a_queue_has_no_later_ones() {
        assert_eq!(strays(&facts(&[(99, 150 * MS)]))[0].2, 0);
    }
}
