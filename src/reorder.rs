//! Events into the order of time. CPUs write the ring as they come, and a program may be interrupted
//! between its look at the clock and its place in the ring: what is read is nearly in order. So
//! events are kept for a moment, and let go when nothing earlier is to be expected.

use std::mem::swap;

/// Where an event lies.
#[derive(Clone, Copy, Debug)]
struct Place {
    ns: u64,
    begin: usize,
    end: usize,
}

/// Events that wait for earlier ones. Takes no memory but for its two growing buffers.
#[derive(Debug, Default)]
pub struct Reorder {
    bytes: Vec<u8>,
    places: Vec<Place>,
    spare: Vec<u8>,
    last_ns: u64,
    late: u64,
}

impl Reorder {
    /// Takes an event.
    pub fn push(&mut self, ns: u64, event: &[u8]) {
        let begin = self.bytes.len();
        self.bytes.extend_from_slice(event);
        self.places.push(Place {
            ns,
            begin,
            end: self.bytes.len(),
        });
    }

    /// Hands over, in the order of time, what is not later than `until`. Events of one instant keep
    /// the ring's order. Those that come too late for their place are handed over all the same, and
    /// counted.
    pub fn release(&mut self, until: u64, mut to: impl FnMut(&[u8])) {
        // by the place, too: the stable sort would keep ties in order, but takes memory
        self.places.sort_unstable_by_key(|p| (p.ns, p.begin));
        let n = self.places.partition_point(|p| p.ns <= until);
        for place in &self.places[..n] {
            if place.ns < self.last_ns {
                self.late += 1;
            } else {
                self.last_ns = place.ns;
            }
            to(&self.bytes[place.begin..place.end]);
        }
        // what stays moves to the other buffer
        self.spare.clear();
        self.places.drain(..n);
        for place in &mut self.places {
            let begin = self.spare.len();
            self.spare
                .extend_from_slice(&self.bytes[place.begin..place.end]);
            (place.begin, place.end) = (begin, self.spare.len());
        }
        swap(&mut self.bytes, &mut self.spare);
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
        self.bytes.len()
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
