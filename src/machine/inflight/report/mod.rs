// SPDX-License-Identifier: MIT OR Apache-2.0
//! The commands in flight, from two readings of the kernel's memory, and what a run has observed of
//! them.

mod usual;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use crate::machine::inflight::{
    CommandReading, ControllerAt, QueueReading, StuckAt, StuckState, TagsReading, Timeout, Walker,
    judge,
};
use crate::model::ids::QueueId;
use crate::nvme::sqe::Sqe;

pub use self::usual::{
    AgeError, AgeLimit, Aged, Ages, DEFAULT_LIMIT, MIN_COMMANDS, Observed, Seen, Usual,
};

/// One reading of a machine.
#[derive(Clone, Debug, Default)]
pub struct Reading {
    /// The controllers that were found.
    pub controllers: BTreeSet<u32>,
    /// Tags and commands by queue. The state of the queue, with its SQ, is there for controllers on
    /// PCI whose queue has commands.
    pub queues: BTreeMap<QueueId, (TagsReading, Option<QueueReading>)>,
    /// Queues whose tags could not be read.
    pub unreadable: Vec<QueueId>,
}

impl Reading {
    /// Reads the controllers for which `wanted` holds. `is_pci`: whether a controller is on PCI, so
    /// that its queues can be read.
    pub fn take(
        walker: &mut Walker<'_>,
        controllers: &[ControllerAt],
        wanted: impl Fn(u32) -> bool,
        is_pci: impl Fn(u32) -> bool,
    ) -> Self {
        let mut reading = Self::default();
        for ctrl in controllers.iter().filter(|c| wanted(c.instance)) {
            reading.controllers.insert(ctrl.instance);
            for tags in walker.queues(ctrl) {
                let id = QueueId::new(ctrl.instance, tags.qid);
                let Some(mut found) = walker.commands(&tags) else {
                    reading.unreadable.push(id);
                    continue;
                };
                let mut queue = None;
                if is_pci(ctrl.instance) && !found.commands.is_empty() {
                    queue = walker.queue(ctrl, tags.qid, &mut found.commands);
                }
                reading.queues.insert(id, (found, queue));
            }
        }
        reading
    }

    /// Whether a command is old.
    pub fn has_old(&self, ages: &Ages<'_>) -> bool {
        let mut queues = self.queues.iter();
        queues.any(|(id, (tags, _))| tags.commands.iter().any(|c| ages.of(*id, c).is_old))
    }
}

/// A command in flight.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CommandLine {
    /// Its queue.
    pub queue: QueueId,
    /// Its tag, the lower 12 bits of its command id.
    pub tag: u32,
    /// Its SQE, if it was found.
    pub sqe: Option<Sqe>,
    /// The time since its setup, if a run has observed that. Otherwise since the driver started it,
    /// at a resolution of a jiffy; a lower bound, because a reset of its timer starts it again.
    /// `None`: the length of a jiffy is not known.
    pub age: Option<Duration>,
    /// Whether it has reached the limit of age.
    pub is_old: bool,
    /// What a run has observed of it.
    pub seen: Option<Seen>,
    /// The last point that it has reached.
    pub place: StuckAt,
    /// `None`: the length of a jiffy is not known.
    pub timeout: Option<Timeout>,
    /// What became of it; `None` if it is not old, or its queue cannot be read.
    pub verdict: Option<StuckState>,
}

/// A queue with tags in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueLine {
    /// The queue.
    pub queue: QueueId,
    /// Started commands.
    pub in_flight: u32,
    /// Tags in use, also by requests that are not started.
    pub tags_used: u32,
    /// Tags of the queue.
    pub tags: u32,
    /// Age of its oldest command.
    pub oldest: Option<Duration>,
    /// Whether it has shadow doorbells; `None` if the queue cannot be read.
    pub shadow: Option<bool>,
}

/// The commands in flight at one moment.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct InFlight {
    /// Commands, oldest first.
    pub commands: Vec<CommandLine>,
    /// Queues with tags in use.
    pub queues: Vec<QueueLine>,
    /// Queues that could not be read.
    pub unreadable: Vec<QueueId>,
}

/// The same command in another reading.
fn earlier<'a>(first: &'a Reading, id: QueueId, of: &CommandReading) -> Option<&'a CommandReading> {
    let (tags, _) = first.queues.get(&id)?;
    tags.commands.iter().find(|c| c.tag == of.tag)
}

impl InFlight {
    /// The commands of the second reading. Old ones get a verdict. `wanted`: the commands to include.
    pub fn new(
        first: &Reading,
        second: &Reading,
        ages: &Ages<'_>,
        wanted: impl Fn(QueueId, Option<&Sqe>) -> bool,
    ) -> Self {
        let mut found = Self { unreadable: second.unreadable.clone(), ..Self::default() };
        for (id, (tags, queue)) in &second.queues {
            let before = first.queues.get(id).and_then(|(_, queue)| queue.as_ref());
            let mut lines = vec![];
            for command in &tags.commands {
                if !wanted(*id, command.sqe.as_ref()) {
                    continue;
                }
                let Aged { age, seen, is_old } = ages.of(*id, command);
                let verdict = queue.as_ref().filter(|_| is_old).map(|queue| {
                    let then = before.zip(earlier(first, *id, command));
                    then.map_or(StuckState::Unknown, |then| judge(then, (queue, command)))
                });
                lines.push(CommandLine {
                    queue: *id,
                    tag: command.tag,
                    sqe: command.sqe,
                    age,
                    is_old,
                    seen,
                    place: StuckAt::of(queue.as_ref(), command),
                    timeout: ages
                        .ticks
                        .and_then(|ticks| ticks.timeout(command.deadline, command.timeout)),
                    verdict,
                });
            }
            if tags.used > 0 {
                found.queues.push(QueueLine {
                    queue: *id,
                    in_flight: u32::try_from(tags.commands.len()).unwrap_or(u32::MAX),
                    tags_used: tags.used,
                    tags: tags.total,
                    oldest: lines.iter().filter_map(|l| l.age).max(),
                    shadow: queue.as_ref().map(|q| q.event_index.is_some()),
                });
            }
            found.commands.extend(lines);
        }
        found.commands.sort_by_key(|line| std::cmp::Reverse(line.age));
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::inflight::Ticks;

    fn command(tag: u32, deadline: u64) -> CommandReading {
        let request = u64::from(tag) * 0x100;
        CommandReading { request, tag, deadline, timeout: 30, ..CommandReading::default() }
    }

    fn reading(commands: &[CommandReading]) -> Reading {
        let queue = QueueReading {
            sq: 1,
            cq: 1,
            depth: 8,
            sq_tail: 3,
            rung_tail: 3,
            cids: vec![0, 1, 2, 0, 0, 0, 0, 0],
            sq_head: Some(3),
            head_moves: true,
            ..QueueReading::default()
        };
        let tags = TagsReading { total: 7, used: 4, commands: commands.to_vec() };
        Reading {
            controllers: [0].into(),
            queues: [(QueueId::new(0, 1), (tags, Some(queue)))].into(),
            unreadable: vec![],
        }
    }

    #[test]
    fn old_commands_get_a_verdict_and_the_oldest_comes_first() {
        let ticks = Some(Ticks { now: 1000, hz: 100 });
        // ages of 0.1, 2 and 5 s; tag 2 was started between the readings
        let first = reading(&[command(0, 1020), command(1, 830), command(2, 529)]);
        let second = reading(&[command(0, 1020), command(1, 830), command(2, 530)]);
        let all = |_: QueueId, _: Option<&Sqe>| true;
        let ages =
            Ages { ticks, at_ns: 0, limit: AgeLimit::Time(Duration::from_secs(1)), run: None };
        assert!(first.has_old(&ages) && !reading(&[command(0, 1020)]).has_old(&ages));
        let found = InFlight::new(&first, &second, &ages, all);
        let lines: Vec<_> = found.commands.iter().map(|c| (c.tag, c.verdict)).collect();
        let expected = [(2, Some(StuckState::Unknown)), (1, Some(StuckState::Held)), (0, None)];
        assert_eq!(lines, expected);
        let [queue] = found.queues[..] else {
            panic!("{found:?}");
        };
        assert_eq!((queue.in_flight, queue.tags_used, queue.tags), (3, 4, 7));
        assert_eq!(queue.oldest, Some(Duration::from_secs(5)));
    }

    #[test]
    fn without_the_length_of_a_jiffy_there_is_no_age_and_no_verdict() {
        let both = reading(&[command(1, 830)]);
        let ages = Ages { ticks: None, at_ns: 0, limit: AgeLimit::Time(Duration::ZERO), run: None };
        let found = InFlight::new(&both, &both, &ages, |_, _| true);
        assert_eq!((found.commands[0].age, found.commands[0].verdict), (None, None));
    }
}
