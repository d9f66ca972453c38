// SPDX-License-Identifier: MIT OR Apache-2.0
//! Hardware queues, and their interrupts.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use crate::model::event::{Event, EventKind};
use crate::model::ids::QueueId;

/// Counts of a queue since some time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct QueueCounts {
    /// Completed commands.
    pub commands: u64,
    /// Interrupts of its vector by CPU; `None` if not known.
    pub interrupts: Option<BTreeMap<u32, u64>>,
    /// The number of its interrupt in /proc/interrupts, if known.
    pub irq: Option<u32>,
}

/// A queue in one interval.
#[derive(Clone, Debug, PartialEq)]
pub struct QueueLine {
    /// Which queue.
    pub id: QueueId,
    /// Completed commands per second.
    pub iops: f64,
    /// Commands in flight: at the end of the interval, or in a recording the mean of the interval.
    pub in_flight: f64,
    /// Interrupts per second, if known.
    pub interrupts: Option<f64>,
    /// The number of its interrupt, if known.
    pub irq: Option<u32>,
    /// The CPUs that took its interrupts; in a recording, those that completed its commands.
    pub cpus: BTreeSet<u32>,
}

/// Counts of all queues, at some time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Queues(pub BTreeMap<QueueId, QueueCounts>);

impl Queues {
    /// The queues that were used between `earlier` and now, or have commands in flight.
    #[must_use]
    pub fn lines(
        &self,
        earlier: &Self,
        in_flight: &BTreeMap<QueueId, u64>,
        covers: Duration,
    ) -> Vec<QueueLine> {
        let seconds = covers.as_secs_f64().max(1e-9);
        let none = QueueCounts::default();
        let line = |(id, now): (&QueueId, &QueueCounts)| {
            let was = earlier.0.get(id).unwrap_or(&none);
            let before = |cpu: &u32| was.interrupts.as_ref().and_then(|all| all.get(cpu)).copied();
            let since = |(cpu, n): (&u32, &u64)| {
                let n = n.saturating_sub(before(cpu).unwrap_or(0));
                (n > 0).then_some((*cpu, n))
            };
            let by_cpu: Option<BTreeMap<u32, u64>> =
                now.interrupts.as_ref().map(|all| all.iter().filter_map(since).collect());
            let commands = now.commands.saturating_sub(was.commands);
            let in_flight = in_flight.get(id).copied().unwrap_or(0);
            (commands + in_flight > 0).then(|| QueueLine {
                id: *id,
                iops: commands as f64 / seconds,
                in_flight: in_flight as f64,
                interrupts: by_cpu.as_ref().map(|all| all.values().sum::<u64>() as f64 / seconds),
                irq: now.irq,
                cpus: by_cpu.into_iter().flatten().map(|(cpu, _)| cpu).collect(),
            })
        };
        self.0.iter().filter_map(line).collect()
    }
}

/// The queues of an interval of a recording.
#[derive(Clone, Debug, Default)]
pub struct QueueCollector(BTreeMap<QueueId, (u64, u64, BTreeSet<u32>)>);

/// Most queues of an interval that are kept: more than any screen shows, or machine has.
const MOST_QUEUES: usize = 1 << 16;

impl QueueCollector {
    /// Adds an event.
    pub fn add(&mut self, event: &Event) {
        if let EventKind::Command(id, _, outcome) = &event.what {
            if self.0.len() >= MOST_QUEUES && !self.0.contains_key(&id.queue()) {
                return;
            }
            let (commands, ns, cpus) = self.0.entry(id.queue()).or_default();
            *commands += 1;
            *ns = ns.saturating_add(outcome.latency_ns.unwrap_or(0));
            cpus.insert(outcome.cpu.into());
        }
    }

    /// The queues of the interval, which is over.
    #[must_use]
    pub fn take(&mut self, covers: Duration) -> Vec<QueueLine> {
        let seconds = covers.as_secs_f64().max(1e-9);
        std::mem::take(&mut self.0)
            .into_iter()
            .map(|(id, (commands, ns, cpus))| QueueLine {
                id,
                iops: commands as f64 / seconds,
                in_flight: ns as f64 / 1e9 / seconds,
                interrupts: None,
                irq: None,
                cpus,
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::EventBuilder;

    fn read(ctrl: u32, qid: u16) -> Event {
        EventBuilder::read().ctrl(ctrl).qid(qid).command()
    }

    /// Events of more queues than a machine has, as in a file that was made so.
    #[test]
    fn the_queues_of_an_interval_are_bounded() {
        let mut collector = QueueCollector::default();
        for n in 0..MOST_QUEUES as u32 + 10 {
            collector.add(&read(n >> 15, n as u16 & 0x7fff));
        }
        // the queues that are kept go on
        collector.add(&read(0, 0));
        let lines = collector.take(Duration::from_secs(1));
        assert_eq!(lines.len(), MOST_QUEUES);
        assert_eq!((lines[0].id, lines[0].iops), (QueueId::new(0, 0), 2.0));
        collector.add(&read(9, 9));
        assert_eq!(collector.take(Duration::from_secs(1)).len(), 1);
    }

    #[test]
    fn lines_are_of_the_interval() {
        let counts = |commands, interrupts: &[(u32, u64)]| QueueCounts {
            commands,
            interrupts: Some(interrupts.iter().copied().collect()),
            irq: Some(27),
        };
        let earlier = Queues([(QueueId::new(0, 1), counts(100, &[(0, 50), (1, 7)]))].into());
        let now = [
            (QueueId::new(0, 1), counts(300, &[(0, 150), (1, 7)])),
            (QueueId::new(0, 2), counts(0, &[(1, 3)])),
            (QueueId::new(0, 3), counts(0, &[])),
        ];
        let in_flight = [(QueueId::new(0, 3), 2)].into();
        let lines = Queues(now.into()).lines(&earlier, &in_flight, Duration::from_secs(2));
        let [used, waiting] = lines.as_slice() else {
            panic!("{lines:?}");
        };
        assert_eq!((used.id, used.iops, used.interrupts), (QueueId::new(0, 1), 100.0, Some(50.0)));
        assert_eq!((used.irq, &used.cpus), (Some(27), &BTreeSet::from([0])));
        assert_eq!((waiting.id, waiting.iops, waiting.in_flight), (QueueId::new(0, 3), 0.0, 2.0));
    }
}
