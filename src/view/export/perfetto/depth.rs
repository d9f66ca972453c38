// SPDX-License-Identifier: MIT OR Apache-2.0
//! Commands in flight over time, by queue and by controller.

use std::collections::BTreeMap;

use crate::model::event::Event;
use crate::model::ids::QueueId;
use crate::model::report::begins::{Change, Changes, Longest};
use crate::model::timeline::Span;

/// Most changes that wait for earlier ones (32 MB).
const MOST_WAITING: usize = 1 << 20;

/// Changes of the same time are in the order of their queues.
fn tie(queue: QueueId) -> u64 {
    u64::from(queue.ctrl) << u16::BITS | u64::from(queue.qid)
}

/// The begins of the longest commands of a recording.
#[derive(Debug, Default)]
pub struct Begins(Longest<QueueId>);

impl Begins {
    /// Adds an event of the first pass. A command without a length is never in flight.
    pub fn add(&mut self, event: &Event) {
        let command = Span::of(event).zip(event.what.id());
        if let Some((span, id)) = command.filter(|(span, _)| span.length() > 0) {
            let queue = id.queue();
            self.0.add(&span, tie(queue), || Some(queue));
        }
    }
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
    changes: Changes<QueueId, QueueId>,
    in_flight: BTreeMap<QueueId, u64>,
    of_ctrl: BTreeMap<u32, u64>,
}

impl Depths {
    pub(super) fn new(begins: Begins) -> Self {
        Self {
            changes: Changes::after(begins.0, MOST_WAITING),
            in_flight: BTreeMap::new(),
            of_ctrl: BTreeMap::new(),
        }
    }

    /// Adds a command. One without a length is never in flight.
    pub(super) fn add(&mut self, queue: QueueId, span: &Span) {
        if span.length() > 0 {
            self.changes.add(span, tie(queue), queue, queue);
        }
    }

    /// Returns the next change that is final, `now_ns` being the time of the latest event.
    pub(super) fn next(&mut self, now_ns: u64) -> Option<Depth> {
        let (at_ns, change) = self.changes.next(now_ns)?;
        let (Change::Begin(queue) | Change::End(queue)) = change;
        let commands = self.in_flight.entry(queue).or_default();
        let of_ctrl = self.of_ctrl.entry(queue.ctrl).or_default();
        if matches!(change, Change::Begin(_)) {
            (*commands, *of_ctrl) = (*commands + 1, *of_ctrl + 1);
        } else if *commands > 0 {
            (*commands, *of_ctrl) = (*commands - 1, *of_ctrl - 1);
        }
        Some(Depth { at_ns, queue, commands: *commands, of_ctrl: *of_ctrl })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::EventBuilder;
    use proptest::collection::vec;
    use proptest::prelude::*;

    /// A command that ends at `at_ns`.
    fn command(qid: u16, at_ns: u64, latency_ns: u64) -> Event {
        let made = EventBuilder::read().qid(qid).latency(latency_ns);
        made.at(at_ns).command()
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
            let mut begins = Begins(Longest::at_most(most));
            events.iter().for_each(|e| begins.add(e));
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
