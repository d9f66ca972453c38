// SPDX-License-Identifier: MIT OR Apache-2.0
//! A row of a block that is read, and its event.

use std::array;

use super::distance::points;
use super::row::{
    AT, BYTES, COLUMNS, KNOWN, LATENCY, REQUESTED, SUBMITTED, SUBMITTER, TIMELINE, VERDICT, column,
    kind,
};
use super::shape::{OUTCOME, Shape, TASK, Words, conditions, submitter, verdict};
use crate::model::bios::Bios;
use crate::model::event::{CommandId, CtrlState, Event, EventKind, Outcome, StackId, Submission};
use crate::model::origin::Origin;
use crate::model::timeline::Timeline;
use crate::nvme::aen::AsyncEvent;
use crate::nvme::opcode::{Opcode, QueueKind};
use crate::nvme::sqe::Parts;

/// A row, and its entries of the dictionaries. Lent: a copy would cost more than the event.
#[derive(Clone, Copy)]
pub struct Stored<'b> {
    pub shape: &'b Shape,
    pub task: &'b Words<TASK>,
    pub outcome: &'b Words<OUTCOME>,
    /// The time is that of the clock.
    pub columns: &'b [u64; COLUMNS],
}

impl Stored<'_> {
    const fn column(&self, column: usize) -> u64 {
        self.columns[column]
    }

    #[inline(always)]
    fn id(&self) -> CommandId {
        CommandId {
            ctrl: self.shape.ctrl,
            qid: self.column(column::QID) as u16,
            cid: self.column(column::CID) as u16,
            nsid: self.shape.nsid,
            opcode: Opcode {
                queue: if self.shape.admin { QueueKind::Admin } else { QueueKind::Io },
                code: self.shape.opcode,
            },
        }
    }

    #[inline(always)]
    fn submission(&self) -> Submission {
        let shape = self.shape;
        let [twelve, thirteen, fourteen, fifteen] = shape.cdw;
        let slba = self.column(column::SLBA);
        let (ten, eleven) = (slba as u32, (slba >> 32) as u32);
        let (pid, tid, comm) = submitter(*self.task);
        Submission {
            sqe: Parts {
                opcode: shape.opcode,
                flags: shape.flags,
                cid: self.column(column::CID) as u16,
                nsid: shape.nsid,
                metadata: shape.metadata,
                cdw: [ten, eleven, twelve, thirteen, fourteen, fifteen],
            }
            .into(),
            bytes: shape.has(BYTES).then_some(shape.bytes),
            knows_submitter: shape.has(SUBMITTER),
            pid,
            tid,
            comm,
            cpu: self.column(column::CPU) as u16,
            stack: StackId(self.column(column::STACK)),
            origin: Origin::default(),
        }
    }

    #[inline(always)]
    fn latency(&self) -> Option<u64> {
        let latency = self.column(column::LATENCY);
        self.shape.has(LATENCY).then_some(latency)
    }

    #[inline(always)]
    fn timeline(&self) -> Option<Timeline> {
        self.shape.has(TIMELINE).then(|| {
            let at_ns = self.column(AT);
            let setup_out = at_ns.wrapping_sub(self.column(column::LATENCY));
            let of = array::from_fn(|n| self.columns[column::POINTS + n]);
            let pattern = self.shape.pattern;
            Timeline::new(points(of, at_ns, setup_out, pattern), pattern)
        })
    }

    #[inline(always)]
    fn outcome(&self) -> Outcome {
        Outcome {
            verdict: self.shape.has(VERDICT).then(|| verdict(*self.outcome)),
            latency_ns: self.latency(),
            timeline: self.timeline(),
            cpu: self.column(column::COMPLETE_CPU) as u16,
            conditions: conditions(*self.outcome),
            bios: Bios::default(),
            stack: StackId(self.column(column::COMPLETE_STACK)),
        }
    }

    /// The event of this row.
    #[inline(always)]
    pub fn event(&self) -> Event {
        if self.shape.kind != kind::COMMAND {
            return self.other_event();
        }
        // nearly all rows are such: made in place, because an event is large
        Event {
            at_ns: self.column(AT),
            what: EventKind::Command(self.id(), self.submission(), self.outcome()),
        }
    }

    /// [`Shape::of`] admits no other kinds.
    #[inline(never)]
    fn other_event(&self) -> Event {
        let shape = self.shape;
        let (id, value) = (self.id(), self.column(column::VALUE));
        let known = shape.has(KNOWN);
        let what = match shape.kind {
            kind::SUBMIT => EventKind::Submit(id, self.submission()),
            kind::COMPLETE => EventKind::Complete(id, self.outcome()),
            kind::UNFINISHED => {
                EventKind::Unfinished { id, submission: self.submission(), age_ns: value }
            }
            kind::MISSED => EventKind::Missed {
                id,
                submission: shape.has(SUBMITTED).then(|| self.submission()),
                latency_max_ns: self.latency(),
                timeline: self.timeline(),
            },
            kind::SQ => EventKind::Sq {
                ctrl: shape.ctrl,
                qid: id.qid,
                id: known.then_some(id),
                head: value as u16,
                tail: (value >> 16) as u16,
            },
            kind::TIMEOUT => EventKind::Timeout { id, age_ns: value },
            kind::CANCEL => EventKind::Cancel { id, age_ns: value },
            kind::REQUEUE => EventKind::Requeue(id),
            kind::RETRY => EventKind::Retry { id, retries: known.then_some(value as u8) },
            kind::ASYNC => {
                EventKind::AsyncEvent { ctrl: shape.ctrl, event: AsyncEvent(value as u32) }
            }
            _ => EventKind::State {
                ctrl: shape.ctrl,
                state: CtrlState(value as u32),
                requested: shape.has(REQUESTED),
            },
        };
        Event { at_ns: self.column(AT), what }
    }
}
