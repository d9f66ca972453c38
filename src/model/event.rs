// SPDX-License-Identifier: MIT OR Apache-2.0
//! Events of a trace. Each event of a command or of its controller is one [`Event`]. [`crate::abi`]
//! decodes them from the records of the ring, [`crate::view`] shows them.

use super::point::{NO_COMPLETE, NO_SETUP, Pattern, Point};
use super::stage::{StageRun, StageSet};
use super::timeline::Segment;
use crate::model::command_class::Conditions;
use crate::model::group::comm_text;
use crate::model::ids::RowKey;
use crate::model::origin::{Bios, Origin, Who};
use crate::model::timeline::Timeline;
use crate::nvme::aen::AsyncEvent;
use crate::nvme::decode;
use crate::nvme::decode::CommandSet;
use crate::nvme::opcode::{Opcode, QueueKind};
use crate::nvme::sqe::{Parts, Sqe};
use crate::nvme::status::Status;
use crate::nvme::subject::FABRICS;
use serde::{Deserialize, Serialize};
use std::borrow::Cow;

/// Time to wait for earlier events. A program may be interrupted between its clock reading and its
/// reservation in the ring, and its virtual CPU may stop there: for 39 ms where sixteen shared two CPUs.
pub const REORDER_NS: u64 = 100_000_000;

/// Number of a kernel stack. The frames are stored separately, once for all events. Zero is no
/// stack.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
pub struct StackId(pub u64);

impl StackId {
    /// Whether it is a stack.
    pub const fn is_some(self) -> bool {
        self.0 != 0
    }
}

/// The queue of commands whose source has neither queues nor command ids (blkparse).
pub const NO_QUEUE: u16 = u16::MAX;

/// Identifies a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CommandId {
    /// Controller instance.
    pub ctrl: u32,
    /// Queue id, 0 for the admin queue.
    pub qid: u16,
    /// Command id on the wire.
    pub cid: u16,
    /// Namespace id in the command.
    pub nsid: u32,
    /// Admin or I/O opcode.
    pub opcode: Opcode,
}

impl CommandId {
    /// The command's name. It is also available without the entry: names depend only on parts that the
    /// id contains.
    #[inline]
    pub fn opcode_name(
        &self,
        set: CommandSet,
        submission: Option<&Submission>,
    ) -> Option<&'static str> {
        let opcode = self.opcode;
        if opcode.code != FABRICS && set != CommandSet::KeyValue {
            return opcode.name();
        }
        self.special_name(set, submission)
    }

    #[cold]
    fn special_name(
        &self,
        set: CommandSet,
        submission: Option<&Submission>,
    ) -> Option<&'static str> {
        let Self { opcode, nsid, .. } = *self;
        // a Fabrics command has its type in the field of the namespace
        let known = Parts { opcode: opcode.code, nsid, ..Parts::default() };
        let sqe = submission.map_or_else(|| Sqe::from(known), |a| a.sqe);
        decode::name(opcode.queue, set, &sqe)
    }
}

/// Parameters of a command, and its submitter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Submission {
    /// CDW0, CDW1 and CDW10 to CDW15 of the entry, and whether the request has metadata.
    pub sqe: Sqe,
    /// Bytes to transfer; `None` if not known (classic tracepoints).
    pub bytes: Option<u32>,
    /// Whether the setup was observed. Without it `pid`, `tid`, `comm` and `cpu` are not valid.
    pub knows_submitter: bool,
    /// The process that called the driver; a kernel thread if blk-mq dispatched the request later.
    pub pid: u32,
    /// The thread that called the driver.
    pub tid: u32,
    /// The thread's name, padded with zeroes.
    pub comm: [u8; 16],
    /// The CPU of the submission.
    pub cpu: u16,
    /// The stack at submission. In a target: the address of its request.
    pub stack: StackId,
    /// Who caused the command, if that is observed.
    pub origin: Origin,
}

/// The task and the cgroup that a command counts for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Task {
    /// Process id.
    pub pid: u32,
    /// The thread's name, padded with zeroes.
    pub comm: [u8; 16],
    /// The id of the cgroup; 0: not known.
    pub cgroup: u64,
}

impl Submission {
    /// A command whose SQE alone is known.
    pub fn of(sqe: Sqe) -> Self {
        Self {
            sqe,
            bytes: None,
            knows_submitter: false,
            pid: 0,
            tid: 0,
            comm: [0; 16],
            cpu: 0,
            stack: StackId::default(),
            origin: Origin::default(),
        }
    }

    /// The thread's name, escaped.
    pub fn comm(&self) -> Cow<'_, str> {
        comm_text(&self.comm)
    }

    /// The task that the command counts for; `None`: it was not observed.
    pub fn task(&self, opcode: Opcode, who: Who) -> Option<Task> {
        let by = self.origin.submitter;
        // flushes and admin commands have no bio, and count for their caller
        let has_bio = opcode.queue == QueueKind::Io && opcode.code != 0;
        match who {
            Who::Submitter if by.is_known() => {
                Some(Task { pid: by.pid, comm: by.comm, cgroup: by.cgroup })
            }
            Who::Submitter if has_bio => None,
            Who::Submitter | Who::Caller => self.knows_submitter.then_some(Task {
                pid: self.pid,
                comm: self.comm,
                cgroup: self.origin.io_cgroup,
            }),
        }
    }
}

/// The driver's record of how a command ended (struct nvme_request).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CompletionStatus {
    /// Dwords 0 and 1 of the CQE.
    pub result: u64,
    /// Status, without the phase bit.
    pub status: Status,
    /// Number of retries before this attempt.
    pub retries: u8,
    /// The request's flags in the driver: 1 cancelled, 2 by user, 4 statistics of a multipath head.
    pub flags: u8,
}

impl CompletionStatus {
    /// Whether all fields are zero, as for most commands.
    pub fn is_plain(&self) -> bool {
        let Self { result, status, retries, flags } = *self;
        result | u64::from(status.0) | u64::from(retries) | u64::from(flags) == 0
    }
}

/// How a command ended, and when.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// `None` if the driver's types are not known (5.10 without a file of btf/).
    pub verdict: Option<CompletionStatus>,
    /// From the end of the setup to the completion, in nanoseconds; `None` if the setup was not
    /// observed.
    pub latency_ns: Option<u64>,
    /// The observed points; only with `--stages`.
    pub timeline: Option<Timeline>,
    /// The CPU of the completion.
    pub cpu: u16,
    /// What was observed beside the points, if conditions are observed.
    pub conditions: Conditions,
    /// The bios that it served; only with `--stages=full`.
    pub bios: Bios,
    /// The stack at completion.
    pub stack: StackId,
}

impl Outcome {
    /// An end whose times alone are known.
    pub fn of(latency_ns: Option<u64>, timeline: Option<Timeline>) -> Self {
        Self {
            verdict: None,
            latency_ns,
            timeline,
            cpu: 0,
            conditions: Conditions::default(),
            bios: Bios::default(),
            stack: StackId::default(),
        }
    }
}

/// States of a controller: enum nvme_ctrl_state of drivers/nvme/host/nvme.h. The numbers are the
/// same since 5.9.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CtrlState(pub u32);

impl CtrlState {
    /// The name in sysfs (/sys/class/nvme/nvme0/state).
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

/// Kinds of events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventKind {
    /// The driver has set up the command.
    Submit(CommandId, Submission),
    /// The driver completes the command.
    Complete(CommandId, Outcome),
    /// Submission and completion in one event, at completion.
    Command(CommandId, Submission, Outcome),
    /// The trace ends before the command.
    Unfinished {
        /// The command.
        id: CommandId,
        /// Its parameters and submitter.
        submission: Submission,
        /// Time since its setup, in nanoseconds.
        age_ns: u64,
    },
    /// The command is over, and its completion was not observed: the driver has incremented the
    /// generation of its request. The time of the event is the latest possible time of the
    /// completion.
    Missed {
        /// The command.
        id: CommandId,
        /// Its parameters and submitter; only where commands are paired.
        submission: Option<Submission>,
        /// From its setup to the time of the event, in nanoseconds; `None` if the setup was not
        /// observed either.
        latency_max_ns: Option<u64>,
        /// The observed points; only with `--stages`.
        timeline: Option<Timeline>,
    },
    /// The controller has posted a CQE: how far the controller has read the submission queue
    /// (CQE.SQHD), and how far the driver has written it.
    Sq {
        /// Controller instance.
        ctrl: u32,
        /// Queue id.
        qid: u16,
        /// The command of the CQE; `None` if not known (classic tracepoints).
        id: Option<CommandId>,
        /// SQ head pointer.
        head: u16,
        /// SQ tail of the driver.
        tail: u16,
    },
    /// The block layer's timeout of a command has expired. The driver decides what to do.
    Timeout {
        /// The command.
        id: CommandId,
        /// Time since its setup, in nanoseconds.
        age_ns: u64,
    },
    /// The driver cancels a command, because its controller is reset or removed.
    Cancel {
        /// The command.
        id: CommandId,
        /// Time since its setup, in nanoseconds.
        age_ns: u64,
    },
    /// blk-mq takes back a command that never reached the device.
    Requeue(CommandId),
    /// The command has failed, and blk-mq will issue it again.
    Retry {
        /// The command.
        id: CommandId,
        /// Retry number; `None` if the driver's types are not known.
        retries: Option<u8>,
    },
    /// The controller reports an asynchronous event.
    AsyncEvent {
        /// Controller instance.
        ctrl: u32,
        /// The event.
        event: AsyncEvent,
    },
    /// The controller changes its state.
    State {
        /// Controller instance.
        ctrl: u32,
        /// The new state.
        state: CtrlState,
        /// Only the request for the state was observed (by a kprobe). The driver may have refused
        /// it.
        requested: bool,
    },
    /// A target raises an interrupt. A vector serves all CQEs of its completion queues.
    Interrupt {
        /// Number of the controller in the recording's list.
        ctrl: u32,
        /// MSI-X vector.
        vector: u32,
    },
}

/// An event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// Time, CLOCK_MONOTONIC nanoseconds.
    pub at_ns: u64,
    /// Kind and data.
    pub what: EventKind,
}

impl Event {
    /// The event without the names of the submitting threads.
    #[must_use]
    pub fn redacted(&self) -> Self {
        let mut event = *self;
        if let Some(submission) = event.what.submission_mut() {
            submission.comm = [0; 16];
            submission.origin.submitter.comm = [0; 16];
        }
        event
    }

    /// Replaces the numbers of its stacks.
    pub fn renumber_stacks(&mut self, number: impl Fn(StackId) -> StackId) {
        if let Some(submission) = self.what.submission_mut() {
            submission.stack = number(submission.stack);
        }
        if let EventKind::Complete(_, outcome) | EventKind::Command(_, _, outcome) = &mut self.what
        {
            outcome.stack = number(outcome.stack);
        }
    }
}

impl EventKind {
    /// The observed points of a command.
    pub const fn timeline(&self) -> Option<&Timeline> {
        match self {
            Self::Command(_, _, outcome) => outcome.timeline.as_ref(),
            Self::Missed { timeline, .. } => timeline.as_ref(),
            _ => None,
        }
    }

    /// Whether a command is over: completed, or seen to be over without a completion.
    pub const fn is_finished(&self) -> bool {
        matches!(self, Self::Command(..) | Self::Missed { .. })
    }

    /// The submission, to change it.
    pub const fn submission_mut(&mut self) -> Option<&mut Submission> {
        match self {
            Self::Submit(_, submission)
            | Self::Command(_, submission, _)
            | Self::Unfinished { submission, .. }
            | Self::Missed { submission: Some(submission), .. } => Some(submission),
            _ => None,
        }
    }

    /// The name in JSON and in exports.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Submit(..) => "submit",
            Self::Complete(..) => "complete",
            Self::Command(..) => "command",
            Self::Unfinished { .. } => "unfinished",
            Self::Missed { .. } => "missed",
            Self::Sq { .. } => "sq",
            Self::Timeout { .. } => "timeout",
            Self::Cancel { .. } => "cancel",
            Self::Requeue(_) => "requeue",
            Self::Retry { .. } => "retry",
            Self::AsyncEvent { .. } => "async_event",
            Self::State { .. } => "state",
            Self::Interrupt { .. } => "interrupt",
        }
    }

    /// The command of the event.
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
            Self::AsyncEvent { .. } | Self::State { .. } | Self::Interrupt { .. } => None,
        }
    }

    /// The same, but `None` for an event of a queue.
    pub const fn command(&self) -> Option<&CommandId> {
        match self {
            Self::Sq { .. } => None,
            _ => self.id(),
        }
    }

    /// The submission, if the event contains it.
    pub const fn submission(&self) -> Option<&Submission> {
        match self {
            Self::Submit(_, submission) | Self::Command(_, submission, _) => Some(submission),
            Self::Unfinished { submission, .. } => Some(submission),
            Self::Missed { submission, .. } => submission.as_ref(),
            _ => None,
        }
    }

    /// The stacks at the submission and at the completion; zero if the event has none.
    pub fn stacks(&self) -> [StackId; 2] {
        let submission = match self {
            Self::Unfinished { .. } => None,
            _ => self.submission(),
        };
        [
            submission.map_or_else(StackId::default, |s| s.stack),
            self.outcome().map_or_else(StackId::default, |o| o.stack),
        ]
    }

    /// The outcome, if the event contains it.
    pub const fn outcome(&self) -> Option<&Outcome> {
        match self {
            Self::Complete(_, outcome) | Self::Command(_, _, outcome) => Some(outcome),
            _ => None,
        }
    }

    /// The controller of the event.
    pub const fn ctrl(&self) -> u32 {
        match self {
            Self::AsyncEvent { ctrl, .. }
            | Self::State { ctrl, .. }
            | Self::Sq { ctrl, .. }
            | Self::Interrupt { ctrl, .. } => *ctrl,
            _ => match self.id() {
                Some(id) => id.ctrl,
                None => 0,
            },
        }
    }
}

/// A command in flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OpenCommand {
    /// Address of its request; `None` with classic tracepoints.
    pub request: Option<u64>,
    /// Controller, queue, command id, namespace, opcode.
    pub id: CommandId,
    /// The row of the histograms that will count it.
    pub row: RowKey,
    /// Time of its setup, CLOCK_MONOTONIC nanoseconds; 0 if that was not observed.
    pub setup_ns: u64,
    /// Its parameters and submitter. Only traces have them.
    pub submission: Submission,
}

/// A finished command.
#[derive(Clone, Copy, Debug)]
pub struct Finished<'e> {
    /// The command.
    pub id: &'e CommandId,
    /// Its parameters and submitter.
    pub submission: Option<&'e Submission>,
    /// From the end of the setup to the completion, in nanoseconds, if both were observed.
    pub latency_ns: Option<u64>,
    timeline: Option<&'e Timeline>,
    /// The points that count.
    points: Pattern,
    is_complete: bool,
}

/// The intervals of a command in a stage set.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Intervals {
    /// The stages, in order. None with [`StageSet::Total`], and if no points were recorded.
    pub stages: Vec<Segment>,
    /// The total; `None` if it was not measured.
    pub total: Option<Segment>,
}

/// The stages that the latency covers: from setup_out to complete.
fn latency_run(stage_set: StageSet) -> StageRun {
    let stages = stage_set.stages();
    let begin = stages.iter().position(|s| s.from == Point::SetupOut);
    let all = (0..stages.len()).map(|n| stage_set.run(n, n));
    let end = all.rev().find(|run| run.to == Point::Complete);
    let last = end.map_or(stages.len() - 1, |run| run.last);
    stage_set.run(begin.unwrap_or(0), last)
}

impl<'e> Finished<'e> {
    /// The finished command of an event; `None` for other events.
    // inlined, LLVM copies the event bit by bit: 1300 instructions more
    #[inline(never)]
    pub const fn of(event: &'e Event) -> Option<Self> {
        Some(match &event.what {
            EventKind::Command(id, submission, end) => Self {
                id,
                submission: Some(submission),
                latency_ns: end.latency_ns,
                timeline: end.timeline.as_ref(),
                points: Pattern::MAX,
                is_complete: true,
            },
            EventKind::Missed { id, submission, timeline, .. } => Self {
                id,
                submission: submission.as_ref(),
                latency_ns: None,
                timeline: timeline.as_ref(),
                points: Pattern::MAX,
                is_complete: false,
            },
            _ => return None,
        })
    }

    /// The observed points, if the recording has them.
    pub const fn timeline(&self) -> Option<&'e Timeline> {
        self.timeline
    }

    /// As a run with this stage set would have observed it.
    #[must_use]
    pub fn observed_by(self, stage_set: StageSet) -> Self {
        Self { points: stage_set.observed(), ..self }
    }

    /// The points, for a stage set that has more than the total.
    fn line(&self, stage_set: StageSet) -> Option<&'e Timeline> {
        self.timeline.filter(|_| stage_set != StageSet::Total)
    }

    /// The pattern of its observed points, as far as they are in this stage set.
    pub fn pattern(&self, stage_set: StageSet) -> Pattern {
        if let Some(line) = self.line(stage_set) {
            return line.pattern() & stage_set.pattern_bits() & self.points;
        }
        match (self.is_complete, self.latency_ns) {
            (true, Some(_)) => 0,
            (true, None) => NO_SETUP,
            (false, _) => NO_COMPLETE,
        }
    }

    /// Its intervals in this stage set.
    pub fn intervals(&self, stage_set: StageSet) -> Intervals {
        let Some(line) = self.line(stage_set) else {
            let run = latency_run(stage_set);
            return Intervals {
                stages: Vec::new(),
                total: self.latency_ns.map(|ns| Segment { run, ns }),
            };
        };
        let line = line.with_pattern(self.pattern(stage_set));
        let stages = line.segments(stage_set).unwrap_or_default();
        let ends = stages.first().zip(stages.last());
        let total = ends.map(|(first, last)| Segment {
            run: first.run.through(last.run),
            ns: stages.iter().map(|s| s.ns).sum(),
        });
        Intervals { stages, total }
    }
}
