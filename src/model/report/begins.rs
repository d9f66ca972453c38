// SPDX-License-Identifier: MIT OR Apache-2.0
//! Begins and ends of commands in the order of time, from events that come at the ends. Pure.
//!
//! A begin becomes known late. A first pass ([`Longest`]) finds the longest commands of a recording; the
//! begins of the others wait until no longer one can follow ([`Changes`]). So the memory has a limit,
//! even if a command takes a minute.

use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;

use crate::model::event::REORDER_NS;
use crate::model::timeline::Span;

/// Number of longest commands that the first pass keeps.
const LONGEST: usize = 1 << 16;

/// A command of the first pass.
#[derive(Clone, Copy, Debug)]
struct Long<B> {
    length_ns: u64,
    begin_ns: u64,
    tie: u64,
    begin: B,
}

impl<B> Long<B> {
    const fn order(&self) -> (u64, u64) {
        (self.length_ns, self.tie)
    }
}

impl<B> PartialEq for Long<B> {
    fn eq(&self, other: &Self) -> bool {
        self.order() == other.order()
    }
}

impl<B> Eq for Long<B> {}

impl<B> PartialOrd for Long<B> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<B> Ord for Long<B> {
    fn cmp(&self, other: &Self) -> Ordering {
        self.order().cmp(&other.order())
    }
}

/// The longest commands of a recording.
#[derive(Debug)]
pub struct Longest<B> {
    /// The shortest is on top.
    kept: BinaryHeap<Reverse<Long<B>>>,
    /// The length of the longest command that is not among them.
    others_ns: u64,
    most: usize,
}

impl<B> Default for Longest<B> {
    fn default() -> Self {
        Self::at_most(LONGEST)
    }
}

impl<B> Longest<B> {
    /// Keeps at most this number of commands.
    #[must_use]
    pub fn at_most(most: usize) -> Self {
        Self { kept: BinaryHeap::new(), others_ns: 0, most }
    }

    /// Adds a command. `begin` is called if it is among the longest so far. Begins of the same time are
    /// in the order of `tie`.
    pub fn add(&mut self, span: &Span, tie: u64, begin: impl FnOnce() -> Option<B>) {
        let length_ns = span.length();
        let full = self.kept.len() >= self.most;
        if full
            && let Some(Reverse(least)) = self.kept.peek()
            && length_ns <= least.length_ns
        {
            self.others_ns = self.others_ns.max(length_ns);
            return;
        }
        let Some(begin) = begin() else {
            return;
        };
        self.kept.push(Reverse(Long { length_ns, begin_ns: span.begin_ns, tie, begin }));
        if full && let Some(Reverse(least)) = self.kept.pop() {
            self.others_ns = self.others_ns.max(least.length_ns);
        }
    }
}

impl<B> Longest<B> {
    /// Number of commands that are kept.
    #[must_use]
    pub fn number(&self) -> usize {
        self.kept.len()
    }

    /// The commands, longest first.
    pub fn longest_first(self) -> impl Iterator<Item = B> {
        self.kept.into_sorted_vec().into_iter().map(|Reverse(long)| long.begin)
    }
}

/// What changes at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change<B, E> {
    /// A command ends.
    End(E),
    /// A command begins.
    Begin(B),
}

/// A change that waits for earlier ones.
#[derive(Clone, Copy, Debug)]
struct Waiting<B, E> {
    at_ns: u64,
    tie: u64,
    change: Change<B, E>,
}

impl<B, E> Waiting<B, E> {
    /// Ends come before begins of the same time.
    const fn order(&self) -> (u64, bool, u64) {
        let begins = matches!(self.change, Change::Begin(_));
        (self.at_ns, begins, self.tie)
    }
}

impl<B, E> PartialEq for Waiting<B, E> {
    fn eq(&self, other: &Self) -> bool {
        self.order() == other.order()
    }
}

impl<B, E> Eq for Waiting<B, E> {}

impl<B, E> PartialOrd for Waiting<B, E> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<B, E> Ord for Waiting<B, E> {
    fn cmp(&self, other: &Self) -> Ordering {
        self.order().cmp(&other.order())
    }
}

/// Puts begins and ends into the order of time.
#[derive(Debug)]
pub struct Changes<B, E> {
    /// Begins of longer commands are known from the first pass.
    others_ns: u64,
    /// How much earlier than an event a change may be that is not known yet.
    late_ns: u64,
    waiting: BinaryHeap<Reverse<Waiting<B, E>>>,
    most: usize,
}

impl<B, E> Changes<B, E> {
    /// For begins and ends that come in the order of time.
    #[must_use]
    pub fn in_order(most: usize) -> Self {
        Self { others_ns: 0, late_ns: 0, waiting: BinaryHeap::new(), most }
    }

    /// For the second pass over a recording. At most `most` changes wait: only where very many long
    /// commands overlap, some are then out of order.
    #[must_use]
    pub fn after(longest: Longest<B>, most: usize) -> Self {
        let others_ns = longest.others_ns;
        let longer = longest.kept.into_iter().map(|Reverse(long)| long);
        let waiting = longer.filter(|l| l.length_ns > others_ns).map(|long| {
            Reverse(Waiting {
                at_ns: long.begin_ns,
                tie: long.tie,
                change: Change::Begin(long.begin),
            })
        });
        Self {
            others_ns,
            late_ns: others_ns.saturating_add(REORDER_NS),
            waiting: waiting.collect(),
            most,
        }
    }

    /// Adds a change. Changes at the same time are ordered by `tie`.
    pub fn push(&mut self, at_ns: u64, tie: u64, change: Change<B, E>) {
        self.waiting.push(Reverse(Waiting { at_ns, tie, change }));
    }

    /// Adds a command of the second pass.
    pub fn add(&mut self, span: &Span, tie: u64, begin: B, end: E) {
        if span.length() <= self.others_ns {
            self.push(span.begin_ns, tie, Change::Begin(begin));
        }
        if let Some(end_ns) = span.end_ns {
            self.push(end_ns, tie, Change::End(end));
        }
    }

    /// The next change that none can precede, and its time, `now_ns` being the time of the latest
    /// event; `u64::MAX` after the last one.
    pub fn next(&mut self, now_ns: u64) -> Option<(u64, Change<B, E>)> {
        let before = now_ns.saturating_sub(self.late_ns);
        let next = &self.waiting.peek()?.0;
        let is_full = self.waiting.len() > self.most;
        if next.at_ns >= before && now_ns != u64::MAX && !is_full {
            return None;
        }
        let Reverse(next) = self.waiting.pop()?;
        Some((next.at_ns, next.change))
    }
}
