// SPDX-License-Identifier: MIT OR Apache-2.0
//! Commands in flight over time. Events come at the end of a command, so its begin becomes known
//! late. A first pass over the recording ([`Begins`]) finds the begins of the longest commands;
//! those of the others are known after the longest of them.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::collections::BinaryHeap;

use super::span::Span;
use crate::model::event::Event;
use crate::model::ids::QueueId;
use crate::source::REORDER_NS;

/// Number of commands whose begins are kept.
const LONGEST: usize = 1 << 16;
/// Most changes that wait for earlier ones (32 MB).
const MOST_WAITING: usize = 1 << 20;

/// The begins of the longest commands of a recording.
#[derive(Debug, Default)]
pub struct Begins {
    /// Length, begin and queue of each; the shortest is on top.
    longest: BinaryHeap<Reverse<(u64, u64, QueueId)>>,
    /// The length of the longest command that is not among them.
    others_ns: u64,
}

impl Begins {
    /// Adds an event of the first pass.
    pub fn add(&mut self, event: &Event) {
        self.keep(event, LONGEST);
    }

    fn keep(&mut self, event: &Event, most: usize) {
        let Some((span, id)) = Span::of(event).zip(event.what.id()) else {
            return;
        };
        if span.length() == 0 {
            return;
        }
        let entry = (span.length(), span.begin_ns, id.queue());
        self.longest.push(Reverse(entry));
        if self.longest.len() > most
            && let Some(Reverse((length, ..))) = self.longest.pop()
        {
            self.others_ns = self.others_ns.max(length);
        }
    }
}

/// A change of the number of commands in flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Change {
    at_ns: u64,
    /// Ends come before begins of the same time.
    begins: bool,
    queue: QueueId,
}

/// The number of commands in flight in a queue that changes at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Depth {
    /// CLOCK_MONOTONIC nanoseconds.
    pub(super) at_ns: u64,
    pub(super) queue: QueueId,
    pub(super) commands: u64,
    /// Commands in flight in all queues of the controller.
    pub(super) of_ctrl: u64,
}

/// Counts commands in flight.
#[derive(Debug)]
pub(super) struct Depths {
    /// Begins of longer commands are known from the first pass.
    others_ns: u64,
    changes: BinaryHeap<Reverse<Change>>,
    in_flight: BTreeMap<QueueId, u64>,
    of_ctrl: BTreeMap<u32, u64>,
}

impl Depths {
    pub(super) fn new(begins: Begins) -> Self {
        let Begins { longest, others_ns } = begins;
        let longer = longest.into_iter().filter(|l| l.0.0 > others_ns);
        let change = |Reverse((_, at_ns, queue)): Reverse<(u64, u64, QueueId)>| {
            Reverse(Change {
                at_ns,
                begins: true,
                queue,
            })
        };
        Self {
            others_ns,
            changes: longer.map(change).collect(),
            in_flight: BTreeMap::new(),
            of_ctrl: BTreeMap::new(),
        }
    }

    /// Adds a command. One without a length is never in flight.
    pub(super) fn add(&mut self, queue: QueueId, span: &Span) {
        if span.length() == 0 {
            return;
        }
        let mut change = |at_ns, begins| {
            let change = Change {
                at_ns,
                begins,
                queue,
            };
            self.changes.push(Reverse(change));
        };
        if span.length() <= self.others_ns {
            change(span.begin_ns, true);
        }
        if let Some(end_ns) = span.end_ns {
            change(end_ns, false);
        }
    }

    /// Returns the next change that is final, `now_ns` being the time of the latest event.
    pub(super) fn next(&mut self, now_ns: u64) -> Option<Depth> {
        let before = now_ns.saturating_sub(self.others_ns.saturating_add(REORDER_NS));
        let next = self.changes.peek()?.0;
        let is_full = self.changes.len() > MOST_WAITING;
        if next.at_ns >= before && now_ns != u64::MAX && !is_full {
            return None;
        }
        self.changes.pop();
        let commands = self.in_flight.entry(next.queue).or_default();
        let of_ctrl = self.of_ctrl.entry(next.queue.ctrl).or_default();
        if next.begins {
            (*commands, *of_ctrl) = (*commands + 1, *of_ctrl + 1);
        } else if *commands > 0 {
            (*commands, *of_ctrl) = (*commands - 1, *of_ctrl - 1);
        }
        Some(Depth {
            at_ns: next.at_ns,
            queue: next.queue,
            commands: *commands,
            of_ctrl: *of_ctrl,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::conditions::Conditions;
    use crate::model::event::CommandId;
    use crate::model::event::EventKind;
    use crate::model::event::Outcome;
    use crate::model::event::StackId;
    use crate::model::event::Submission;
    use crate::nvme::opcode::Opcode;
    use crate::nvme::opcode::QueueKind;
    use crate::nvme::sqe::Parts;
    use proptest::collection::vec;
    use proptest::prelude::*;

    /// A command that ends at `at_ns`.
    fn command(qid: u16, at_ns: u64, latency_ns: u64) -> Event {
        let opcode = Opcode {
            queue: QueueKind::Io,
            code: 2,
        };
        let id = CommandId {
            ctrl: 0,
            qid,
            cid: 0,
            nsid: 1,
            opcode,
        };
        let asked = Submission {
            sqe: Parts::default().into(),
            bytes: None,
            knows_submitter: false,
            pid: 0,
            tid: 0,
            comm: [0; 16],
            cpu: 0,
            stack: StackId(0),
        };
        let end = Outcome {
            verdict: None,
            latency_ns: Some(latency_ns),
            timeline: None,
            cpu: 0,
            conditions: Conditions::default(),
            stack: StackId(0),
        };
        Event {
            at_ns,
            what: EventKind::Command(id, asked, end),
        }
    }

    proptest! {
        #[test]
        fn the_depth_is_the_number_of_commands_that_have_begun_and_not_ended(
            // longer than the time that events may wait for earlier ones
            commands in vec((1_u16..3, 1_u64..100, 0_u64..60), 1..80), most in 1_usize..20,
        ) {
            const UNIT: u64 = 10_000_000;
            let mut events: Vec<Event> = commands
                .into_iter()
                .map(|(qid, end, len)| command(qid, (100 + end) * UNIT, len * UNIT))
                .collect();
            events.sort_by_key(|e| e.at_ns);
            let mut begins = Begins::default();
            events.iter().for_each(|e| begins.keep(e, most));
            let mut depths = Depths::new(begins);
            let mut found: Vec<Depth> = vec![];
            for event in &events {
                let (span, id) = (Span::of(event).unwrap(), event.what.id().unwrap());
                depths.add(id.queue(), &span);
                found.extend(std::iter::from_fn(|| depths.next(event.at_ns)));
            }
            found.extend(std::iter::from_fn(|| depths.next(u64::MAX)));
            prop_assert!(found.is_sorted_by_key(|d| d.at_ns));
            let spans: Vec<(u16, Span)> = events
                .iter()
                .map(|e| (e.what.id().unwrap().qid, Span::of(e).unwrap()))
                .collect();
            let in_flight = |qid: Option<u16>, t: u64| {
                let here = |(of, s): &&(u16, Span)| {
                    qid.is_none_or(|q| q == *of) && s.begin_ns <= t && t < s.end_ns.unwrap()
                };
                spans.iter().filter(here).count() as u64
            };
            // the last change of a time counts
            for (n, depth) in found.iter().enumerate() {
                let rest = &found[n + 1..];
                let qid = depth.queue.qid;
                if rest.iter().all(|d| d.at_ns > depth.at_ns || d.queue != depth.queue) {
                    prop_assert_eq!(depth.commands, in_flight(Some(qid), depth.at_ns));
                }
                if rest.iter().all(|d| d.at_ns > depth.at_ns) {
                    prop_assert_eq!(depth.of_ctrl, in_flight(None, depth.at_ns));
                }
            }
        }
    }
}
