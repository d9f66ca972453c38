// SPDX-License-Identifier: MIT OR Apache-2.0
//! One event as a row of numbers: what the columns of a block hold, and how an [`Event`] becomes a
//! row. `stored` has the way back.
//!
//! Most commands share all properties except their times, ids and blocks. These shared properties are
//! the shape of a row; a block holds each shape once. The same is true for the submitting thread, and
//! for the outcome.

use super::distance::distances;
use super::shape::{OUTCOME, Shape, TASK, Words, outcome, task};
use crate::model::event::{CommandId, Event, EventKind, Outcome, Submission};
use crate::model::timeline::Timeline;
use crate::nvme::opcode::QueueKind;

/// Kinds of rows. The numbers are part of the format.
pub(super) mod kind {
    pub const SUBMIT: u8 = 1;
    pub const COMPLETE: u8 = 2;
    pub const COMMAND: u8 = 3;
    pub const UNFINISHED: u8 = 4;
    pub const MISSED: u8 = 5;
    pub const SQ: u8 = 6;
    pub const TIMEOUT: u8 = 7;
    pub const CANCEL: u8 = 8;
    pub const REQUEUE: u8 = 9;
    pub const RETRY: u8 = 10;
    pub const ASYNC: u8 = 11;
    pub const STATE: u8 = 12;
}

/// The submission is known (always, but for a missed completion).
pub(super) const SUBMITTED: u8 = 1;
/// The number of bytes is known.
pub(super) const BYTES: u8 = 1 << 1;
/// The submitter is known.
pub(super) const SUBMITTER: u8 = 1 << 2;
/// The driver's outcome is known.
pub(super) const VERDICT: u8 = 1 << 3;
/// The latency is known.
pub(super) const LATENCY: u8 = 1 << 4;
/// The points are known.
pub(super) const TIMELINE: u8 = 1 << 5;
/// The command of a queue's event, or the number of a retry, is known.
pub(super) const KNOWN: u8 = 1 << 6;
/// Only the request for a controller's state was observed.
pub(super) const REQUESTED: u8 = 1 << 7;

/// Columns of a row.
pub const COLUMNS: usize = 20;
/// The columns, by number. The numbers are part of the format.
pub(super) mod column {
    /// CLOCK_MONOTONIC nanoseconds.
    pub const AT: usize = 0;
    /// Entries of the dictionaries.
    pub const SHAPE: usize = 1;
    pub const TASK: usize = 2;
    pub const OUTCOME: usize = 3;
    pub const QID: usize = 4;
    pub const CID: usize = 5;
    /// CDW10, and CDW11 above: the starting LBA of most commands.
    pub const SLBA: usize = 6;
    /// The CPU of the submission.
    pub const CPU: usize = 7;
    pub const COMPLETE_CPU: usize = 8;
    /// From the end of the set-up to the event.
    pub const LATENCY: usize = 9;
    /// Distances of seven points from their reference, see `distances`.
    pub const POINTS: usize = 10;
    /// The stack at the submission, and at the completion.
    pub const STACK: usize = 17;
    pub const COMPLETE_STACK: usize = 18;
    /// What only rare events have: an age, the state of a controller, a queue's head and tail.
    pub const VALUE: usize = 19;
}
pub use self::column::{AT, OUTCOME as OUTCOME_COLUMN, SHAPE as SHAPE_COLUMN, TASK as TASK_COLUMN};

/// A row. The columns of the dictionaries are zero; their entries are beside the columns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Row {
    pub shape: Shape,
    pub task: Words<TASK>,
    pub outcome: Words<OUTCOME>,
    pub columns: [u64; COLUMNS],
}

/// The shape of a finished command.
#[inline(always)]
fn shape_of(id: &CommandId, submission: &Submission, end: &Outcome) -> Shape {
    let flag = |set, bit: u8| if set { bit } else { 0 };
    let timeline = end.timeline.as_ref();
    Shape {
        kind: kind::COMMAND,
        known: SUBMITTED
            | flag(submission.bytes.is_some(), BYTES)
            | flag(submission.knows_submitter, SUBMITTER)
            | flag(end.verdict.is_some(), VERDICT)
            | flag(end.latency_ns.is_some(), LATENCY)
            | flag(timeline.is_some(), TIMELINE),
        opcode: id.opcode.code,
        admin: id.opcode.queue == QueueKind::Admin,
        flags: submission.sqe.flags(),
        metadata: submission.sqe.metadata(),
        pattern: timeline.map_or(0, Timeline::pattern),
        ctrl: id.ctrl,
        nsid: id.nsid,
        bytes: submission.bytes.unwrap_or(0),
        cdw: [12, 13, 14, 15].map(|n| submission.sqe.cdw(n)),
    }
}

impl Row {
    #[inline(always)]
    fn of(kind: u8, at_ns: u64) -> Self {
        let mut row = Self::default();
        row.shape.kind = kind;
        row.columns[AT] = at_ns;
        row
    }

    #[inline(always)]
    fn put_id(&mut self, id: &CommandId) {
        self.shape.ctrl = id.ctrl;
        self.shape.nsid = id.nsid;
        self.shape.opcode = id.opcode.code;
        self.shape.admin = id.opcode.queue == QueueKind::Admin;
        self.columns[column::QID] = id.qid.into();
        self.columns[column::CID] = id.cid.into();
    }

    #[inline(always)]
    fn put_submission(&mut self, submission: &Submission) {
        let shape = &mut self.shape;
        shape.known |= SUBMITTED;
        shape.flags = submission.sqe.flags();
        shape.metadata = submission.sqe.metadata();
        shape.cdw = [12, 13, 14, 15].map(|n| submission.sqe.cdw(n));
        if let Some(bytes) = submission.bytes {
            shape.known |= BYTES;
            shape.bytes = bytes;
        }
        if submission.knows_submitter {
            shape.known |= SUBMITTER;
            self.task = task(submission);
            self.columns[column::CPU] = submission.cpu.into();
        }
        self.columns[column::SLBA] = submission.sqe.pair(10);
        self.columns[column::STACK] = submission.stack.0;
    }

    #[inline(always)]
    fn put_timeline(&mut self, latency: Option<u64>, timeline: Option<&Timeline>) {
        if let Some(latency) = latency {
            self.shape.known |= LATENCY;
            self.columns[column::LATENCY] = latency;
        }
        if let Some(timeline) = timeline {
            self.shape.known |= TIMELINE;
            self.shape.pattern = timeline.pattern();
            let at_ns = self.columns[AT];
            let setup_out = at_ns.wrapping_sub(self.columns[column::LATENCY]);
            let ns = |point| timeline.ns(point);
            let all = distances(ns, timeline.pattern(), at_ns, setup_out);
            self.columns[column::POINTS..][..all.len()].copy_from_slice(&all);
        }
    }

    #[inline(always)]
    fn put_outcome(&mut self, end: &Outcome) {
        if end.verdict.is_some() {
            self.shape.known |= VERDICT;
        }
        self.outcome = outcome(end.verdict.as_ref(), end.conditions);
        self.columns[column::COMPLETE_CPU] = end.cpu.into();
        self.columns[column::COMPLETE_STACK] = end.stack.0;
        self.put_timeline(end.latency_ns, end.timeline.as_ref());
    }

    fn put_value(&mut self, value: Option<u64>) {
        if let Some(value) = value {
            self.shape.known |= KNOWN;
            self.columns[column::VALUE] = value;
        }
    }

    /// The row of a finished command. Nearly all rows are such: each column is set once.
    #[inline(always)]
    fn of_command(at_ns: u64, id: &CommandId, submission: &Submission, end: &Outcome) -> Self {
        let timeline = end.timeline.as_ref();
        let latency = end.latency_ns.unwrap_or(0);
        let [start, setup_in, issue, doorbell, irq, cqe, ended] = timeline.map_or([0; 7], |line| {
            let ns = |point| line.ns(point);
            distances(ns, line.pattern(), at_ns, at_ns.wrapping_sub(latency))
        });
        Self {
            shape: shape_of(id, submission, end),
            task: task(submission),
            outcome: outcome(end.verdict.as_ref(), end.conditions),
            columns: [
                at_ns,
                0,
                0,
                0,
                id.qid.into(),
                id.cid.into(),
                submission.sqe.pair(10),
                submission.cpu.into(),
                end.cpu.into(),
                latency,
                start,
                setup_in,
                issue,
                doorbell,
                irq,
                cqe,
                ended,
                submission.stack.0,
                end.stack.0,
                0,
            ],
        }
    }

    /// The row of an event.
    #[inline(always)]
    pub fn new(event: &Event) -> Self {
        match &event.what {
            EventKind::Command(id, submission, end) => {
                Self::of_command(event.at_ns, id, submission, end)
            }
            _ => Self::of_other(event),
        }
    }

    #[inline(never)]
    fn of_other(event: &Event) -> Self {
        let mut row = Self::of(0, event.at_ns);
        if let Some(id) = event.what.id() {
            row.put_id(id);
        }
        row.shape.kind = row.put_rest(&event.what);
        row
    }

    /// The parts of rarer events. Returns the kind.
    fn put_rest(&mut self, what: &EventKind) -> u8 {
        match what {
            EventKind::Submit(_, submission) => {
                self.put_submission(submission);
                kind::SUBMIT
            }
            EventKind::Complete(_, outcome) => {
                self.put_outcome(outcome);
                kind::COMPLETE
            }
            EventKind::Command(..) => kind::COMMAND,
            EventKind::Unfinished { submission, age_ns, .. } => {
                self.put_submission(submission);
                self.columns[column::VALUE] = *age_ns;
                kind::UNFINISHED
            }
            EventKind::Missed { submission, latency_max_ns, timeline, .. } => {
                if let Some(submission) = submission {
                    self.put_submission(submission);
                }
                self.put_timeline(*latency_max_ns, timeline.as_ref());
                kind::MISSED
            }
            EventKind::Timeout { age_ns, .. } => {
                self.columns[column::VALUE] = *age_ns;
                kind::TIMEOUT
            }
            EventKind::Cancel { age_ns, .. } => {
                self.columns[column::VALUE] = *age_ns;
                kind::CANCEL
            }
            EventKind::Requeue(_) => kind::REQUEUE,
            EventKind::Retry { retries, .. } => {
                self.put_value(retries.map(u64::from));
                kind::RETRY
            }
            EventKind::Sq { .. } | EventKind::AsyncEvent { .. } | EventKind::State { .. } => {
                self.put_event(what)
            }
        }
    }

    /// The events of queues and controllers. Returns the kind.
    fn put_event(&mut self, what: &EventKind) -> u8 {
        match what {
            EventKind::Sq { ctrl, qid, id, head, tail } => {
                self.shape.ctrl = *ctrl;
                self.columns[column::QID] = (*qid).into();
                self.columns[column::VALUE] = u64::from(*head) | u64::from(*tail) << 16;
                self.shape.known |= if id.is_some() { KNOWN } else { 0 };
                kind::SQ
            }
            EventKind::AsyncEvent { ctrl, event } => {
                self.shape.ctrl = *ctrl;
                self.columns[column::VALUE] = event.0.into();
                kind::ASYNC
            }
            EventKind::State { ctrl, state, requested } => {
                self.shape.ctrl = *ctrl;
                self.columns[column::VALUE] = state.0.into();
                self.shape.known |= if *requested { REQUESTED } else { 0 };
                kind::STATE
            }
            _ => 0,
        }
    }
}
