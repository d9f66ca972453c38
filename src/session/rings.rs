// SPDX-License-Identifier: MIT OR Apache-2.0
//! The records of ring buffers, by time. A program may be interrupted between its clock reading and its
//! reservation in the ring, so a ring is only nearly in order, and rings are read one after another.
//! Records wait here until no earlier one can come.

use std::cell::RefCell;
use std::io;
use std::mem::take;
use std::ops::Range;
use std::rc::Rc;

use libbpf_rs::{AsRawLibbpf, MapHandle, RingBuffer, RingBufferBuilder};
use libbpf_sys::{ring__avail_data_size, ring_buffer__ring};

use crate::machine::clock::monotonic_ns;
use crate::model::event::REORDER_NS;
use anyhow::Result;

/// Most records per fetch, some 20 MB: the caller has other work, and on a busy machine the rings may
/// never become empty.
const AT_ONCE: usize = 100_000;

/// How long an incomplete record delays the records of other rings, in nanoseconds.
/// Its CPU may be a virtual one that does not run.
const BLOCKED_NS: u64 = 1_000_000_000;

/// Records that have come and were not passed on.
#[derive(Default)]
struct Waiting {
    bytes: Vec<u8>,
    /// The time of each, and where it is in `bytes`.
    records: Vec<(u64, Range<usize>)>,
    /// Records before this one were passed on.
    next: usize,
    /// Those up to this time may be passed on.
    until_ns: u64,
    /// The time of the latest record of each ring.
    latest_ns: Vec<u64>,
    /// The time of the latest record that was passed on.
    passed_ns: u64,
    late: u64,
}

impl Waiting {
    fn push(&mut self, ns: u64, record: &[u8]) {
        let begin = self.bytes.len();
        self.bytes.extend_from_slice(record);
        self.records.push((ns, begin..self.bytes.len()));
    }

    /// Forgets what was passed on, once that is half of all: each record is moved at most once or twice. Records
    /// of equal times keep their order.
    fn forget_passed(&mut self) {
        if self.next * 2 < self.records.len() {
            return;
        }
        let (bytes, records) = (take(&mut self.bytes), take(&mut self.records));
        for (ns, at) in records.into_iter().skip(take(&mut self.next)) {
            self.push(ns, &bytes[at]);
        }
    }

    /// From now on, [`Waiting::next`] returns the records up to this time.
    fn release(&mut self, until_ns: u64) {
        self.until_ns = until_ns;
        self.records[self.next..].sort_by_key(|(ns, _)| *ns);
    }

    fn next(&mut self) -> Option<&[u8]> {
        let (ns, at) = self.records.get(self.next).filter(|(ns, _)| *ns <= self.until_ns)?;
        self.next += 1;
        // one that came too late for its place is passed on, too
        self.late += u64::from(*ns < self.passed_ns);
        self.passed_ns = self.passed_ns.max(*ns);
        Some(&self.bytes[at.clone()])
    }
}

/// The time up to which a ring is complete that has more records after the one of `latest_ns`. `ended`: the
/// fetch ended before them. Otherwise the next one is not complete, or came during the fetch.
const fn complete_until(until_ns: u64, latest_ns: u64, ended: bool) -> u64 {
    let complete_ns = latest_ns.saturating_sub(REORDER_NS);
    if complete_ns < until_ns && (ended || until_ns - complete_ns < BLOCKED_NS) {
        return complete_ns;
    }
    until_ns
}

/// Rings whose records are passed on by time.
pub struct SortedRings {
    rings: Vec<RingBuffer<'static>>,
    waiting: Rc<RefCell<Waiting>>,
}

impl SortedRings {
    /// Maps the rings of these maps. `time_of` has the time of a record. One without a time comes first:
    /// it is not valid.
    pub fn open<'m>(
        maps: impl IntoIterator<Item = &'m MapHandle>,
        time_of: fn(&[u8]) -> Option<u64>,
    ) -> Result<Self> {
        let waiting = Rc::new(RefCell::new(Waiting::default()));
        let open = |(number, map): (usize, &MapHandle)| {
            waiting.borrow_mut().latest_ns.push(0);
            let to = Rc::clone(&waiting);
            let mut builder = RingBufferBuilder::new();
            builder.add(map, move |record| {
                let (ns, mut to) = (time_of(record).unwrap_or(0), to.borrow_mut());
                to.latest_ns[number] = to.latest_ns[number].max(ns);
                to.push(ns, record);
                0
            })?;
            Ok(builder.build()?)
        };
        let rings = maps.into_iter().enumerate().map(open).collect::<Result<_>>()?;
        Ok(Self { rings, waiting })
    }

    /// Reads new records. [`SortedRings::next`] then returns those before which none can come any more. With
    /// `all`, every one that is left, after the end of a run. Returns true if there may be more.
    pub fn fetch(&mut self, all: bool) -> Result<bool> {
        // before the rings are read: a record is in its ring at most REORDER_NS after its time
        let now_ns = monotonic_ns().saturating_sub(REORDER_NS);
        self.waiting.borrow_mut().forget_passed();
        // an equal share from each, so that none has to wait for the others
        let share = if all { usize::MAX } else { (AT_ONCE / self.rings.len().max(1)).max(1) };
        let (mut until_ns, mut more) = (now_ns, false);
        for (number, ring) in self.rings.iter().enumerate() {
            let fetched = ring.consume_raw_n(share);
            let failed = |_| io::Error::from_raw_os_error(-fetched);
            let has_ended = usize::try_from(fetched).map_err(failed)? >= share;
            let ring = ring.as_libbpf_object();
            // SAFETY: the buffer lives, and has this ring from its begin to its end
            let left = unsafe { ring__avail_data_size(ring_buffer__ring(ring.as_ptr(), 0)) };
            if left > 0 {
                more |= has_ended;
                let latest_ns = self.waiting.borrow().latest_ns[number];
                until_ns = until_ns.min(complete_until(now_ns, latest_ns, has_ended));
            }
        }
        self.waiting.borrow_mut().release(if all { u64::MAX } else { until_ns });
        Ok(more)
    }

    /// Reads the next record that is due.
    pub fn next<T>(&mut self, read: impl FnOnce(&[u8]) -> T) -> Option<T> {
        self.waiting.borrow_mut().next().map(read)
    }

    /// The time of the latest record that was fetched.
    pub fn last_ns(&self) -> u64 {
        self.waiting.borrow().latest_ns.iter().copied().max().unwrap_or(0)
    }

    /// Number of records that were passed on after a later one.
    pub fn late(&self) -> u64 {
        self.waiting.borrow().late
    }
}

#[cfg(test)]
impl SortedRings {
    /// Without rings: records come by [`SortedRings::push`].
    pub fn of_none() -> Self {
        Self { rings: vec![], waiting: Rc::default() }
    }

    /// Adds a record.
    pub fn push(&mut self, ns: u64, record: &[u8]) {
        self.waiting.borrow_mut().push(ns, record);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Passes on what is due.
    fn released(waiting: &mut Waiting, until_ns: u64) -> Vec<u8> {
        waiting.release(until_ns);
        let mut got = vec![];
        while let Some(bytes) = waiting.next() {
            got.extend_from_slice(bytes);
        }
        waiting.forget_passed();
        got
    }

    #[test]
    fn what_may_still_be_preceded_waits() {
        let mut waiting = Waiting::default();
        waiting.push(30, b"c");
        waiting.push(10, b"a");
        assert_eq!(released(&mut waiting, 15), b"a");
        waiting.push(20, b"b");
        assert_eq!(released(&mut waiting, 30), b"bc");
        assert_eq!((waiting.records.len(), waiting.bytes.len(), waiting.late), (0, 0, 0));
        // a latecomer is passed on and counted
        waiting.push(20, b"d");
        assert_eq!((released(&mut waiting, 30), waiting.late), (b"d".to_vec(), 1));
    }

    #[test]
    fn a_ring_with_more_holds_back_the_later_records_of_the_others() {
        let now = 10 * BLOCKED_NS;
        let old = now - 2 * BLOCKED_NS;
        assert_eq!(complete_until(now, now - 5, false), now - 5 - REORDER_NS);
        // one that never ends holds back nothing for ever
        assert_eq!(complete_until(now, old, false), now);
        assert_eq!(complete_until(now, old, true), old - REORDER_NS);
    }

    #[test]
    fn a_fetch_holds_back_what_is_younger_than_a_late_record_may_be_old() {
        let mut rings = SortedRings::of_none();
        // far enough from now for a slow machine
        rings.push(monotonic_ns() + 1_000 * REORDER_NS, b"young");
        rings.push(1, b"old");
        assert!(!rings.fetch(false).unwrap());
        assert_eq!(rings.next(<[u8]>::to_vec), Some(b"old".to_vec()));
        assert_eq!(rings.next(<[u8]>::to_vec), None);
        rings.fetch(true).unwrap();
        assert_eq!(rings.next(<[u8]>::to_vec), Some(b"young".to_vec()));
        assert_eq!(rings.late(), 0);
    }

    proptest! {
        #[test]
        fn nothing_is_lost_and_all_is_in_order(
            jitter in prop::collection::vec(0_u64..100, 1..200), every in 1_usize..20,
        ) {
            let mut waiting = Waiting::default();
            let mut got = vec![];
            // two events at each time, 10 ns apart, that come up to 100 ns late
            let mut arrivals: Vec<(u64, u64)> =
                (0..).zip(&jitter).map(|(n, j)| (n / 2 * 20, n / 2 * 20 + j)).collect();
            arrivals.sort_by_key(|a| a.1);
            let mut want = vec![];
            for (n, (ns, now)) in arrivals.iter().enumerate() {
                let event = [*ns, n as u64].map(u64::to_ne_bytes);
                want.push((*ns, n as u64));
                waiting.push(*ns, event.as_flattened());
                if n % every == 0 {
                    got.extend(released(&mut waiting, now.saturating_sub(100)));
                }
            }
            got.extend(released(&mut waiting, u64::MAX));
            want.sort_unstable();
            let want: Vec<u8> =
                want.iter().flat_map(|(ns, n)| [*ns, *n]).flat_map(u64::to_ne_bytes).collect();
            prop_assert_eq!(waiting.late, 0);
            prop_assert_eq!(got, want);
        }
    }
}
