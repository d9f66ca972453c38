// SPDX-License-Identifier: MIT OR Apache-2.0
//! Events and recordings for tests. Unit tests (src/lib.rs, src/main.rs), integration tests and benchmarks
//! include this file; it is in no program that ships.
#![allow(dead_code, reason = "each user needs a part")]
#![allow(clippy::unwrap_used, reason = "tests")]

pub mod random;
pub mod recording;
pub mod ring;
pub mod snapshot;
pub mod valgrind;

use nvme_deep::model::command_class::Conditions;
use nvme_deep::model::event::{
    CommandId, CompletionStatus, Event, EventKind, Outcome, StackId, Submission,
};
use nvme_deep::model::origin::{Bios, Origin};
use nvme_deep::model::point::{NO_COMPLETE, NO_SETUP, Pattern, Point};
use nvme_deep::model::stage::StageSet;
use nvme_deep::model::timeline::Timeline;
use nvme_deep::nvme::opcode::{Opcode, QueueKind};
use nvme_deep::nvme::sqe::Parts;
use nvme_deep::nvme::status::Status;

/// The opcode of reads.
pub const READ: Opcode = Opcode { queue: QueueKind::Io, code: 2 };

/// The pattern of a command with all points.
pub const ALL_SEEN: Pattern = 0x7f;

/// Times of the fine stages, in nanoseconds: 119 us in all, 100 of them in the device.
pub const STAGES: [u64; 8] = [3000, 1000, 2000, 4000, 100_000, 3000, 4000, 2000];

/// The name of a thread, padded with zeroes.
pub fn comm(name: &[u8]) -> [u8; 16] {
    let mut comm = [0; 16];
    comm[..name.len()].copy_from_slice(name);
    comm
}

/// Makes the events of one command.
#[derive(Clone, Copy, Debug)]
pub struct EventBuilder {
    /// The time of the event.
    pub at_ns: u64,
    pub id: CommandId,
    pub cdw: [u32; 6],
    /// Its entry is made of the id and of `cdw`.
    submission: Submission,
    pub outcome: Outcome,
}

impl EventBuilder {
    /// A read of 4 KiB at block 0 of namespace 1, on queue 1 of nvme0, by thread 8 of process 7 (fio). It
    /// succeeds after 100 us, one second after the boot. No points were recorded.
    pub fn read() -> Self {
        Self {
            at_ns: 1_000_000_000,
            id: CommandId { ctrl: 0, qid: 1, cid: 1, nsid: 1, opcode: READ },
            cdw: [0, 0, 7, 0, 0, 0],
            submission: Submission {
                sqe: Parts::default().into(),
                bytes: Some(4096),
                knows_submitter: true,
                pid: 7,
                tid: 8,
                comm: comm(b"fio"),
                cpu: 0,
                stack: StackId(0),
                origin: Origin::default(),
            },
            outcome: Outcome {
                verdict: Some(CompletionStatus {
                    result: 0,
                    status: Status(0),
                    retries: 0,
                    flags: 0,
                }),
                latency_ns: Some(100_000),
                timeline: None,
                cpu: 0,
                conditions: Conditions::default(),
                bios: Bios::default(),
                stack: StackId(0),
            },
        }
    }

    /// The same read with all points: it begins at this time, and ends after these stages.
    pub fn staged(begin_ns: u64, stages: [u64; 8]) -> Self {
        let points = [0, 1, 2, 3, 4, 5, 6, 7, 8];
        let points = points.map(|n: usize| begin_ns + stages[..n].iter().sum::<u64>());
        Self::read()
            .at(points[8])
            .latency(points[7] - points[2])
            .timeline(Timeline::new(points, ALL_SEEN))
    }

    pub fn at(self, at_ns: u64) -> Self {
        Self { at_ns, ..self }
    }

    pub fn ctrl(mut self, ctrl: u32) -> Self {
        self.id.ctrl = ctrl;
        self
    }

    pub fn qid(mut self, qid: u16) -> Self {
        self.id.qid = qid;
        self
    }

    pub fn cid(mut self, cid: u16) -> Self {
        self.id.cid = cid;
        self
    }

    pub fn nsid(mut self, nsid: u32) -> Self {
        self.id.nsid = nsid;
        self
    }

    pub fn opcode(mut self, queue: QueueKind, code: u8) -> Self {
        self.id.opcode = Opcode { queue, code };
        self
    }

    /// An I/O command with this opcode.
    pub fn code(self, code: u8) -> Self {
        self.opcode(QueueKind::Io, code)
    }

    pub fn cdw(self, cdw: [u32; 6]) -> Self {
        Self { cdw, ..self }
    }

    /// First block, and number of blocks.
    pub fn blocks(self, slba: u64, count: u32) -> Self {
        self.cdw([slba as u32, (slba >> 32) as u32, count - 1, 0, 0, 0])
    }

    pub fn bytes(mut self, bytes: impl Into<Option<u32>>) -> Self {
        self.submission.bytes = bytes.into();
        self
    }

    pub fn submitter(mut self, pid: u32, tid: u32, name: &[u8]) -> Self {
        (self.submission.pid, self.submission.tid) = (pid, tid);
        self.submission.comm = comm(name);
        self
    }

    /// Its cgroups, and the task that submitted the bio.
    pub fn origin(mut self, origin: Origin) -> Self {
        self.submission.origin = origin;
        self
    }

    /// The CPUs of its submission and of its completion.
    pub fn cpus(mut self, submission: u16, completion: u16) -> Self {
        (self.submission.cpu, self.outcome.cpu) = (submission, completion);
        self
    }

    pub fn stack(mut self, submission: u64) -> Self {
        self.submission.stack = StackId(submission);
        self
    }

    pub fn status(self, status: u16) -> Self {
        self.verdict(CompletionStatus { result: 0, status: Status(status), retries: 0, flags: 0 })
    }

    pub fn verdict(mut self, verdict: impl Into<Option<CompletionStatus>>) -> Self {
        self.outcome.verdict = verdict.into();
        self
    }

    /// `None`: its setup was not observed.
    pub fn latency(mut self, ns: impl Into<Option<u64>>) -> Self {
        self.outcome.latency_ns = ns.into();
        self
    }

    pub fn conditions(mut self, conditions: Conditions) -> Self {
        self.outcome.conditions = conditions;
        self
    }

    pub fn timeline(mut self, timeline: impl Into<Option<Timeline>>) -> Self {
        self.outcome.timeline = timeline.into();
        self
    }

    /// Only these points were observed.
    pub fn points(self, seen: &[(Point, u64)]) -> Self {
        let at = |point| seen.iter().find(|(p, _)| *p == point).map(|(_, ns)| *ns);
        let missing = |point, bit| if at(point).is_some() { 0 } else { bit };
        let bits = seen.iter().filter_map(|(point, _)| point.pattern_bit());
        let pattern = bits.sum::<Pattern>()
            | missing(Point::SetupOut, NO_SETUP)
            | missing(Point::Complete, NO_COMPLETE);
        self.timeline(Timeline::from_fn(pattern, |point| at(point).unwrap_or(0)))
    }

    /// Only the points of the pattern were observed.
    pub fn pattern(mut self, pattern: Pattern) -> Self {
        self.outcome.timeline = self.outcome.timeline.map(|t| t.with_pattern(pattern));
        self
    }

    /// Its bio was observed: before the request it waited so long, in nanoseconds, by the stages before the
    /// request. It has points.
    pub fn waits(self, waits: [u64; 7]) -> Self {
        let line = self.outcome.timeline.unwrap();
        let before = &StageSet::Full.stages()[..waits.len()];
        let place = |point| before.iter().position(|stage| stage.from == point);
        let bits = before.iter().filter_map(|stage| stage.from.pattern_bit());
        let time = |point| match place(point) {
            Some(n) => line.ns(Point::Start) - waits[n..].iter().sum::<u64>(),
            None => line.ns(point),
        };
        self.timeline(Timeline::from_fn(line.pattern() | bits.sum::<Pattern>(), time))
    }

    pub fn submission(&self) -> Submission {
        let CommandId { cid, nsid, .. } = self.id;
        let parts =
            Parts { opcode: self.id.opcode.code, cid, nsid, cdw: self.cdw, ..Parts::default() };
        Submission { sqe: parts.into(), ..self.submission }
    }

    fn event(&self, what: EventKind) -> Event {
        let at_ns = self.at_ns;
        Event { at_ns, what }
    }

    pub fn submit(&self) -> Event {
        self.event(EventKind::Submit(self.id, self.submission()))
    }

    pub fn complete(&self) -> Event {
        self.event(EventKind::Complete(self.id, self.outcome))
    }

    /// Submission and completion in one event.
    pub fn command(&self) -> Event {
        self.event(EventKind::Command(self.id, self.submission(), self.outcome))
    }

    pub fn requeue(&self) -> Event {
        self.event(EventKind::Requeue(self.id))
    }

    pub fn timeout(&self, age_ns: u64) -> Event {
        let id = self.id;
        self.event(EventKind::Timeout { id, age_ns })
    }

    pub fn unfinished(&self, age_ns: u64) -> Event {
        self.event(EventKind::Unfinished { id: self.id, submission: self.submission(), age_ns })
    }
}
