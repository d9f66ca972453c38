// SPDX-License-Identifier: MIT OR Apache-2.0
//! Verdicts on one command in slot 3 of an SQ of 8 entries, with the tail at 5.

use proptest::prelude::*;

use super::super::queue::Posted;
use super::*;
use crate::nvme::sqe::{Parts, Sqe};

const CID: u16 = 0x2007;

fn command() -> CommandReading {
    let sqe = Some(Sqe::from(Parts { opcode: 2, cid: CID, nsid: 1, ..Parts::default() }));
    CommandReading { request: 0x1000, tag: 7, deadline: 100, timeout: 30, completed: false, sqe }
}

fn queue() -> QueueReading {
    let mut cids = vec![0; 8];
    cids[3] = CID;
    let (sq, cq) = (0x2000, 0x3000);
    let base = QueueReading { sq, cq, depth: 8, ..QueueReading::default() };
    QueueReading { sq_tail: 5, rung_tail: 5, cids, ..base }
}

/// The verdict on two readings, each changed.
fn changed(
    first: impl FnOnce(&mut QueueReading),
    second: impl FnOnce(&mut QueueReading),
) -> StuckState {
    let (mut one, mut two) = (queue(), queue());
    first(&mut one);
    second(&mut two);
    judge((&one, &command()), (&two, &command()))
}

fn both(change: impl Fn(&mut QueueReading)) -> StuckState {
    changed(&change, &change)
}

fn with_head(queue: &mut QueueReading, head: u16) {
    queue.sq_head = Some(head);
    queue.head_moves = true;
}

fn with_index(queue: &mut QueueReading, event_index: u32) {
    queue.event_index = Some(event_index);
}

#[test]
fn a_cqe_that_waits_in_both_readings_was_not_handled() {
    let waits = |q: &mut QueueReading| q.waiting = vec![9, CID];
    assert_eq!(both(waits), StuckState::Answered);
    let polled = |q: &mut QueueReading| (waits(q), q.polled = true).0;
    assert_eq!(both(polled), StuckState::NotPolled);
    assert_eq!(changed(|_| {}, waits), StuckState::Unknown, "late");
    assert_ne!(both(|q| q.waiting = vec![CID ^ 0x1000]), StuckState::Answered);
}

#[test]
fn an_sq_head_beyond_the_slot_shows_that_it_was_fetched() {
    use StuckState::{Held, NotProvable};
    for (head, verdict) in [(4, Held), (5, Held), (3, NotProvable), (6, NotProvable)] {
        assert_eq!(both(|q| with_head(q, head)), verdict, "{head}");
    }
    let head_and = |change: fn(&mut QueueReading)| {
        both(|q| {
            with_head(q, 4);
            change(q);
        })
    };
    assert_eq!(head_and(|q| with_index(q, 3)), Held, "whatever the shadow doorbell");
    assert_eq!(head_and(|q| q.is_overfull = true), NotProvable, "no room for so many");
    // Linux ignores the SQ head of a CQE: a controller may report always the same, or too little
    assert_eq!(head_and(|q| q.head_moves = false), NotProvable);
    assert_eq!(head_and(|q| q.head_is_wrong = true), NotProvable);
    let constant = |q: &mut QueueReading| (q.head_moves, q.event_index) = (false, Some(3));
    assert_eq!(head_and(constant), StuckState::NotFetched, "the shadow doorbell decides");
}

/// The head that the controller knows is just behind the place of its next CQE: from there on it is full.
#[test]
fn a_cq_that_the_controller_takes_to_be_full_is_told_from_a_held_command() {
    let known = |q: &mut QueueReading, head: u32| {
        with_head(q, 4);
        q.cq_event_index = Some(head);
    };
    let full = u32::from(queue().cq_head) + 1;
    assert_eq!(both(|q| known(q, full)), StuckState::CqSeemsFull);
    assert_eq!(both(|q| known(q, full - 1)), StuckState::Held);
    let once = changed(|q| known(q, full), |q| known(q, full - 1));
    assert_eq!(once, StuckState::Held);
}

#[test]
fn an_sq_head_that_was_posted_between_the_readings_shows_that_it_was_not_fetched() {
    let posted = |q: &mut QueueReading| (q.sq_head, q.cq_head) = (Some(3), 1);
    assert_eq!(changed(|q| q.sq_head = Some(2), posted), StuckState::NotFetched);
    // one that was posted before the first reading, and handled between them, shows nothing
    let before = |q: &mut QueueReading| {
        with_head(q, 3);
        q.waiting = vec![9];
    };
    let handled = |q: &mut QueueReading| {
        with_head(q, 3);
        q.cq_head = 1;
    };
    assert_eq!(changed(before, handled), StuckState::NotProvable);
}

#[test]
fn a_shadow_doorbell_shows_how_far_the_controller_has_looked() {
    use StuckState::{Held, NotFetched, NotProvable, Unknown};
    for (index, verdict) in [
        (5, Held),
        (4, Held),
        (3, NotFetched),
        (7, NotFetched),
        (u32::MAX, NotProvable),
        (8, NotProvable),
    ] {
        assert_eq!(both(|q| with_index(q, index)), verdict, "{index}");
    }
    assert_eq!(changed(|q| with_index(q, 2), |q| with_index(q, 3)), Unknown, "it moves");
}

#[test]
fn without_a_doorbell_or_an_sqe_the_controller_is_not_to_blame() {
    assert_eq!(both(|q| q.rung_tail = 3), StuckState::NotRung);
    assert_eq!(both(|q| q.rung_tail = 4), StuckState::NotProvable);
    assert_eq!(both(|q| q.cids.clear()), StuckState::Unknown);
    assert_eq!(both(|q| q.cids[3] = 0x1007), StuckState::NotInSq);
}

#[test]
fn what_changed_gets_no_verdict() {
    assert_eq!(changed(|q| q.cq = 1, |_| {}), StuckState::Unknown);
    let (queue, before) = (queue(), command());
    let after = CommandReading { deadline: 101, ..before };
    assert_eq!(judge((&queue, &before), (&queue, &after)), StuckState::Unknown);
    let completed = CommandReading { completed: true, ..before };
    assert_eq!(StuckAt::of(Some(&queue), &completed), StuckAt::Complete);
    assert_eq!(StuckAt::of(None, &before), StuckAt::Started);
}

proptest! {
    /// A model of a controller that fetches in order: the verdict agrees with what it did.
    #[test]
    fn a_verdict_is_never_wrong(
        depth in 4..64_u16, start in 0..64_u16, submitted in 1..64_u16, seen in 0..64_u16,
        fetched in 0..64_u16, posted in 0..64_u16, which in 0..64_u16, shadow: bool,
        constant in prop::option::of(0..64_u16),
    ) {
        let submitted = 1 + submitted % (depth - 1);
        let which = which % submitted;
        let seen = seen % (submitted + 1);
        let fetched = fetched % (seen + 1);
        let posted = posted % (fetched + 1);
        let at = |n: u16| (start + n) % depth;
        let mut cids = vec![0xffff; usize::from(depth)];
        for n in 0..submitted {
            cids[usize::from(at(n))] = n;
        }
        // completed in order; the heads when their CQEs were posted, latest first
        let honest = |cid| at(if cid + 1 == posted { fetched } else { cid + 1 });
        let heads: Vec<_> = (0..posted)
            .rev()
            .map(|cid| Posted { cid, sq_head: constant.map_or(honest(cid), |c| c % depth) })
            .collect();
        let which = which.max(posted).min(submitted - 1);
        let mut queue = QueueReading {
            sq: 1,
            cq: 1,
            depth,
            sq_tail: at(submitted),
            rung_tail: at(submitted),
            cids,
            sq_head: heads.first().map(|cqe| cqe.sq_head),
            event_index: shadow.then(|| at(seen).into()),
            ..QueueReading::default()
        };
        queue.check_heads(&heads, &[]);
        prop_assert!(constant.is_some() || !queue.head_is_wrong);
        let command = CommandReading { tag: which.into(), sqe: None, ..command() };
        // one more CQE is posted between the readings
        let mut before = queue.clone();
        before.cq_head = 1;
        match judge((&before, &command), (&queue, &command)) {
            StuckState::Held => prop_assert!(which < seen),
            StuckState::NotFetched => prop_assert!(which >= fetched),
            verdict => prop_assert_eq!(verdict, StuckState::NotProvable),
        }
    }
}
