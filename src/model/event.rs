// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a trace is made of: one event each time something happens to a command, or to its
//! controller. Typed, decoded from the ring's records by [`crate::abi`], shown by [`crate::render`].

use crate::model::timeline::Timeline;
use crate::nvme::aen::AsyncEvent;
use crate::nvme::opcode::Opcode;
use crate::nvme::sqe::Sqe;
use crate::nvme::status::Status;

/// A kernel stack by number; what its frames are is kept elsewhere, once for all its events. Zero is
/// no stack.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StackId(pub u64);

impl StackId {
    /// Whether there is one.
    pub const fn is_some(self) -> bool {
        self.0 != 0
    }
}

/// Which command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CommandId {
    /// Controller instance.
    pub ctrl: u32,
    /// Queue, 0 for the admin queue.
    pub qid: u16,
    /// Command id on the wire.
    pub cid: u16,
    /// Namespace id as the command has it.
    pub nsid: u32,
    /// Admin or I/O opcode.
    pub opcode: Opcode,
}

/// What a command asks for, and who asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Submission {
    /// CDW0, CDW1 and CDW10 to CDW15 of the entry, and whether there is metadata.
    pub sqe: Sqe,
    /// Bytes to transfer; `None` if not known (classic tracepoints).
    pub bytes: Option<u32>,
    /// The set-up was observed, and so were `pid`, `tid`, `comm` and `cpu`.
    pub knows_submitter: bool,
    /// The process that called the driver; a kernel thread where blk-mq handed the request over.
    pub pid: u32,
    /// Its thread.
    pub tid: u32,
    /// The thread's name, padded with zeroes.
    pub comm: [u8; 16],
    /// The CPU that it was submitted on.
    pub cpu: u16,
    /// The stack at submission.
    pub stack: StackId,
}

impl Submission {
    /// The thread's name.
    pub fn comm(&self) -> &[u8] {
        let end = self.comm.iter().position(|&b| b == 0);
        &self.comm[..end.unwrap_or(self.comm.len())]
    }
}

/// The driver's word on how a command ended (struct nvme_request).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// The completion's first two dwords.
    pub result: u64,
    /// Status, without the phase bit.
    pub status: Status,
    /// How often the driver had already tried again.
    pub retries: u8,
    /// The request's flags in the driver: 1 cancelled, 2 by user, 4 statistics of a multipath head.
    pub flags: u8,
}

impl Verdict {
    /// Whether there is nothing to tell, as of most commands.
    pub fn is_plain(&self) -> bool {
        let Self {
            result,
            status,
            retries,
            flags,
        } = *self;
        result | u64::from(status.0) | u64::from(retries) | u64::from(flags) == 0
    }
}

/// How a command ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// The driver's word; `None` where its types are not known (5.10 without a file of btf/).
    pub verdict: Option<Verdict>,
    /// From the end of its setup to its completion, nanoseconds; `None` where the set-up was not
    /// observed.
    pub latency_ns: Option<u64>,
    /// The points that it was seen at, where stages are asked for.
    pub timeline: Option<Timeline>,
    /// The CPU that it was completed on.
    pub cpu: u16,
    /// The stack at completion.
    pub stack: StackId,
}

/// States of a controller: enum nvme_ctrl_state of drivers/nvme/host/nvme.h, numbered alike since
/// 5.9.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CtrlState(pub u32);

impl CtrlState {
    /// In sysfs's words (/sys/class/nvme/nvme0/state).
    pub const fn name(self) -> Option<&'static str> {
        Some(match self.0 {
            0 => "new",
            1 => "live",
            2 => "resetting",
            3 => "connecting",
            4 => "deleting",
            5 => "deleting (no IO)",
            6 => "dead",
            _ => return None,
        })
    }
}

/// What happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EventKind {
    /// The driver has set the command up.
    Submit(CommandId, Submission),
    /// The driver completes it.
    Complete(CommandId, Outcome),
    /// Both in one, at completion.
    Command(CommandId, Submission, Outcome),
    /// The trace ends before the command does.
    Unfinished {
        /// Which.
        id: CommandId,
        /// What for.
        asked: Submission,
        /// Since its setup, nanoseconds.
        age_ns: u64,
    },
    /// The command is over, and its completion was not observed: the driver has moved the generation
    /// of its request on. The time of the event is the latest that it can have completed at.
    Missed {
        /// Which.
        id: CommandId,
        /// What for; known where commands are paired.
        asked: Option<Submission>,
        /// From its setup to then, nanoseconds; `None` where the set-up was not observed either.
        latency_max_ns: Option<u64>,
        /// The points that it was seen at, where stages are asked for.
        timeline: Option<Timeline>,
    },
    /// The controller has answered: how far it has read the submission queue (CQE.SQHD), and how far
    /// the driver had written it.
    Sq {
        /// Controller instance.
        ctrl: u32,
        /// Queue.
        qid: u16,
        /// The command that was answered; `None` if not known (classic tracepoints).
        id: Option<CommandId>,
        /// SQ head pointer.
        head: u16,
        /// SQ tail as the driver has it.
        tail: u16,
    },
    /// The block layer's timer has run out for a command; the driver decides what to do.
    Timeout {
        /// Which.
        id: CommandId,
        /// Since its setup, nanoseconds.
        age_ns: u64,
    },
    /// The driver gives a command up, on a reset or removal of its controller.
    Cancel {
        /// Which.
        id: CommandId,
        /// Since its setup, nanoseconds.
        age_ns: u64,
    },
    /// blk-mq takes back a command that never reached the device.
    Requeue(CommandId),
    /// The command has failed and will be tried again.
    Retry {
        /// Which.
        id: CommandId,
        /// The how-many-eth time; `None` where the driver's types are not known.
        retries: Option<u8>,
    },
    /// The controller reports an asynchronous event.
    AsyncEvent {
        /// Controller instance.
        ctrl: u32,
        /// What.
        event: AsyncEvent,
    },
    /// The controller goes into another state.
    State {
        /// Controller instance.
        ctrl: u32,
        /// Which.
        state: CtrlState,
        /// The driver was asked for it, and may have refused: seen by a kprobe.
        asked: bool,
    },
}

/// An event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// When, CLOCK_MONOTONIC nanoseconds.
    pub at_ns: u64,
    /// What.
    pub what: EventKind,
}

impl EventKind {
    /// The command that it is about.
    pub const fn id(&self) -> Option<&CommandId> {
        match self {
            Self::Submit(id, _)
            | Self::Complete(id, _)
            | Self::Command(id, _, _)
            | Self::Unfinished { id, .. }
            | Self::Missed { id, .. }
            | Self::Timeout { id, .. }
            | Self::Cancel { id, .. }
            | Self::Requeue(id)
            | Self::Retry { id, .. } => Some(id),
            Self::Sq { id, .. } => id.as_ref(),
            Self::AsyncEvent { .. } | Self::State { .. } => None,
        }
    }

    /// The same, but none for an event of a queue.
    pub const fn command(&self) -> Option<&CommandId> {
        match self {
            Self::Sq { .. } => None,
            _ => self.id(),
        }
    }

    /// Its submission, where the event has it.
    pub const fn submission(&self) -> Option<&Submission> {
        match self {
            Self::Submit(_, submission) | Self::Command(_, submission, _) => Some(submission),
            Self::Unfinished { asked, .. } => Some(asked),
            Self::Missed { asked, .. } => asked.as_ref(),
            _ => None,
        }
    }

    /// Its completion, where the event has it.
    pub const fn outcome(&self) -> Option<&Outcome> {
        match self {
            Self::Complete(_, outcome) | Self::Command(_, _, outcome) => Some(outcome),
            _ => None,
        }
    }

    /// Its controller.
    pub const fn ctrl(&self) -> u32 {
        match self {
            Self::AsyncEvent { ctrl, .. } | Self::State { ctrl, .. } | Self::Sq { ctrl, .. } => {
                *ctrl
            }
            _ => match self.id() {
                Some(id) => id.ctrl,
                None => 0,
            },
        }
    }
}
