// SPDX-License-Identifier: MIT OR Apache-2.0
//! The times at which commands of some kinds were in flight.

use crate::diagnose::report::{Command, Facts};

/// Times at which one of some commands was in flight, in order, without overlaps.
pub struct Overlaps(Vec<(u64, u64)>);

impl Overlaps {
    /// The times of these opcodes on a controller.
    pub fn of(facts: &Facts, ctrl: u32, codes: &[u8]) -> Self {
        let own = facts.of_ctrl(ctrl).filter(|c| codes.contains(&c.code()));
        let mut times: Vec<(u64, u64)> = own.map(|c| (c.begin_ns, c.end_ns)).collect();
        times.sort_unstable();
        let mut merged: Vec<(u64, u64)> = Vec::new();
        for (begin, end) in times {
            match merged.last_mut() {
                Some(last) if begin <= last.1 => last.1 = last.1.max(end),
                _ => merged.push((begin, end)),
            }
        }
        Self(merged)
    }

    /// Whether one of them was in flight during this time of a command.
    pub fn meet(&self, facts: &Facts, command: &Command) -> bool {
        let (from, to) = facts.expected(command);
        let next = self.0.partition_point(|(_, end)| *end < from);
        self.0.get(next).is_some_and(|(begin, _)| *begin <= to)
    }
}
