// SPDX-License-Identifier: MIT OR Apache-2.0
//! What became of a command, from two readings of its queue.

use serde::Serialize;

use super::queue::QueueReading;
use super::walk::CommandReading;

/// The last point that a command has reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum StuckAt {
    /// The driver has started it; its SQE was not found in the SQ, or the SQ was not read.
    Started,
    /// Its SQE is in the SQ; the doorbell was not written since.
    Sq,
    /// Its SQE is in the SQ, and the doorbell was written.
    Doorbell,
    /// A CQE waits in the CQ.
    Cqe,
    /// The driver has handled its CQE.
    Complete,
}

/// What became of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum StuckState {
    /// Its CQE waits in the CQ, and the driver does not handle it: no interrupt was seen.
    Answered,
    /// The controller has not fetched its SQE.
    NotFetched,
    /// The controller has fetched its SQE, or was notified of it, and has posted no CQE.
    Held,
    /// The controller has no room for its CQE: it has not noticed that the driver handled those in the CQ.
    CqSeemsFull,
    /// The controller was notified, and nothing shows whether it has fetched the SQE.
    NotProvable,
    /// The doorbell was not written.
    NotRung,
    /// Its CQE waits, and the driver polls for it.
    NotPolled,
    /// Its SQE is not in the SQ: later ones have taken its slot, so it was fetched; or it was never put
    /// there.
    NotInSq,
    /// It, or its queue, changed between the readings, or could not be read twice.
    Unknown,
}

/// The slot of a command, as entries before the tail; `None` if its SQE is not in the SQ.
fn distance(queue: &QueueReading, command: &CommandReading) -> Option<u16> {
    let slot = queue.slot_of(|cid| command.has(cid))?;
    Some(queue.before_tail(slot))
}

impl StuckAt {
    /// The place of a command in one reading.
    pub fn of(queue: Option<&QueueReading>, command: &CommandReading) -> Self {
        if command.completed {
            return Self::Complete;
        }
        let Some(queue) = queue else {
            return Self::Started;
        };
        if queue.waiting.iter().any(|cid| command.has(*cid)) {
            return Self::Cqe;
        }
        match distance(queue, command) {
            None => Self::Started,
            Some(distance) if distance <= queue.before_tail(queue.rung_tail) => Self::Sq,
            Some(_) => Self::Doorbell,
        }
    }
}

/// Whether a position, up to which the controller has read, is beyond the SQE.
fn is_beyond(queue: &QueueReading, position: u16, distance: u16) -> bool {
    queue.before_tail(position) < distance
}

/// The verdict on a command that is in both readings of its queue.
pub fn judge(
    first: (&QueueReading, &CommandReading),
    second: (&QueueReading, &CommandReading),
) -> StuckState {
    let ((before, earlier), (queue, command)) = (first, second);
    let same_queue = (before.sq, before.cq, before.depth) == (queue.sq, queue.cq, queue.depth);
    if !same_queue || !earlier.is_same(command) {
        return StuckState::Unknown;
    }
    let places = [StuckAt::of(Some(before), earlier), StuckAt::of(Some(queue), command)];
    match places {
        [StuckAt::Cqe, StuckAt::Cqe] if queue.polled => StuckState::NotPolled,
        [StuckAt::Cqe, StuckAt::Cqe] => StuckState::Answered,
        [StuckAt::Sq, StuckAt::Sq] => StuckState::NotRung,
        // the command id is known, so it would have been found
        [StuckAt::Started, StuckAt::Started] if queue.has_sq() && command.sqe.is_some() => {
            StuckState::NotInSq
        }
        [StuckAt::Doorbell, StuckAt::Doorbell] => at_device(before, queue, command),
        _ => StuckState::Unknown,
    }
}

/// The SQ head of the latest CQE, if the controller keeps it. Linux ignores it, so that a controller
/// with a constant or late one works: it must have moved, and have passed what has completed.
fn proven_head(before: &QueueReading, queue: &QueueReading) -> Option<u16> {
    let head = queue.sq_head?;
    let moves = before.head_moves
        || queue.head_moves
        || before.sq_head.is_some_and(|earlier| earlier != head);
    (moves && !before.head_is_wrong && !queue.head_is_wrong).then_some(head)
}

/// The verdict on a command whose doorbell was written before the first reading.
fn at_device(before: &QueueReading, queue: &QueueReading, command: &CommandReading) -> StuckState {
    if queue.is_overfull {
        return StuckState::NotProvable;
    }
    if before.seems_full() && queue.seems_full() && before.cq_head == queue.cq_head {
        return StuckState::CqSeemsFull;
    }
    let Some(distance) = distance(queue, command) else {
        return StuckState::Unknown;
    };
    if let Some(head) = proven_head(before, queue) {
        if is_beyond(queue, head, distance) {
            return StuckState::Held;
        }
        // A CQE that was posted between the readings reports how far the controller had read by then.
        if before.cq_end() != queue.cq_end() {
            return StuckState::NotFetched;
        }
    }
    // A controller that polls its shadow doorbells sets an event index that no tail reaches.
    let index = |of: &QueueReading| {
        let index = u16::try_from(of.event_index?).ok()?;
        (index < of.depth).then_some(index)
    };
    match (index(before), index(queue)) {
        (Some(_), Some(now)) if is_beyond(queue, now, distance) => StuckState::Held,
        (Some(then), Some(now)) if then == now => StuckState::NotFetched,
        (Some(_), Some(_)) => StuckState::Unknown,
        _ => StuckState::NotProvable,
    }
}

#[cfg(test)]
#[path = "stuck_state_tests.rs"]
mod tests;
