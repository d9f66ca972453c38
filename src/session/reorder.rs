// SPDX-License-Identifier: MIT OR Apache-2.0
//! Sorts events by time. CPUs write to their ring as events occur, and a program may be interrupted
//! between its clock reading and its reservation in the ring, so the events of a ring are only nearly
//! in order; and the rings are read one after another. Events are kept for a moment, and released
//! when no earlier one is expected.

use std::mem::{swap, take};

/// Where an event is stored.
#[derive(Clone, Copy, Debug)]
struct HeapKey {
    ns: u64,
    /// Its first word of eight bytes, and in bit 0 whether it came in an odd turn: 16 GiB, of which a turn
    /// has the share of a second at most.
    begin_and_turn: u32,
    bytes: u32,
}

impl HeapKey {
    const fn is_of(self, turn: u32) -> bool {
        self.begin_and_turn & 1 == turn & 1
    }

    #[inline]
    fn of(self, bytes: &[u8]) -> &[u8] {
        let begin = (self.begin_and_turn >> 1) as usize * WORD;
        &bytes[begin..][..self.bytes as usize]
    }
}

/// Events begin at multiples of this, as in the ring.
const WORD: usize = 8;

/// Maximum number of later events before which an event is inserted. If there are more, most often
/// because the event is of another ring, this and the following events are left to a sort. It finds
/// the runs that the rings make, and merges them.
const NEAR: usize = 64;

/// Events that wait for earlier ones.
///
/// Bytes are never moved: one buffer is filled until all events of the other have been passed on.
/// Then the buffers are swapped, and the next turn begins. So neither buffer exceeds what arrives
/// while an event waits and until the next release.
#[derive(Debug, Default)]
pub struct Reorder {
    /// What has come in this turn.
    bytes: Vec<u8>,
    /// What came in the previous turn, and how many of its events wait.
    before: Vec<u8>,
    before_wait: usize,
    turn: u32,
    /// Sorted, unless `disordered`.
    places: Vec<HeapKey>,
    disordered: bool,
    /// The time of the latest event that has come.
    latest_ns: u64,
    last_ns: u64,
    late: u64,
}

impl Reorder {
    /// Adds an event.
    #[inline]
    pub fn push(&mut self, ns: u64, event: &[u8]) {
        let begin = (self.bytes.len() / WORD) as u32;
        self.bytes.extend_from_slice(event);
        if !event.len().is_multiple_of(WORD) {
            self.fill_word();
        }
        let place =
            HeapKey { ns, begin_and_turn: begin << 1 | self.turn & 1, bytes: event.len() as u32 };
        if ns >= self.latest_ns || self.disordered {
            self.latest_ns = self.latest_ns.max(ns);
            self.places.push(place);
        } else {
            self.insert(place);
        }
    }

    #[cold]
    fn fill_word(&mut self) {
        let filled = self.bytes.len().next_multiple_of(WORD);
        self.bytes.resize(filled, 0);
    }

    /// Inserts an event before those that are later, and after those of the same time, as in the
    /// ring.
    #[inline(never)]
    fn insert(&mut self, place: HeapKey) {
        let near = self.places.len().saturating_sub(NEAR);
        let mut last = self.places[near..].iter();
        match last.rposition(|p| p.ns <= place.ns) {
            Some(n) => self.places.insert(near + n + 1, place),
            None if near == 0 => self.places.insert(0, place),
            None => {
                self.disordered = true;
                self.places.push(place);
            }
        }
    }

    /// Passes on, in time order, the events up to and including `until`. Events with the same time
    /// keep the order in which they came. Events that come too late for their place are passed on too,
    /// and counted.
    pub fn release(&mut self, until: u64, mut to: impl FnMut(&[u8])) {
        if take(&mut self.disordered) {
            // stable: events with the same time keep their order
            self.places.sort_by_key(|p| p.ns);
        }
        let n = self.places.partition_point(|p| p.ns <= until);
        for place in self.places.drain(..n) {
            if place.ns < self.last_ns {
                self.late += 1;
            } else {
                self.last_ns = place.ns;
            }
            let bytes = if place.is_of(self.turn) {
                &self.bytes
            } else {
                self.before_wait -= 1;
                &self.before
            };
            to(place.of(bytes));
        }
        if self.before_wait == 0 {
            self.before.clear();
            swap(&mut self.bytes, &mut self.before);
            self.before_wait = self.places.len();
            self.turn ^= 1;
        }
    }

    /// The time of the latest event that was passed on.
    pub const fn last_ns(&self) -> u64 {
        self.last_ns
    }

    /// Number of events that were passed on after a later one.
    pub const fn late(&self) -> u64 {
        self.late
    }

    /// Whether no event waits.
    pub fn is_empty(&self) -> bool {
        self.places.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn released(r: &mut Reorder, until: u64) -> Vec<u8> {
        let mut got = vec![];
        r.release(until, |bytes| got.extend_from_slice(bytes));
        got
    }

    #[test]
    fn what_may_still_be_preceded_waits() {
        let mut r = Reorder::default();
        r.push(30, b"c");
        r.push(10, b"a");
        assert_eq!(released(&mut r, 15), b"a");
        r.push(20, b"b");
        assert_eq!(released(&mut r, 30), b"bc");
        assert!(r.is_empty());
        assert_eq!(r.late(), 0);
    }

    #[test]
    fn a_latecomer_is_shown_and_counted() {
        let mut r = Reorder::default();
        r.push(30, b"c");
        assert_eq!(released(&mut r, 30), b"c");
        r.push(20, b"b");
        assert_eq!(released(&mut r, 30), b"b");
        assert_eq!(r.late(), 1);
    }

    #[test]
    fn what_comes_far_too_late_is_sorted_in_as_well() {
        let mut r = Reorder::default();
        let first = (10..200_u8).chain([5, 5, 150, 0]);
        // these come in the next turn, two of them with a time that also occurs in the first
        let second = (170..250).chain([150, 105, 150]);
        let ring: Vec<[u8; 3]> = (0_u16..)
            .zip(first.chain(second))
            .map(|(n, ns)| [ns, (n >> 8) as u8, n as u8])
            .collect();
        let (first, second) = ring.split_at(194);
        let mut got = vec![];
        for (events, until) in [(first, 100), (second, 250)] {
            events.iter().for_each(|e| r.push(e[0].into(), e));
            got.extend(released(&mut r, until));
        }
        let mut want = ring.clone();
        want.sort();
        assert_eq!(got, want.as_flattened());
        assert_eq!((r.late(), r.is_empty()), (0, true));
    }

    #[test]
    fn what_has_gone_takes_no_room() {
        let mut r = Reorder::default();
        for ns in 0..1000 {
            r.push(ns, &[0; 10]);
            released(&mut r, ns.saturating_sub(5));
            assert!(r.bytes.len() <= 100 && r.before.len() <= 100, "{ns}");
        }
    }

    proptest! {
        #[test]
        fn several_rings_are_merged(rings in prop::collection::vec(0_usize..5, 1..2000)) {
            let mut r = Reorder::default();
            let mut got: Vec<u64> = vec![];
            for (turn, events) in rings.chunks(300).enumerate() {
                for ring in 0..5 {
                    for (n, _) in events.iter().enumerate().filter(|(_, of)| **of == ring) {
                        let ns = (turn * 300 + n) as u64;
                        r.push(ns, &ns.to_ne_bytes());
                    }
                }
                r.release(turn as u64 * 300, |bytes| {
                    got.push(u64::from_ne_bytes(bytes.try_into().unwrap()));
                });
            }
            r.release(u64::MAX, |bytes| got.push(u64::from_ne_bytes(bytes.try_into().unwrap())));
            prop_assert_eq!(r.late(), 0);
            prop_assert_eq!(got, (0..rings.len() as u64).collect::<Vec<_>>());
        }

        #[test]
        fn nothing_is_lost_and_within_the_window_all_is_in_order(
            jitter in prop::collection::vec(0_u64..100, 1..200), every in 1_usize..20,
        ) {
            let mut r = Reorder::default();
            let mut got: Vec<u64> = vec![];
            let mut take = |bytes: &[u8]| {
                got.push(u64::from_ne_bytes(bytes.try_into().unwrap()));
            };
            // events 10 ns apart that come up to 100 ns late
            let mut arrivals: Vec<(u64, u64)> = jitter
                .iter()
                .enumerate()
                .map(|(n, j)| (n as u64 * 10, n as u64 * 10 + j))
                .collect();
            arrivals.sort_by_key(|a| a.1);
            for (n, (ns, now)) in arrivals.iter().enumerate() {
                r.push(*ns, &ns.to_ne_bytes());
                if n % every == 0 {
                    r.release(now.saturating_sub(100), &mut take);
                }
            }
            r.release(u64::MAX, &mut take);
            prop_assert_eq!(r.late(), 0);
            prop_assert_eq!(got, (0..jitter.len() as u64).map(|n| n * 10).collect::<Vec<_>>());
        }
    }
}
