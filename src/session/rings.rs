// SPDX-License-Identifier: MIT OR Apache-2.0
//! The records of ring buffers, by time. A program may be interrupted between its clock reading and its
//! reservation in the ring, so a ring is only nearly in order, and rings are read one after another.
//! Records wait here until no earlier one can come.

use std::cell::{Cell, RefCell};
use std::io;
use std::mem::{replace, take};
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

/// A record in [`Waiting`].
#[derive(Clone, Copy)]
struct WaitingRecord {
    ns: u64,
    begin: usize,
    bytes: usize,
}

/// Records that have come and were not passed on.
#[derive(Default)]
struct Waiting {
    bytes: Vec<u8>,
    records: Vec<WaitingRecord>,
    /// Records before this one were passed on.
    next: usize,
    /// Records before this one are sorted, and may be passed on.
    due: usize,
    last_ns: u64,
    late: u64,
    /// An empty buffer, to be used again.
    spare: Vec<u8>,
}

impl Waiting {
    fn push(&mut self, ns: u64, record: &[u8]) {
        let begin = self.bytes.len();
        self.bytes.extend_from_slice(record);
        self.records.push(WaitingRecord { ns, begin, bytes: record.len() });
    }

    /// Forgets what was passed on. The other records stay in the order in which they came, so that
    /// equal times keep it.
    fn forget_passed(&mut self) {
        self.records.drain(..self.next);
        (self.next, self.due) = (0, 0);
        let mut kept = take(&mut self.spare);
        for record in &mut self.records {
            let begin = replace(&mut record.begin, kept.len());
            kept.extend_from_slice(&self.bytes[begin..][..record.bytes]);
        }
        self.bytes.clear();
        self.spare = replace(&mut self.bytes, kept);
    }

    /// From now on, [`Waiting::next`] returns the records up to this time.
    fn release(&mut self, until_ns: u64) {
        self.records.sort_by_key(|record| record.ns);
        self.due = self.records.partition_point(|record| record.ns <= until_ns);
    }

    fn next(&mut self) -> Option<&[u8]> {
        let record = *self.records[..self.due].get(self.next)?;
        self.next += 1;
        // one that came too late for its place is passed on, too
        self.late += u64::from(record.ns < self.last_ns);
        self.last_ns = self.last_ns.max(record.ns);
        Some(&self.bytes[record.begin..][..record.bytes])
    }
}

/// What a ring still has after a fetch.
#[derive(Clone, Copy)]
enum Left {
    Nothing,
    /// A record that is not complete, or that came during the fetch.
    Some,
    /// The fetch ended before it.
    Many,
}

/// The time up to which records can be passed on. `rings`: the latest record of each that was fetched.
fn complete_until(until_ns: u64, rings: impl Iterator<Item = (Left, u64)>) -> u64 {
    let held = rings.filter_map(|(left, last_ns)| {
        let complete_ns = last_ns.saturating_sub(REORDER_NS);
        match left {
            Left::Nothing => None,
            Left::Some => {
                (until_ns.saturating_sub(complete_ns) < BLOCKED_NS).then_some(complete_ns)
            }
            Left::Many => Some(complete_ns),
        }
    });
    held.fold(until_ns, u64::min)
}

struct Ring {
    buffer: RingBuffer<'static>,
    /// The time of its latest record.
    last_ns: Rc<Cell<u64>>,
}

impl Ring {
    /// Reads at most this number of records.
    fn fetch(&self, most: usize) -> Result<Left> {
        let fetched = self.buffer.consume_raw_n(most);
        let failed = |_| io::Error::from_raw_os_error(-fetched);
        let fetched = usize::try_from(fetched).map_err(failed)?;
        let buffer = self.buffer.as_libbpf_object();
        // SAFETY: the buffer lives, and has this ring from its begin to its end
        let bytes = unsafe { ring__avail_data_size(ring_buffer__ring(buffer.as_ptr(), 0)) };
        Ok(match bytes {
            0 => Left::Nothing,
            _ if fetched < most => Left::Some,
            _ => Left::Many,
        })
    }
}

/// Rings whose records are passed on by time.
pub struct SortedRings {
    rings: Vec<Ring>,
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
        let open = |map: &MapHandle| {
            let last_ns = Rc::new(Cell::new(0));
            let (to, latest) = (Rc::clone(&waiting), Rc::clone(&last_ns));
            let mut builder = RingBufferBuilder::new();
            builder.add(map, move |record| {
                let ns = time_of(record).unwrap_or(0);
                latest.set(latest.get().max(ns));
                to.borrow_mut().push(ns, record);
                0
            })?;
            Ok(Ring { buffer: builder.build()?, last_ns })
        };
        let rings = maps.into_iter().map(open).collect::<Result<_>>()?;
        Ok(Self { rings, waiting })
    }

    /// Reads new records. [`SortedRings::next`] then returns those before which none can come any more. With
    /// `all`, every one that is left, after the end of a run. Returns true if there may be more.
    pub fn fetch(&mut self, all: bool) -> Result<bool> {
        // before the rings are read: a record is in its ring at most REORDER_NS after its time
        let now_ns = monotonic_ns();
        self.waiting.borrow_mut().forget_passed();
        // an equal share from each, so that none has to wait for the others
        let share = if all { usize::MAX } else { (AT_ONCE / self.rings.len().max(1)).max(1) };
        let mut found = Vec::with_capacity(self.rings.len());
        for ring in &self.rings {
            found.push((ring.fetch(share)?, ring.last_ns.get()));
        }
        let more = found.iter().any(|(left, _)| matches!(left, Left::Many));
        let until_ns = match all {
            true => u64::MAX,
            false => complete_until(now_ns.saturating_sub(REORDER_NS), found.into_iter()),
        };
        self.waiting.borrow_mut().release(until_ns);
        Ok(more)
    }

    /// Reads the next record that is due.
    pub fn next<T>(&mut self, read: impl FnOnce(&[u8]) -> T) -> Option<T> {
        self.waiting.borrow_mut().next().map(read)
    }

    /// The time of the latest record that was passed on.
    pub fn last_ns(&self) -> u64 {
        self.waiting.borrow().last_ns
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
        let (now, until) =
            (10 * BLOCKED_NS, |rings: &[_]| complete_until(10 * BLOCKED_NS, rings.iter().copied()));
        let old = now - 2 * BLOCKED_NS;
        assert_eq!(until(&[(Left::Nothing, old), (Left::Nothing, 0)]), now);
        assert_eq!(until(&[(Left::Some, now - 5), (Left::Nothing, 0)]), now - 5 - REORDER_NS);
        // one that never ends holds back nothing for ever
        assert_eq!(until(&[(Left::Some, old), (Left::Nothing, now)]), now);
        assert_eq!(until(&[(Left::Many, old), (Left::Some, now)]), old - REORDER_NS);
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
