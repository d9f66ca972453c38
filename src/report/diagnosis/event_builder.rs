// SPDX-License-Identifier: MIT OR Apache-2.0
//! Commands that unit tests make.

use super::Command;
use crate::Opcode;
use crate::QueueKind;
use crate::Status;
use crate::Timeline;
use crate::model::command_class::BlockSizes;
use crate::model::conditions::Conditions;
use crate::model::event::CommandId;
use crate::model::event::CompletionStatus;
use crate::model::event::Event;
use crate::model::event::EventKind;
use crate::model::event::Outcome;
use crate::model::event::StackId;
use crate::model::event::Submission;
use crate::model::point::Pattern;
use crate::nvme::sqe::Parts;

/// All points were observed.
pub const ALL_SEEN: Pattern = 0x7f;
pub const READ: u8 = 2;

/// A command on queue 1 of nvme0 that succeeds.
#[derive(Clone, Copy)]
pub struct EventBuilder {
    pub cid: u16,
    pub code: u8,
    pub qid: u16,
    pub begin_ns: u64,
    pub stages: [u64; 8],
    pub pattern: Pattern,
    pub status: u16,
    pub cpu: u16,
}

impl Default for EventBuilder {
    fn default() -> Self {
        Self {
            cid: 1,
            code: READ,
            qid: 1,
            begin_ns: 1_000_000_000,
            stages: [3000, 1000, 2000, 4000, 100_000, 3000, 4000, 2000],
            pattern: ALL_SEEN,
            status: 0,
            cpu: 0,
        }
    }
}

impl EventBuilder {
    pub const fn id(&self) -> CommandId {
        CommandId {
            ctrl: 0,
            qid: self.qid,
            cid: self.cid,
            nsid: 1,
            opcode: Opcode {
                queue: QueueKind::Io,
                code: self.code,
            },
        }
    }

    pub fn event(&self) -> Event {
        let point = |n: usize| self.begin_ns + self.stages[..n].iter().sum::<u64>();
        let points = [0, 1, 2, 3, 4, 5, 6, 7, 8].map(point);
        let submission = Submission {
            sqe: Parts {
                opcode: self.code,
                ..Parts::default()
            }
            .into(),
            bytes: Some(4096),
            knows_submitter: true,
            pid: 1,
            tid: 1,
            comm: [0; 16],
            cpu: self.cpu,
            stack: StackId(0),
        };
        let end = Outcome {
            verdict: Some(CompletionStatus {
                result: 0,
                status: Status(self.status),
                retries: 0,
                flags: 0,
            }),
            latency_ns: Some(points[7] - points[2]),
            timeline: Some(Timeline::new(points, self.pattern)),
            cpu: self.cpu,
            conditions: Conditions::default(),
            stack: StackId(0),
        };
        Event {
            at_ns: points[8],
            what: EventKind::Command(self.id(), submission, end),
        }
    }

    pub fn command(&self) -> Option<Command> {
        Command::of(&self.event(), &BlockSizes::default())
    }
}
