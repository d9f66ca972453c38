// SPDX-License-Identifier: MIT OR Apache-2.0
//! Completions per second, of intervals.

use super::Place;
use crate::model::event::Event;
use crate::model::ids::QueueId;
use crate::model::report::begins::{Change, Changes, Longest};
use crate::model::timeline::Span;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// A rate from a time on.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Rate {
    /// CLOCK_MONOTONIC nanoseconds.
    pub(super) at_ns: u64,
    pub(super) place: Place,
    pub(super) per_second: f64,
}

/// Counts completions.
#[derive(Debug)]
pub(super) struct Rates {
    interval_ns: u64,
    begin_ns: u64,
    /// Number of the current interval.
    number: u64,
    /// Completions in the current interval, and whether the last rate was not zero.
    counts: BTreeMap<Place, (u64, bool)>,
}

impl Rates {
    /// Intervals of this length (not zero).
    pub(super) fn new(interval: Duration) -> Self {
        let interval_ns = u64::try_from(interval.as_nanos()).unwrap_or(u64::MAX);
        Self { interval_ns: interval_ns.max(1), begin_ns: 0, number: 0, counts: BTreeMap::new() }
    }

    /// The run begins.
    pub(super) fn begin(&mut self, begin_ns: u64) {
        self.begin_ns = begin_ns;
    }

    /// Counts a completion. Returns the rates of the intervals before it.
    pub(super) fn add(&mut self, place: [Place; 2], at_ns: u64) -> Vec<Rate> {
        let number = at_ns.saturating_sub(self.begin_ns) / self.interval_ns;
        let rates = self.close(number);
        for place in place {
            self.counts.entry(place).or_default().0 += 1;
        }
        rates
    }

    /// Returns the rates of the current interval, and zeroes after it.
    pub(super) fn end(&mut self) -> Vec<Rate> {
        self.close(self.number.saturating_add(2))
    }

    fn close(&mut self, number: u64) -> Vec<Rate> {
        let mut rates = vec![];
        // the interval, and the one after it, in which rates may be zero
        while self.number < number {
            let since_ns = self.number.saturating_mul(self.interval_ns);
            let at_ns = self.begin_ns.saturating_add(since_ns);
            let before = rates.len();
            for (place, (count, shown)) in &mut self.counts {
                if *count > 0 || *shown {
                    let seconds = self.interval_ns as f64 / 1e9;
                    rates.push(Rate { at_ns, place: *place, per_second: *count as f64 / seconds });
                }
                *shown = *count > 0;
                *count = 0;
            }
            self.counts.retain(|_, (_, shown)| *shown);
            self.number += 1;
            if rates.len() == before {
                break;
            }
        }
        self.number = self.number.max(number);
        rates
    }
}

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
pub(crate) struct Depth {
    /// CLOCK_MONOTONIC nanoseconds.
    pub(crate) at_ns: u64,
    pub(crate) queue: QueueId,
    pub(crate) commands: u64,
    /// Commands in flight in all queues of the controller.
    pub(crate) of_ctrl: u64,
}

/// Counts commands in flight.
#[derive(Debug)]
pub(crate) struct Depths {
    changes: Changes<QueueId, QueueId>,
    in_flight: BTreeMap<QueueId, u64>,
    of_ctrl: BTreeMap<u32, u64>,
}

impl Depths {
    pub(crate) fn new(begins: Begins) -> Self {
        Self {
            changes: Changes::after(begins.0, MOST_WAITING),
            in_flight: BTreeMap::new(),
            of_ctrl: BTreeMap::new(),
        }
    }

    /// Adds a command. One without a length is never in flight.
    pub(crate) fn add(&mut self, queue: QueueId, span: &Span) {
        if span.length() > 0 {
            self.changes.add(span, tie(queue), queue, queue);
        }
    }

    /// Returns the next change that is final, `now_ns` being the time of the latest event.
    pub(crate) fn next(&mut self, now_ns: u64) -> Option<Depth> {
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

/// Most lanes of a queue: Linux has at most 4095 entries in an NVMe queue.
const MOST_LANES: usize = 1 << 12;

/// The lanes of a queue.
#[derive(Debug, Default)]
pub(crate) struct Lanes {
    /// The end of the last command of each lane.
    ends: BTreeSet<(u64, usize)>,
}

impl Lanes {
    /// Puts a command into a lane, and returns the lane's number. Commands come in the order of
    /// their ends. Of the lanes that are free at its start, it takes the one that became free last, so
    /// there are only as many lanes as commands overlap.
    pub(crate) fn put(&mut self, span: &Span) -> usize {
        let end_ns = span.end_ns.unwrap_or(u64::MAX);
        let free = self.ends.range(..=(span.begin_ns, usize::MAX)).next_back();
        let lane = match free.copied() {
            Some(free) => {
                self.ends.remove(&free);
                free.1
            }
            // more commands than a queue can hold overlap only in a file that was made so
            None if self.ends.len() >= MOST_LANES => return MOST_LANES - 1,
            None => self.ends.len(),
        };
        self.ends.insert((end_ns, lane));
        lane
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// More commands overlap than a queue can hold, as in a file that was made so.
    #[test]
    fn lanes_are_bounded_and_kept_until_the_end() {
        let mut lanes = Lanes::default();
        let open = Span { begin_ns: 5, end_ns: None };
        assert_eq!(lanes.put(&open), 0);
        assert_eq!(lanes.put(&Span { begin_ns: 9, end_ns: Some(10) }), 1);
        for n in 2..MOST_LANES + 10 {
            assert_eq!(lanes.put(&open), n.min(MOST_LANES - 1));
        }
        assert_eq!(lanes.ends.len(), MOST_LANES);
    }
}
