// SPDX-License-Identifier: MIT OR Apache-2.0
//! Lanes of a queue: commands that overlap are in different lanes.

use std::collections::BTreeSet;

use crate::model::timeline::Span;

/// Most lanes of a queue: Linux has at most 4095 entries in an NVMe queue.
const MOST_LANES: usize = 1 << 12;

/// The lanes of a queue.
#[derive(Debug, Default)]
pub(super) struct Lanes {
    /// The end of the last command of each lane.
    ends: BTreeSet<(u64, usize)>,
}

impl Lanes {
    /// Puts a command into a lane, and returns the lane's number. Commands come in the order of
    /// their ends. Of the lanes that are free at its begin, it takes the one that became free last:
    /// so there are as many lanes as commands overlap, and no more.
    pub(super) fn put(&mut self, span: &Span) -> usize {
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
    use proptest::collection::vec;
    use proptest::prelude::*;

    /// The largest number of spans that overlap. One that ends where another begins does not.
    fn overlap(spans: &[Span]) -> usize {
        let at = |t: u64| {
            let here = |s: &&Span| s.begin_ns <= t && t < s.end_ns.unwrap();
            spans.iter().filter(here).count()
        };
        spans.iter().map(|s| at(s.begin_ns)).max().unwrap_or(0)
    }

    proptest! {
        #[test]
        fn there_are_as_many_lanes_as_commands_overlap(
            spans in vec((0_u64..100, 1_u64..30), 1..60),
        ) {
            let mut spans: Vec<Span> = spans
                .into_iter()
                .map(|(begin_ns, len)| Span { begin_ns, end_ns: Some(begin_ns + len) })
                .collect();
            spans.sort_by_key(|s| s.end_ns);
            let mut lanes = Lanes::default();
            let placed: Vec<usize> = spans.iter().map(|s| lanes.put(s)).collect();
            for (i, a) in spans.iter().enumerate() {
                for (j, b) in spans.iter().enumerate().skip(i + 1) {
                    let apart = a.end_ns.unwrap() <= b.begin_ns || b.end_ns.unwrap() <= a.begin_ns;
                    prop_assert!(placed[i] != placed[j] || apart, "{a:?} {b:?}");
                }
            }
            prop_assert_eq!(lanes.ends.len(), overlap(&spans));
        }
    }

    /// More commands overlap than a queue can hold, as in a file that was made so.
    #[test]
    fn lanes_are_bounded() {
        let mut lanes = Lanes::default();
        let open = Span { begin_ns: 5, end_ns: None };
        for n in 0..MOST_LANES + 10 {
            assert_eq!(lanes.put(&open), n.min(MOST_LANES - 1));
        }
        assert_eq!(lanes.ends.len(), MOST_LANES);
    }

    #[test]
    fn a_command_without_an_end_keeps_its_lane() {
        let mut lanes = Lanes::default();
        let open = Span { begin_ns: 5, end_ns: None };
        assert_eq!(lanes.put(&open), 0);
        assert_eq!(lanes.put(&Span { begin_ns: 9, end_ns: Some(10) }), 1);
    }
}
