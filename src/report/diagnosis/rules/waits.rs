// SPDX-License-Identifier: MIT OR Apache-2.0
//! The time between a bio and its request: what is known of it. It contains the wait for a tag, and
//! also rq_qos (wbt, io.cost, io.latency), zone write plugs and frozen queues.

use super::super::Answer;
use super::super::Command;
use super::super::Facts;
use super::super::Subject;
use super::not_observed;
use super::percent;
use crate::model::activity::TagWaits;

/// The waits have this part of the time, waits included.
pub const PART: f64 = 0.3;
/// Fewest requests that waited.
const WAITED: u64 = 50;
/// The number in flight on a queue is near nr_requests from this part of it.
const NEAR: f64 = 0.9;
/// A wait for a tag ends with the queue full: for this part of the requests that waited, at least.
const FULL: f64 = 0.5;

/// The waits of a disk that have a large part of the time.
pub struct Waits {
    /// The counters.
    pub counted: TagWaits,
    /// Their part of the time, waits included.
    pub part: f64,
}

impl Waits {
    /// The waits of a disk; otherwise the answer without them.
    pub fn of(facts: &Facts, subject: Subject) -> Result<Self, Answer> {
        let Some(all) = facts.counted(|a| a.waits.as_ref()) else {
            return Err(not_observed(facts, "waits before the request"));
        };
        let Subject::Disk(ctrl, nsid) = subject else {
            return Err(Answer::Absent("no disk".into()));
        };
        if facts.lacks_requests() {
            return Err(Answer::Open(
                "commands of a disk were left out, as by a filter: needs all of them".into(),
            ));
        }
        let own = all.iter().filter(|w| w.ctrl == ctrl);
        let Some(counted) = own.clone().find(|w| w.nsid == nsid || w.nsid == 0) else {
            return Err(Answer::Absent("no request waited".into()));
        };
        let total = facts.sum(facts.of_subject(subject), Command::total);
        let part = counted.sum_ns as f64 / (counted.sum_ns as f64 + total).max(1.0);
        if part < PART || counted.waited < WAITED {
            return Err(Answer::Out(format!(
                "waits before the request have {} of the time",
                percent(part)
            )));
        }
        Ok(Self {
            counted: *counted,
            part,
        })
    }
}

/// Whether the queues of a disk were full.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Tags {
    /// As often as requests waited: most in flight on a queue, nr_requests.
    Short(u64, u32),
    /// Seldom: the same.
    Enough(u64, u32),
    /// Commands were left out of memory, or nr_requests was not recorded.
    Unknown,
}

/// Compares the number in flight on each queue with nr_requests, at each begin of a command.
pub fn tags(facts: &Facts, ctrl: u32, nsid: u32, waits: &TagWaits) -> Tags {
    let limit = facts.disk(ctrl, nsid).and_then(|d| d.nr_requests);
    let thinned = facts.of_ctrl(ctrl).any(|c| facts.commands.weight(c) > 1);
    let Some(limit) = limit.filter(|_| !thinned) else {
        return Tags::Unknown;
    };
    let mut queues: std::collections::BTreeMap<u16, Vec<(u64, bool)>> =
        std::collections::BTreeMap::new();
    for command in facts.of_ctrl(ctrl) {
        let queue = queues.entry(command.qid).or_default();
        queue.push((command.begin_ns, true));
        queue.push((command.end_ns, false));
    }
    let near = (f64::from(limit) * NEAR).ceil() as u64;
    let (mut full, mut most) = (0_u64, 0_u64);
    for queue in queues.values_mut() {
        // an end before a begin of the same time
        queue.sort_unstable();
        let mut now = 0_u64;
        for (_, begins) in queue.iter() {
            now = if *begins {
                now + 1
            } else {
                now.saturating_sub(1)
            };
            most = most.max(now);
            full += u64::from(*begins && now >= near);
        }
    }
    match full as f64 >= FULL * waits.waited as f64 {
        true => Tags::Short(most, limit),
        false => Tags::Enough(most, limit),
    }
}
