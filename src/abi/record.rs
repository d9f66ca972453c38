// SPDX-License-Identifier: MIT OR Apache-2.0
//! A record with each part at a fixed place: what a recording holds, whatever the kind of the event.

use super::events::{
    BEFORE, BIOS, EarlyTimes, Times, add_early, event_latency, id, outcome, small, submission,
    timeline, wait_bits,
};
use super::{DecodeError, read};
use crate::model::event::{CommandId, CtrlState, Event, EventKind, Outcome, Submission};
use crate::model::origin::{Origin, Submitter};
use crate::model::point::{HAS_BEFORE, IN_RECORDS, NO_COMPLETE, NO_SETUP, Pattern, Point};
use crate::model::timeline::Timeline;
use crate::nvme::opcode::QueueKind;
use bytemuck::{Pod, Zeroable, must_cast, must_cast_mut, must_cast_ref, pod_read_unaligned};
use std::mem::{offset_of, size_of};

/// The record of a finished command with all that a run may observe. Other records leave parts of it
/// zero; the value of a small record is in the place of the result.
///
/// `parts` of its event has the points before the request that were observed (`enum nd_wait_point`),
/// and bit 7 if points were recorded.
#[repr(C)]
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
pub struct Record {
    pair: RawPair,
    times: Times,
    early: EarlyTimes,
    origin: RawOrigin,
}

/// Bit of `parts`: the points were recorded.
const HAS_TIMES: u8 = 1 << 7;
/// The points before the request of each value of `parts`.
const BEFORE_OF: [Pattern; HAS_TIMES as usize] = {
    let (mut of, mut parts) = ([0; HAS_TIMES as usize], 0);
    while parts < of.len() {
        let mut n = 0;
        while n < BEFORE.len() {
            if let Some(bit) = BEFORE[n].pattern_bit()
                && parts & 1 << n != 0
            {
                of[parts] |= bit;
            }
            n += 1;
        }
        parts += 1;
    }
    of
};
/// The points that the pattern of a record has.
const OF_RECORDS: Pattern = (1 << IN_RECORDS.len()) - 1;

/// Words of a record. The second one is the time of the event.
pub const WORDS_OF_RECORD: usize = size_of::<Record>() / 8;

/// The words that are times, too.
pub const TIMES_OF_RECORD: [usize; 1 + IN_RECORDS.len() + BIOS] = {
    let mut words = [offset_of!(Record, pair.end.setup_out_ns) / 8; 1 + IN_RECORDS.len() + BIOS];
    let mut n = 0;
    while n < IN_RECORDS.len() + BIOS {
        // the times before the request follow the others
        words[1 + n] = offset_of!(Record, times) / 8 + n;
        n += 1;
    }
    words
};

/// To be decoded into.
pub const NO_EVENT: Event = {
    let what = EventKind::State { ctrl: 0, state: CtrlState(0), requested: false };
    Event { at_ns: 0, what }
};

impl Record {
    /// The record of these bytes of the ring. `before` has the points before the request that the run
    /// observes.
    ///
    /// # Errors
    /// If the record is too short for its kind.
    #[inline]
    pub(super) fn of_ring(bytes: &[u8], before: Pattern) -> Result<Self, DecodeError> {
        let mut record = Self::zeroed();
        let RawPair { end, submission } = &mut record.pair;
        let times = match u32::from(*bytes.first().ok_or(DecodeError)?) {
            kind::PAIR => {
                record.pair = read(bytes)?;
                let rest = record.take_origin(bytes);
                rest.get(size_of::<RawPair>()..).ok_or(DecodeError)?
            }
            kind::COMPLETE => {
                *end = read(bytes)?;
                &bytes[size_of::<RawEnd>()..]
            }
            kind::SUBMIT => {
                RawSubmit { event: end.event, submission: *submission } = read(bytes)?;
                record.take_origin(bytes);
                &[]
            }
            _ => {
                RawOther { event: end.event, value: end.outcome.result } = read(bytes)?;
                &[]
            }
        };
        let event = &mut record.pair.end.event;
        let has_before = event.pattern & HAS_BEFORE as u16 != 0;
        (event.pattern, event.parts) = (event.pattern & !(HAS_BEFORE as u16), 0);
        if let Ok(first) = read(times) {
            (record.times, event.parts) = (first, HAS_TIMES);
            if has_before && let Ok(early) = read(&times[size_of::<Times>()..]) {
                record.early = early;
                event.parts |= wait_bits(before) as u8;
            }
        }
        Ok(record)
    }

    /// Takes who caused the command, which is at the end. Returns what comes before.
    #[inline]
    fn take_origin<'b>(&mut self, bytes: &'b [u8]) -> &'b [u8] {
        if self.pair.submission.known & known::ORIGIN == 0 {
            return bytes;
        }
        let split = bytes.split_last_chunk::<{ size_of::<RawOrigin>() }>();
        split.map_or(bytes, |(rest, last)| {
            self.origin = pod_read_unaligned(last);
            rest
        })
    }

    /// Makes the record of an event of these words, which are zero. The number of a controller has 16 bits.
    #[inline]
    pub fn fill(words: &mut [u64; WORDS_OF_RECORD], event: &Event) {
        let record: &mut Self = must_cast_mut(words);
        record.pair.end.event.ns = event.at_ns;
        match &event.what {
            EventKind::Submit(id, submission) => {
                record.command(kind::SUBMIT, id, Some(submission));
            }
            EventKind::Complete(id, outcome) => {
                record.command(kind::COMPLETE, id, None);
                record.outcome(outcome);
            }
            EventKind::Command(id, submission, outcome) => {
                record.command(kind::PAIR, id, Some(submission));
                record.outcome(outcome);
            }
            EventKind::Unfinished { id, submission, age_ns } => {
                record.command(kind::UNFINISHED, id, Some(submission));
                record.pair.end.outcome.result = event.at_ns.saturating_sub(*age_ns);
            }
            EventKind::Missed { id, submission, latency_max_ns, timeline } => {
                let kind = if submission.is_some() { kind::PAIR } else { kind::COMPLETE };
                record.command(kind, id, submission.as_ref());
                record.points(*latency_max_ns, timeline.as_ref());
                record.pair.end.event.pattern |= NO_COMPLETE as u16;
            }
            EventKind::Sq { ctrl, qid, id, head, tail } => {
                id.iter().for_each(|id| record.command(kind::SQ, id, None));
                let unknown = u64::from(id.is_none()) << 32;
                record.small(kind::SQ, *ctrl, u64::from(*head) | u64::from(*tail) << 16 | unknown);
                record.pair.end.event.qid = *qid;
            }
            EventKind::Timeout { id, age_ns } => record.aged(kind::TIMEOUT, id, *age_ns),
            EventKind::Cancel { id, age_ns } => record.aged(kind::CANCEL, id, *age_ns),
            EventKind::Requeue(id) => record.command(kind::REQUEUE, id, None),
            EventKind::Retry { id, retries } => {
                record.command(kind::RETRY, id, None);
                record.pair.end.outcome.result = retries.map_or(u64::MAX, u64::from);
            }
            EventKind::AsyncEvent { ctrl, event } => {
                record.small(kind::ASYNC, *ctrl, event.0.into());
            }
            EventKind::State { ctrl, state, requested } => {
                let value = u64::from(state.0) | u64::from(*requested) << 32;
                record.small(kind::STATE, *ctrl, value);
            }
            EventKind::Interrupt { ctrl, vector } => {
                record.small(kind::INTERRUPT, *ctrl, (*vector).into());
            }
        }
    }

    fn small(&mut self, kind: u32, ctrl: u32, value: u64) {
        let RawEnd { event, outcome, .. } = &mut self.pair.end;
        (event.kind, event.ctrl, outcome.result) = (kind as u8, ctrl as u16, value);
    }

    fn aged(&mut self, kind: u32, id: &CommandId, age_ns: u64) {
        self.command(kind, id, None);
        let end = &mut self.pair.end;
        end.outcome.result = end.event.ns.saturating_sub(age_ns);
    }

    fn command(&mut self, kind: u32, id: &CommandId, submission: Option<&Submission>) {
        let event = &mut self.pair.end.event;
        event.kind = kind as u8;
        event.admin = u8::from(id.opcode.queue == QueueKind::Admin);
        event.opcode = id.opcode.code;
        (event.qid, event.cid, event.ctrl, event.nsid) = (id.qid, id.cid, id.ctrl as u16, id.nsid);
        if let Some(of) = submission {
            self.submission(of);
        }
    }

    fn submission(&mut self, of: &Submission) {
        let flag = |is: bool, bit: u32| if is { bit } else { 0 };
        self.pair.submission = RawSubmission {
            stack: of.stack.0,
            cdw: [10, 11, 12, 13, 14, 15].map(|n| of.sqe.cdw(n)),
            comm: of.comm,
            tgid: of.pid,
            tid: of.tid,
            nsid: of.sqe.nsid(),
            bytes: of.bytes.unwrap_or(0),
            flags: of.sqe.flags(),
            metadata: of.sqe.metadata().into(),
            cpu: of.cpu,
            known: flag(of.bytes.is_some(), known::BYTES)
                | flag(of.knows_submitter, known::SUBMITTER)
                | flag(!of.sqe.has_dwords(), known::BARE),
        };
        let Origin { task_cgroup, io_cgroup, submitter } = of.origin;
        let Submitter { pid, tid, comm, cgroup } = submitter;
        let by = RawSender { cgroup, comm: must_cast(comm), tgid: pid, tid };
        self.origin = RawOrigin { task_cgroup, io_cgroup, by };
    }

    fn outcome(&mut self, of: &Outcome) {
        let outcome = &mut self.pair.end.outcome;
        if let Some(verdict) = &of.verdict {
            outcome.known = 1;
            outcome.result = verdict.result;
            outcome.status = verdict.status.0;
            (outcome.retries, outcome.flags) = (verdict.retries, verdict.flags);
        }
        (outcome.stack, outcome.cpu) = (of.stack.0, of.cpu);
        outcome.beside = of.conditions.bits();
        self.early[BIOS] = of.bios.word();
        self.points(of.latency_ns, of.timeline.as_ref());
    }

    fn points(&mut self, latency_ns: Option<u64>, line: Option<&Timeline>) {
        let RawEnd { event, setup_out_ns, .. } = &mut self.pair.end;
        match latency_ns {
            Some(ns) => *setup_out_ns = event.ns.saturating_sub(ns),
            None => {
                event.pattern = NO_SETUP as u16;
                *setup_out_ns = line.map_or(0, |line| line.ns(Point::SetupOut));
            }
        }
        if let Some(line) = line {
            event.pattern |= (line.pattern() & OF_RECORDS) as u16;
            event.parts = HAS_TIMES | wait_bits(line.pattern()) as u8;
            self.times = IN_RECORDS.map(|point| line.ns(point));
            for (to, point) in self.early.iter_mut().zip(BEFORE) {
                *to = line.ns(point);
            }
        }
    }

    /// Its event.
    ///
    /// # Errors
    /// If its kind is unknown.
    #[inline]
    pub fn event(&self) -> Result<Event, DecodeError> {
        let mut event = NO_EVENT;
        self.decode(&mut event)?;
        Ok(event)
    }

    /// The same in place, because an event is large.
    ///
    /// # Errors
    /// As before.
    #[inline]
    pub fn decode(&self, to: &mut Event) -> Result<(), DecodeError> {
        let e = &self.pair.end.event;
        if u32::from(e.kind) != kind::PAIR || e.pattern & NO_COMPLETE as u16 != 0 {
            *to = self.other_event()?;
            return Ok(());
        }
        // nearly all events are commands with their end
        let id = id(e);
        let outcome = outcome(&self.pair.end, self.times());
        *to = Event { at_ns: e.ns, what: EventKind::Command(id, self.submitted(&id), outcome) };
        self.add_waits(to);
        Ok(())
    }

    #[inline(always)]
    fn submitted(&self, id: &CommandId) -> Submission {
        submission(id, &self.pair.submission, self.origin.origin())
    }

    #[inline(always)]
    fn times(&self) -> Option<&Times> {
        (self.pair.end.event.parts & HAS_TIMES != 0).then_some(&self.times)
    }

    #[inline(always)]
    fn add_waits(&self, event: &mut Event) {
        let waits = self.pair.end.event.parts & !HAS_TIMES;
        if waits != 0 || self.early[BIOS] != 0 {
            add_early(event, &self.early, BEFORE_OF[usize::from(waits)]);
        }
    }

    #[inline(never)]
    fn other_event(&self) -> Result<Event, DecodeError> {
        let RawEnd { event: e, outcome: of_end, setup_out_ns } = &self.pair.end;
        let id = id(e);
        let is_missed = e.pattern & NO_COMPLETE as u16 != 0;
        let what = match u32::from(e.kind) {
            kind::COMPLETE if !is_missed => {
                EventKind::Complete(id, outcome(&self.pair.end, self.times()))
            }
            kind::PAIR | kind::COMPLETE => EventKind::Missed {
                id,
                submission: (u32::from(e.kind) == kind::PAIR).then(|| self.submitted(&id)),
                latency_max_ns: event_latency(e, *setup_out_ns),
                timeline: timeline(e, *setup_out_ns, self.times()),
            },
            kind::SUBMIT => EventKind::Submit(id, self.submitted(&id)),
            kind::UNFINISHED => EventKind::Unfinished {
                id,
                submission: self.submitted(&id),
                age_ns: e.ns.saturating_sub(of_end.result),
            },
            _ => small(e, of_end.result)?,
        };
        let mut event = Event { at_ns: e.ns, what };
        self.add_waits(&mut event);
        Ok(event)
    }

    /// The record with these words.
    pub const fn of_words(words: &[u64; WORDS_OF_RECORD]) -> &Self {
        must_cast_ref(words)
    }
}

/// Begins every record (`struct nd_event`).
#[repr(C)]
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
pub(crate) struct RawEvent {
    /// One of [`kind`].
    pub kind: u8,
    pub admin: u8,
    pub opcode: u8,
    /// Zero in the ring. In a recording: see [`Record`](super::record::Record).
    pub parts: u8,
    pub qid: u16,
    pub cid: u16,
    /// CLOCK_MONOTONIC nanoseconds.
    pub ns: u64,
    pub ctrl: u16,
    /// Of a finished command: the points that were observed.
    pub pattern: u16,
    pub nsid: u32,
}

/// What a command requests, and its submitter (`struct nd_submission`).
#[repr(C)]
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
pub(crate) struct RawSubmission {
    pub stack: u64,
    /// CDW10 to CDW15.
    pub cdw: [u32; 6],
    pub comm: [u8; 16],
    pub tgid: u32,
    pub tid: u32,
    pub nsid: u32,
    pub bytes: u32,
    /// CDW0 bits 15:8.
    pub flags: u8,
    pub metadata: u8,
    pub cpu: u16,
    /// Bits of [`known`].
    pub known: u32,
}

/// The task that submitted a bio (`struct nd_sender`).
#[repr(C)]
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
pub(crate) struct RawSender {
    pub cgroup: u64,
    pub comm: [u64; 2],
    pub tgid: u32,
    pub tid: u32,
}

/// Who caused a command (`struct nd_origin`). Zero: not known. Cgroups are ids.
#[repr(C)]
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
pub(crate) struct RawOrigin {
    pub task_cgroup: u64,
    pub io_cgroup: u64,
    pub by: RawSender,
}

/// The outcome that the driver reports (`struct nd_outcome`).
#[repr(C)]
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
pub(crate) struct RawOutcome {
    pub stack: u64,
    pub result: u64,
    pub status: u16,
    pub retries: u8,
    pub flags: u8,
    pub cpu: u16,
    /// 0: the outcome could not be read.
    pub known: u8,
    /// Bits of [`Conditions`](crate::model::command_class::Conditions).
    pub beside: u8,
}

/// What both kinds of records of a finished command begin with (`struct nd_end`).
#[repr(C)]
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
pub(crate) struct RawEnd {
    pub event: RawEvent,
    pub outcome: RawOutcome,
    pub setup_out_ns: u64,
}

/// A command at its submission (`struct nd_submit`).
#[repr(C)]
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
pub(crate) struct RawSubmit {
    pub event: RawEvent,
    pub submission: RawSubmission,
}

/// A finished command with its submission (`struct nd_pair`, without the times).
#[repr(C)]
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
pub(crate) struct RawPair {
    pub end: RawEnd,
    pub submission: RawSubmission,
}

/// The other events (`struct nd_other`).
#[repr(C)]
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
pub(crate) struct RawOther {
    pub event: RawEvent,
    pub value: u64,
}

/// The times of `struct nd_times`, in nanoseconds: with stages they follow the record.
pub(crate) const TIMES: usize = 7;
/// The words of `struct nd_early_times`: with full stages they follow the times.
pub(crate) const EARLY_TIMES: usize = 8;

/// Kinds of records (`enum nd_kind`).
pub(crate) mod kind {
    pub(crate) const SUBMIT: u32 = 2;
    pub(crate) const COMPLETE: u32 = 3;
    pub(crate) const PAIR: u32 = 4;
    /// value: head | tail << 16; 1 << 32: the command is unknown.
    pub(crate) const SQ: u32 = 5;
    /// value: time of the setup.
    pub(crate) const TIMEOUT: u32 = 6;
    /// value: time of the setup.
    pub(crate) const CANCEL: u32 = 7;
    pub(crate) const REQUEUE: u32 = 8;
    /// value: number of retries; !0: unknown.
    pub(crate) const RETRY: u32 = 9;
    /// value: result of the command.
    pub(crate) const ASYNC: u32 = 10;
    /// value: the new state; 1 << 32: requested, and the outcome is unknown.
    pub(crate) const STATE: u32 = 11;
    /// Of a target; value: the vector. Only in recordings.
    pub(crate) const INTERRUPT: u32 = 254;
    /// In flight at the end; value: time of the setup. Only in recordings.
    pub(crate) const UNFINISHED: u32 = 255;
}

/// What is known of a submission (`enum nd_known`).
pub(crate) mod known {
    pub(crate) const BYTES: u32 = 1;
    /// tgid, tid, comm, cpu.
    pub(crate) const SUBMITTER: u32 = 2;
    /// The record ends with a [`RawOrigin`](super::RawOrigin).
    pub(crate) const ORIGIN: u32 = 4;
    /// CDW10 to CDW15 are not known (imports).
    pub(crate) const BARE: u32 = 8;
}
