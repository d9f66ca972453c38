// SPDX-License-Identifier: MIT OR Apache-2.0
//! The records of rings in the order of time: those of a session and those of a target. An earlier
//! record may still come, from another ring or another CPU; the rule for how long to wait is here.

use std::os::fd::AsFd;

use libbpf_rs::{MapCore, MapHandle};

use super::EventRing;
use super::reorder::Reorder;
use crate::error::{Error, Result};
use crate::model::event::REORDER_NS;
use crate::source::complete_until_ns;

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

/// Rings whose records are passed on by time.
pub struct SortedRings {
    rings: Vec<Ring>,
    waiting: Reorder,
    /// Later events must wait: a ring may have earlier ones that were not fetched.
    fetched_ns: u64,
    /// The same, for a ring with an event that is not complete.
    blocked_ns: u64,
}

impl SortedRings {
    /// Maps the rings of these maps.
    pub fn open<'m>(maps: impl IntoIterator<Item = &'m MapHandle>) -> Result<Self> {
        let open = |map: &MapHandle| {
            let ring = map.as_fd().try_clone_to_owned();
            let ring = ring.map_err(|error| Error::Bpf(error.into()))?;
            EventRing::new(ring, map.max_entries() as usize)
        };
        let rings: Result<Vec<EventRing>> = maps.into_iter().map(open).collect();
        Ok(Self::new(rings?))
    }

    /// Reads these rings.
    pub fn new(rings: Vec<EventRing>) -> Self {
        let rings = rings.into_iter().map(|ring| Ring { ring, last_ns: 0 });
        Self {
            rings: rings.collect(),
            blocked_ns: u64::MAX,
            waiting: Reorder::default(),
            fetched_ns: u64::MAX,
        }
    }

    /// Reads new records, and passes on those before which none can come any more. With `all`, every
    /// one that is left, after the end of a run. Returns true if there may be more.
    pub fn take(
        &mut self,
        all: bool,
        time_of: impl Fn(&[u8]) -> Option<u64>,
        to: impl FnMut(&[u8]),
    ) -> Result<bool> {
        // before the rings are read: what is written meanwhile may be earlier than the end of that
        let until_ns = complete_until_ns();
        if all {
            while self.fetch(AT_ONCE, &time_of)? {}
            self.release(u64::MAX, to);
            return Ok(false);
        }
        let more = self.fetch(AT_ONCE, &time_of)?;
        self.release(until_ns, to);
        Ok(more)
    }

    /// Reads at most this number of new records, an equal share from each ring.
    fn fetch(&mut self, most: usize, time_of: impl Fn(&[u8]) -> Option<u64>) -> Result<bool> {
        (self.fetched_ns, self.blocked_ns) = (u64::MAX, u64::MAX);
        let mut more = false;
        let several = self.rings.len() > 1;
        let share = (most / self.rings.len().max(1)).max(1);
        for Ring { ring, last_ns } in &mut self.rings {
            let left = ring.drain(share, |bytes| {
                // a record without a time comes first; decoding then rejects it
                let ns = time_of(bytes).unwrap_or(0);
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

    fn release(&mut self, until_ns: u64, to: impl FnMut(&[u8])) {
        let mut until_ns = until_ns.min(self.fetched_ns.saturating_sub(REORDER_NS));
        let blocked_ns = self.blocked_ns.saturating_sub(REORDER_NS);
        if until_ns.saturating_sub(blocked_ns) < BLOCKED_NS {
            until_ns = until_ns.min(blocked_ns);
        }
        self.waiting.release(until_ns, to);
    }

    /// The time of the latest record that was passed on.
    pub const fn last_ns(&self) -> u64 {
        self.waiting.last_ns()
    }

    /// Number of records that were passed on after a later one.
    pub const fn late(&self) -> u64 {
        self.waiting.late()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::abi::event_time;
    use crate::session::event_ring::tests::Kernel;
    use proptest::collection::vec;
    use proptest::prelude::*;

    /// A record with a time, of no kind.
    fn record(ns: u64) -> [u8; 16] {
        let mut record = [0xff; 16];
        record[8..].copy_from_slice(&ns.to_ne_bytes());
        record
    }

    proptest! {
        #[test]
        fn a_ring_that_is_read_in_parts_holds_back_the_later_events_of_the_others(
            rings in vec(0..4_usize, 1..200), most in 1..40_usize,
        ) {
            let mut kernels: Vec<_> = (0..4).map(|_| Kernel::new(4, 0)).collect();
            let mut sorted = SortedRings::new(kernels.iter().map(|k| k.reader(4)).collect());
            for (n, ring) in (1..).zip(&rings) {
                prop_assert!(kernels[*ring].output(&record(n * 2 * REORDER_NS), 0));
            }
            let mut released = 0;
            loop {
                let more = sorted.fetch(most, event_time).unwrap();
                sorted.release(u64::MAX, |_| released += 1);
                if !more {
                    break;
                }
            }
            prop_assert_eq!((released, sorted.late()), (rings.len(), 0));
        }
    }

    #[test]
    fn an_event_that_is_not_complete_delays_later_ones_of_other_rings_for_a_while() {
        let mut kernels = [Kernel::new(4, 0), Kernel::new(4, 0)];
        let mut sorted = SortedRings::new(kernels.iter().map(|k| k.reader(4)).collect());
        let begin = 10 * BLOCKED_NS;
        assert!(kernels[0].output(&record(begin), 0));
        let reserved = kernels[0].reserve(16).unwrap();
        assert!(kernels[1].output(&record(begin + 3 * REORDER_NS), 0));
        let mut released = |until| {
            let mut n = 0;
            sorted.fetch(AT_ONCE, event_time).unwrap();
            sorted.release(until, |_| n += 1);
            (n, sorted.late())
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
        let mut sorted = SortedRings::new(kernels.iter().map(|k| k.reader(4)).collect());
        for n in 1..=9 {
            assert!(kernels[1].output(&record(n * REORDER_NS), 0));
            assert!(!sorted.fetch(AT_ONCE, event_time).unwrap());
            sorted.release(n * REORDER_NS, |_| {});
            assert_eq!(sorted.last_ns(), n * REORDER_NS);
        }
    }

    #[test]
    fn what_is_new_waits_for_what_may_be_earlier_until_the_end() {
        let mut kernel = Kernel::new(4, 0);
        let mut sorted = SortedRings::new(vec![kernel.reader(4)]);
        let (old, new) = (2 * REORDER_NS, u64::MAX - REORDER_NS);
        for ns in [new, old + 1, old] {
            assert!(kernel.output(&record(ns), 0));
        }
        let mut taken = |all| {
            let mut got = vec![];
            let more = sorted.take(all, event_time, |bytes| got.extend(event_time(bytes)));
            assert!(!more.unwrap());
            got
        };
        assert_eq!(taken(false), [old, old + 1]);
        assert!(taken(false).is_empty());
        assert_eq!(taken(true), [new]);
    }
}
