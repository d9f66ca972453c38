// SPDX-License-Identifier: MIT OR Apache-2.0
//! A session as a source of data.

use super::EventRing;
use super::Session;
use super::reorder::Reorder;
use crate::abi::event;
use crate::abi::event_time;
use crate::error::Result;
use crate::model::activity::Activity;
use crate::model::counters::Counters;
use crate::model::event::Event;
use crate::model::event::StackId;
use crate::model::run::RunTimes;
use crate::model::run::Scan;
use crate::model::run::StackSum;
use crate::model::snapshot::Snapshot;
use crate::model::transport::Transports;
use crate::probe::plan::AttachPlan;
use crate::source::EventStream;
use crate::source::REORDER_NS;
use crate::source::Read;
use crate::source::Source;

impl Source for Session {
    fn plan(&self) -> &AttachPlan {
        Self::plan(self)
    }

    fn snapshot(&self) -> Result<Snapshot> {
        Self::snapshot(self)
    }

    fn counters(&self) -> Result<Counters> {
        Self::counters(self)
    }

    fn misses(&self) -> Vec<u64> {
        Self::misses(self)
    }

    fn run_times(&self) -> Option<RunTimes> {
        Self::run_times(self)
    }

    fn stack(&self, id: StackId) -> Result<Option<Vec<u64>>> {
        Self::stack(self, id)
    }

    fn stack_sums(&self) -> Result<Vec<StackSum>> {
        Self::stack_sums(self)
    }

    fn end(&mut self) -> Result<()> {
        Self::end(self)
    }

    fn scan(&self) -> Result<Scan> {
        Self::scan(self)
    }

    fn activity(&self) -> Result<Option<Activity>> {
        Self::activity(self)
    }

    fn unfinished(&self, now_ns: u64) -> Result<Vec<Event>> {
        Self::unfinished(self, now_ns)
    }
}

/// Maximum number of records per fetch, some 20 MB. The caller has other work, and on a busy machine
/// the rings may never become empty.
const AT_ONCE: usize = 100_000;

/// For how long an event that its producer does not complete delays those of other rings, in
/// nanoseconds. Its CPU may be a virtual one that does not run.
const BLOCKED_NS: u64 = 1_000_000_000;

/// A ring, and the time of its latest event.
struct Ring {
    ring: EventRing,
    last_ns: u64,
}

/// The events of a session: read from its rings, sorted by time, and decoded.
pub struct LiveEvents {
    rings: Vec<Ring>,
    waiting: Reorder,
    transports: Transports,
    /// Later events must wait: a ring may have earlier ones that were not fetched.
    fetched_ns: u64,
    /// The same, for a ring with an event that is not complete.
    blocked_ns: u64,
}

impl LiveEvents {
    pub(super) fn new(rings: Vec<EventRing>, transports: Transports) -> Self {
        let rings = rings.into_iter().map(|ring| Ring { ring, last_ns: 0 });
        Self {
            rings: rings.collect(),
            blocked_ns: u64::MAX,
            waiting: Reorder::default(),
            transports,
            fetched_ns: u64::MAX,
        }
    }

    /// Reads at most this number of new events, an equal share from each ring.
    fn fetch_some(&mut self, most: usize) -> Result<bool> {
        (self.fetched_ns, self.blocked_ns) = (u64::MAX, u64::MAX);
        let mut more = false;
        let several = self.rings.len() > 1;
        let share = (most / self.rings.len().max(1)).max(1);
        for Ring { ring, last_ns } in &mut self.rings {
            let left = ring.drain(share, |bytes| {
                // a record without a time comes first; decoding then rejects it
                let ns = event_time(bytes).unwrap_or(0);
                *last_ns = ns.max(*last_ns);
                self.waiting.push(ns, bytes);
            })?;
            if left {
                more = true;
                self.fetched_ns = self.fetched_ns.min(*last_ns);
            }
            if several && ring.is_blocked() {
                self.blocked_ns = self.blocked_ns.min(*last_ns);
            }
        }
        Ok(more)
    }
}

impl EventStream for LiveEvents {
    fn fetch(&mut self) -> Result<bool> {
        self.fetch_some(AT_ONCE)
    }

    fn release(&mut self, until_ns: u64, to: &mut dyn FnMut(Read<'_>)) {
        let mut until_ns = until_ns.min(self.fetched_ns.saturating_sub(REORDER_NS));
        let blocked_ns = self.blocked_ns.saturating_sub(REORDER_NS);
        if until_ns.saturating_sub(blocked_ns) < BLOCKED_NS {
            until_ns = until_ns.min(blocked_ns);
        }
        // by reference: an event is large, and would be copied out of the result
        let transports = &self.transports;
        self.waiting.release(until_ns, |bytes| {
            to(event(bytes, transports).as_ref().ok());
        });
    }

    fn last_ns(&self) -> u64 {
        self.waiting.last_ns()
    }

    fn late(&self) -> u64 {
        self.waiting.late()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session::event_ring::tests::Kernel;
    use proptest::collection::vec;
    use proptest::prelude::*;

    /// A record with a time, of no kind.
    fn record(ns: u64) -> [u8; 16] {
        let mut record = [0xff; 16];
        record[8..].copy_from_slice(&ns.to_ne_bytes());
        record
    }

    fn live(kernels: &[Kernel]) -> LiveEvents {
        let rings = kernels.iter().map(|k| k.reader(4)).collect();
        LiveEvents::new(rings, Transports::default())
    }

    proptest! {
        #[test]
        fn a_ring_that_is_read_in_parts_holds_back_the_later_events_of_the_others(
            rings in vec(0..4_usize, 1..200), most in 1..40_usize,
        ) {
            let mut kernels: Vec<_> = (0..4).map(|_| Kernel::new(4, 0)).collect();
            let mut live = live(&kernels);
            for (n, ring) in (1..).zip(&rings) {
                prop_assert!(kernels[*ring].output(&record(n * 2 * REORDER_NS), 0));
            }
            let mut released = 0;
            loop {
                let more = live.fetch_some(most).unwrap();
                live.release(u64::MAX, &mut |_| released += 1);
                if !more {
                    break;
                }
            }
            prop_assert_eq!((released, live.late()), (rings.len(), 0));
        }
    }

    #[test]
    fn an_event_that_is_not_complete_delays_later_ones_of_other_rings_for_a_while() {
        let mut kernels = [Kernel::new(4, 0), Kernel::new(4, 0)];
        let mut live = live(&kernels);
        let begin = 10 * BLOCKED_NS;
        assert!(kernels[0].output(&record(begin), 0));
        let reserved = kernels[0].reserve(16).unwrap();
        assert!(kernels[1].output(&record(begin + 3 * REORDER_NS), 0));
        let mut released = |until| {
            let mut n = 0;
            live.fetch().unwrap();
            live.release(until, &mut |_| n += 1);
            (n, live.late())
        };
        assert_eq!(released(begin + 4 * REORDER_NS), (0, 0));
        kernels[0].submit(reserved, &record(begin + REORDER_NS), 0);
        assert_eq!(released(begin + 4 * REORDER_NS), (3, 0));
        // one that never ends holds back nothing for ever
        kernels[0].reserve(16).unwrap();
        assert!(kernels[1].output(&record(begin + 5 * REORDER_NS), 0));
        assert_eq!(released(begin + 6 * REORDER_NS), (0, 0));
        assert_eq!(released(begin + 2 * BLOCKED_NS), (1, 0));
    }

    #[test]
    fn an_idle_ring_holds_back_nothing() {
        let mut kernels = [Kernel::new(4, 0), Kernel::new(4, 0)];
        let mut live = live(&kernels);
        for n in 1..=9 {
            assert!(kernels[1].output(&record(n * REORDER_NS), 0));
            assert!(!live.fetch().unwrap());
            live.release(n * REORDER_NS, &mut |_| {});
            assert_eq!(live.last_ns(), n * REORDER_NS);
        }
    }
}
