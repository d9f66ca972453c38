// SPDX-License-Identifier: MIT OR Apache-2.0
//! How many commands were in flight on each queue.

use crate::diagnose::report::{Stages, Subject};
use std::collections::BTreeMap;

use super::waits::{FULL, NEAR};
use crate::diagnose::report::{Command, Facts};

/// The commands of a queue: when each begins and ends.
pub struct Crowd<'f>(Vec<(u64, Option<&'f Command>)>);

impl<'f> Crowd<'f> {
    /// The queues of these commands. A command begins at the time that `begin` gives.
    pub fn queues(
        commands: impl Iterator<Item = &'f Command>,
        begin: fn(&Command) -> u64,
    ) -> Vec<Self> {
        let mut queues: BTreeMap<u16, Vec<(u64, Option<&Command>)>> = BTreeMap::new();
        for command in commands {
            let queue = queues.entry(command.qid).or_default();
            queue.push((begin(command), Some(command)));
            queue.push((command.end_ns, None));
        }
        for queue in queues.values_mut() {
            // an end before a begin of the same time
            queue.sort_by_key(|(at_ns, begins)| (*at_ns, begins.is_some()));
        }
        queues.into_values().map(Self).collect()
    }

    /// Each begin, and how many are in flight then, this one included.
    pub fn at_each_begin(&self, mut take: impl FnMut(&Command, u64)) {
        let mut now = 0_u64;
        for (_, begins) in &self.0 {
            match begins {
                Some(command) => {
                    now += 1;
                    take(command, now);
                }
                None => now = now.saturating_sub(1),
            }
        }
    }
}

/// How full the queues below a scheduler were when requests left it.
#[derive(Clone, Debug, PartialEq)]
pub enum Below {
    /// Full, for half of the time that requests waited and more: most in flight, entries of a queue.
    Full(u64, u32),
    /// Not so.
    Free,
    /// Not known, for this reason.
    Unknown(String),
}

impl Below {
    /// How full the queues of a controller were when requests of a disk left its scheduler.
    pub fn of(facts: &Facts, ctrl: u32, nsid: u32) -> Self {
        let subject = Subject::Disk(ctrl, nsid);
        if let Some(why) = facts.lacks(subject) {
            return Self::Unknown(why);
        }
        let Some(depth) = facts.controller(ctrl).and_then(|c| c.depth) else {
            return Self::Unknown("the depth of the controller's queues is not known".into());
        };
        // a submission queue with all entries in use could not be told from an empty one
        let limit = depth.saturating_sub(1).max(1);
        let near = (f64::from(limit) * NEAR).ceil() as u64;
        if facts.is_thinned(ctrl) {
            return match Self::is_surely_free(facts, ctrl, near) {
                true => Self::Free,
                false => Self::Unknown("needs every command in memory: a shorter run".into()),
            };
        }
        let (mut all, mut full, mut most) = (0, 0, 0);
        for queue in Crowd::queues(facts.of_ctrl(ctrl), set_up) {
            queue.at_each_begin(|command, now| {
                most = most.max(now);
                if command.stratum.nsid == nsid {
                    let waited = command.time_meeting(Stages::QUEUE);
                    all += waited;
                    full += if now >= near { waited } else { 0 };
                }
            });
        }
        match full as f64 >= FULL * all as f64 && full > 0 {
            true => Self::Full(most, limit),
            false => Self::Free,
        }
    }

    /// Whether the mean number in flight, in each slice of time, is below half of what fills a queue.
    fn is_surely_free(facts: &Facts, ctrl: u32, near: u64) -> bool {
        let mut sums: BTreeMap<(u16, usize), u64> = BTreeMap::new();
        for command in facts.of_ctrl(ctrl) {
            let slice = facts.clock.slice(command.end_ns);
            let in_flight = command.end_ns.saturating_sub(set_up(command));
            let sum = sums.entry((command.qid, slice)).or_default();
            *sum += in_flight * facts.commands.weight(command);
        }
        let width = facts.clock.width_ns() as f64;
        let most = sums.values().max().copied().unwrap_or(0) as f64 / width;
        most < FULL * near as f64
    }
}

/// When a command has left the scheduler.
fn set_up(command: &Command) -> u64 {
    match command.setup_ns {
        0 => command.begin_ns,
        at_ns => at_ns,
    }
}
