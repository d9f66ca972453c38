//! Events into the order of time. CPUs write the ring as they come, and a program may be interrupted
//! between its look at the clock and its place in the ring: what is read is nearly in order. So
//! events are kept for a moment, and let go when nothing earlier is to be expected.

use std::mem::swap;
use std::mem::take;

/// Where an event lies.
#[derive(Clone, Copy, Debug)]
struct Place {
    ns: u64,
    begin: usize,
    end: usize,
}

/// How many later ones an event may pass on the way to its place. More are rare, and are left to a
/// sort: its cost does not grow with the square of the events.
const NEAR: usize = 64;

/// What has been handed over is kept until it is so many times what waits: so a byte is moved for two
/// that come, and not each of them at each release.
const KEPT: usize = 2;

/// Events that wait for earlier ones. Takes no memory but for its growing buffers.
#[derive(Debug, Default)]
pub struct Reorder {
    bytes: Vec<u8>,
    /// In order, unless `disordered`.
    places: Vec<Place>,
    disordered: bool,
    /// Bytes of events that have been handed over.
    gone: usize,
    spare: Vec<u8>,
    last_ns: u64,
    late: u64,
}

impl Reorder {
    /// Takes an event.
    pub fn push(&mut self, ns: u64, event: &[u8]) {
        let begin = self.bytes.len();
        self.bytes.extend_from_slice(event);
        let end = self.bytes.len();
        let place = Place { ns, begin, end };
        if self.places.last().is_some_and(|last| last.ns > ns) {
            self.insert(place);
        } else {
            self.places.push(place);
        }
    }

    /// Before those that are later; behind its equals, as the ring has them.
    #[inline(never)]
    fn insert(&mut self, place: Place) {
        let near = self.places.len().saturating_sub(NEAR);
        let before = self.places[near..].iter().rposition(|p| p.ns <= place.ns);
        match before {
            Some(n) => self.places.insert(near + n + 1, place),
            None => {
                self.disordered |= near > 0;
                self.places.insert(near, place);
            }
        }
    }

    /// Hands over, in the order of time, what is not later than `until`. Events of one instant keep
    /// the ring's order. Those that come too late for their place are handed over all the same, and
    /// counted.
    pub fn release(&mut self, until: u64, mut to: impl FnMut(&[u8])) {
        if take(&mut self.disordered) {
            // by the place, too: the stable sort would keep ties in order, but takes memory
            self.places.sort_unstable_by_key(|p| (p.ns, p.begin));
        }
        let n = self.places.partition_point(|p| p.ns <= until);
        for place in &self.places[..n] {
            if place.ns < self.last_ns {
                self.late += 1;
            } else {
                self.last_ns = place.ns;
            }
            to(&self.bytes[place.begin..place.end]);
            self.gone += place.end - place.begin;
        }
        self.places.drain(..n);
        if self.gone >= KEPT * self.len() {
            self.close_up();
        }
    }

    /// What stays moves to the other buffer, in its new order. Most of it is in that order already:
    /// what lies in a row moves at once.
    fn close_up(&mut self) {
        self.spare.clear();
        let mut row = 0..0;
        for place in &mut self.places {
            if place.begin != row.end {
                self.spare.extend_from_slice(&self.bytes[row]);
                row = place.begin..place.begin;
            }
            row.end = place.end;
            let end = self.spare.len() + row.len();
            (place.begin, place.end) = (end - (place.end - place.begin), end);
        }
        self.spare.extend_from_slice(&self.bytes[row]);
        swap(&mut self.bytes, &mut self.spare);
        self.gone = 0;
    }

    /// The time of the latest event that was handed over.
    pub const fn last_ns(&self) -> u64 {
        self.last_ns
    }

    /// Events that were handed over after a later one.
    pub const fn late(&self) -> u64 {
        self.late
    }

    /// Bytes that wait.
    pub const fn len(&self) -> usize {
        self.bytes.len() - self.gone
    }

    /// Whether nothing waits.
    pub const fn is_empty(&self) -> bool {
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
        let ring: Vec<u8> = (10..200).chain([5, 5, 150, 0]).collect();
        for (n, ns) in ring.iter().enumerate() {
            r.push((*ns).into(), &[*ns, n as u8]);
        }
        // the first at once, the others after they have moved
        let mut got = released(&mut r, 100);
        got.extend(released(&mut r, 200));
        let mut want: Vec<[u8; 2]> = ring.iter().zip(0..).map(|(ns, n)| [*ns, n]).collect();
        want.sort();
        assert_eq!(got, want.as_flattened());
        assert_eq!((r.late(), r.len()), (0, 0));
    }

    proptest! {
        #[test]
        fn nothing_is_lost_and_within_the_window_all_is_in_order(
            jitter in prop::collection::vec(0_u64..100, 1..200), every in 1_usize..20,
        ) {
            let mut r = Reorder::default();
            let mut got: Vec<u64> = vec![];
            let mut take = |bytes: &[u8]| {
                got.push(u64::from_ne_bytes(bytes.try_into().unwrap()));
            };
            // events of 10 ns distance that come up to 100 ns late
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
