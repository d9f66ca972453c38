// SPDX-License-Identifier: MIT OR Apache-2.0
//! Decodes the records of a trace.

use std::mem::size_of;

use bytemuck::AnyBitPattern;

use super::early::{EarlyTimes, add_early};
use super::origin::split;
use super::skel::types::{
    nd_complete, nd_end, nd_event, nd_kind, nd_known, nd_other, nd_outcome, nd_pair, nd_saw,
    nd_submission, nd_submit,
};
use super::times::{AllTimes, EARLY, timeline};
use super::{DecodeError, ROW_BITS, RowKey, SLOT_ORIGIN, SLOT_TRACE, STATE_OPEN, nd_slot, read};
use crate::model::bios::Bios;
use crate::model::conditions::Conditions;
use crate::model::event::{
    CommandId, CompletionStatus, CtrlState, Event, EventKind, Outcome, StackId, Submission,
};
use crate::model::open::OpenCommand;
use crate::model::origin::Origin;
use crate::model::point::{NO_COMPLETE, NO_SETUP};
use crate::model::transport::{Transports, Wire};
use crate::nvme::aen::AsyncEvent;
use crate::nvme::opcode::{Opcode, QueueKind};
use crate::nvme::sqe::Parts;
use crate::nvme::status::Status;
use crate::nvme::subject::ALL_NAMESPACES;

const SUBMIT: u32 = nd_kind::ND_KIND_SUBMIT.0;
const COMPLETE: u32 = nd_kind::ND_KIND_COMPLETE.0;
pub(super) const PAIR: u32 = nd_kind::ND_KIND_PAIR.0;
const SQ: u32 = nd_kind::ND_KIND_SQ.0;
const TIMEOUT: u32 = nd_kind::ND_KIND_TIMEOUT.0;
const CANCEL: u32 = nd_kind::ND_KIND_CANCEL.0;
const REQUEUE: u32 = nd_kind::ND_KIND_REQUEUE.0;
const RETRY: u32 = nd_kind::ND_KIND_RETRY.0;
const ASYNC: u32 = nd_kind::ND_KIND_ASYNC.0;
const STATE: u32 = nd_kind::ND_KIND_STATE.0;

// SAFETY: all are `repr(C)` structs of fixed-width integers, and arrays of them, without padding
// (asserted below and in abi.h): any bit pattern is valid.
unsafe impl AnyBitPattern for nd_event {}
// SAFETY: as above.
unsafe impl AnyBitPattern for nd_submission {}
// SAFETY: as above.
unsafe impl AnyBitPattern for nd_outcome {}
// SAFETY: as above.
unsafe impl AnyBitPattern for nd_submit {}
// SAFETY: as above.
unsafe impl AnyBitPattern for nd_end {}
// SAFETY: as above.
unsafe impl AnyBitPattern for nd_other {}

macro_rules! zeroable {
    ($($name:ident)*) => {$(
        // SAFETY: zero bits are a valid value of these too.
        unsafe impl bytemuck::Zeroable for $name {}
    )*};
}
zeroable!(nd_event nd_submission nd_outcome nd_submit nd_end nd_other);

const KNOWN_BYTES: u32 = nd_known::ND_KNOWN_BYTES.0;
const KNOWN_SUBMITTER: u32 = nd_known::ND_KNOWN_SUBMITTER.0;

const EVENT: usize = size_of::<nd_event>();
const SUBMITTED: usize = size_of::<nd_submission>();
const END: usize = size_of::<nd_end>();
const PAIR_END: usize = END + SUBMITTED;
/// The bit of a command with the points before its request.
const BIO: u16 = nd_saw::ND_SAW_BIO.0 as u16;
const _: () = assert!(size_of::<nd_submit>() == EVENT + SUBMITTED);
const _: () = assert!(size_of::<nd_complete>() == END + EARLY + size_of::<EarlyTimes>());
const _: () = assert!(size_of::<nd_pair>() == PAIR_END + EARLY + size_of::<EarlyTimes>());

impl nd_submission {
    /// Whether the number of bytes is known.
    pub(crate) const fn knows_bytes(&self) -> bool {
        self.known & KNOWN_BYTES != 0
    }

    /// Whether the submitter is known.
    pub(crate) const fn knows_submitter(&self) -> bool {
        self.known & KNOWN_SUBMITTER != 0
    }
}

fn opcode(event: &nd_event) -> Opcode {
    Opcode {
        queue: match event.admin {
            0 => QueueKind::Io,
            _ => QueueKind::Admin,
        },
        code: event.opcode,
    }
}

fn id(event: &nd_event) -> CommandId {
    CommandId {
        ctrl: event.ctrl.into(),
        qid: event.qid,
        cid: event.cid,
        nsid: event.nsid,
        opcode: opcode(event),
    }
}

fn submission(id: &CommandId, a: &nd_submission, origin: Origin) -> Submission {
    Submission {
        sqe: Parts {
            opcode: id.opcode.code,
            flags: a.flags,
            cid: id.cid,
            nsid: a.nsid,
            metadata: a.metadata != 0,
            cdw: a.cdw,
        }
        .into(),
        bytes: a.knows_bytes().then_some(a.bytes),
        knows_submitter: a.knows_submitter(),
        pid: a.tgid,
        tid: a.tid,
        comm: a.comm,
        cpu: a.cpu,
        stack: StackId(a.stack),
        origin,
    }
}

fn outcome(end: &nd_end, times: Option<&AllTimes>, wire: &Wire) -> Outcome {
    let nd_end { event, outcome: o, setup_out_ns } = end;
    Outcome {
        verdict: (o.known != 0).then_some(CompletionStatus {
            result: o.result,
            status: Status(o.status),
            retries: o.retries,
            flags: o.flags,
        }),
        latency_ns: event_latency(event, *setup_out_ns),
        timeline: timeline(event, *setup_out_ns, times, wire),
        cpu: o.cpu,
        conditions: Conditions::from_bits(o.beside),
        bios: Bios::default(),
        stack: StackId(o.stack),
    }
}

/// Time from the set-up to the event; `None` if the set-up was not observed.
pub(super) fn event_latency(event: &nd_event, setup_out_ns: u64) -> Option<u64> {
    let seen = event.pattern & NO_SETUP as u16 == 0;
    seen.then(|| event.ns.saturating_sub(setup_out_ns))
}

/// The event of a command whose completion was not observed.
#[cold]
#[inline(never)]
fn missed(
    end: &nd_end,
    submission: Option<Submission>,
    times: Option<&AllTimes>,
    early: &[u8],
    transports: &Transports,
) -> Event {
    let event = &end.event;
    let wire = transports.wire(event.ctrl.into());
    let mut found = Event {
        at_ns: event.ns,
        what: EventKind::Missed {
            id: id(event),
            submission,
            latency_max_ns: event_latency(event, end.setup_out_ns),
            timeline: timeline(event, end.setup_out_ns, times, wire),
        },
    };
    if event.pattern & BIO != 0 {
        add_early(&mut found, early, transports.before());
    }
    found
}

/// The time of the event in these bytes, for sorting before decoding.
pub fn event_time(bytes: &[u8]) -> Option<u64> {
    let ns = bytes.get(8..16)?;
    Some(u64::from_ne_bytes(ns.try_into().ok()?))
}

/// Decodes a record of the ring. The transports of the controllers tell which points it has.
///
/// # Errors
/// If the kind is unknown, or the record is too short for its kind.
pub fn event(bytes: &[u8], transports: &Transports) -> Result<Event, DecodeError> {
    // Each of these functions writes its event in place. In a single function the compiler moves
    // the parts of all kinds to one place that writes any of them, which takes half as many
    // instructions again.
    match u32::from(*bytes.first().ok_or(DecodeError)?) {
        SUBMIT => submit(bytes),
        COMPLETE => complete(bytes, transports),
        PAIR => pair(bytes, transports),
        _ => other(bytes),
    }
}

/// Decodes the part of the record that begins there.
pub(super) fn part<T: AnyBitPattern>(bytes: &[u8], begin: usize) -> Result<T, DecodeError> {
    read(bytes.get(begin..).ok_or(DecodeError)?)
}

#[inline(never)]
fn submit(bytes: &[u8]) -> Result<Event, DecodeError> {
    let record: nd_submit = read(bytes)?;
    let id = id(&record.event);
    let (_, origin) = split(bytes, &record.submission);
    Ok(Event {
        at_ns: record.event.ns,
        what: EventKind::Submit(id, submission(&id, &record.submission, origin)),
    })
}

#[inline(never)]
fn complete(bytes: &[u8], transports: &Transports) -> Result<Event, DecodeError> {
    let end: nd_end = read(bytes)?;
    let times = part::<AllTimes>(bytes, END).ok();
    let wire = transports.wire(end.event.ctrl.into());
    if end.event.pattern & NO_COMPLETE as u16 != 0 {
        return Ok(missed(&end, None, times.as_ref(), &bytes[END..], transports));
    }
    let mut event = Event {
        at_ns: end.event.ns,
        what: EventKind::Complete(id(&end.event), outcome(&end, times.as_ref(), wire)),
    };
    if end.event.pattern & BIO != 0 {
        add_early(&mut event, &bytes[END..], transports.before());
    }
    Ok(event)
}

#[inline(never)]
fn pair(bytes: &[u8], transports: &Transports) -> Result<Event, DecodeError> {
    let a: nd_submission = part(bytes, END)?;
    let (bytes, origin) = split(bytes, &a);
    let end: nd_end = read(bytes)?;
    let early = bytes.get(PAIR_END..).ok_or(DecodeError)?;
    let times = read::<AllTimes>(early).ok();
    let id = id(&end.event);
    let wire = transports.wire(end.event.ctrl.into());
    if end.event.pattern & NO_COMPLETE as u16 != 0 {
        let submission = Some(submission(&id, &a, origin));
        return Ok(missed(&end, submission, times.as_ref(), early, transports));
    }
    let mut event = Event {
        at_ns: end.event.ns,
        what: EventKind::Command(
            id,
            submission(&id, &a, origin),
            outcome(&end, times.as_ref(), wire),
        ),
    };
    if end.event.pattern & BIO != 0 {
        add_early(&mut event, early, transports.before());
    }
    Ok(event)
}

/// Decodes the small records.
#[inline(never)]
fn other(bytes: &[u8]) -> Result<Event, DecodeError> {
    let e: nd_event = read(bytes)?;
    let id = id(&e);
    let value = || -> Result<u64, DecodeError> { Ok(read::<nd_other>(bytes)?.value) };
    let age = || -> Result<u64, DecodeError> { Ok(e.ns.saturating_sub(value()?)) };
    let what = match u32::from(e.kind) {
        SQ => {
            let value = value()?;
            EventKind::Sq {
                ctrl: id.ctrl,
                qid: id.qid,
                // a classic tracepoint does not report the command
                id: (value >> 32 == 0).then_some(id),
                head: value as u16,
                tail: (value >> 16) as u16,
            }
        }
        TIMEOUT => EventKind::Timeout { id, age_ns: age()? },
        CANCEL => EventKind::Cancel { id, age_ns: age()? },
        REQUEUE => {
            value()?;
            EventKind::Requeue(id)
        }
        RETRY => EventKind::Retry { id, retries: u8::try_from(value()?).ok() },
        ASYNC => EventKind::AsyncEvent { ctrl: id.ctrl, event: AsyncEvent(value()? as u32) },
        STATE => EventKind::State {
            ctrl: id.ctrl,
            state: CtrlState(value()? as u32),
            requested: value()? >> 32 != 0,
        },
        _ => return Err(DecodeError),
    };
    Ok(Event { at_ns: e.ns, what })
}

/// The event for a slot of a detached session: a command that has not completed. `None` if the slot
/// has no such command.
pub fn unfinished(slot: &[u8], now_ns: u64) -> Result<Option<Event>, DecodeError> {
    let open = open_command(slot)?;
    Ok(open.map(|open| Event {
        at_ns: now_ns,
        what: EventKind::Unfinished {
            id: open.id,
            submission: open.submission,
            age_ns: now_ns.saturating_sub(open.setup_ns),
        },
    }))
}

/// A slot of a trace, whose last parts only some runs have.
fn slot_of_trace(bytes: &[u8]) -> Result<nd_slot, DecodeError> {
    let mut whole = [0; SLOT_ORIGIN];
    let size = bytes.len().min(SLOT_ORIGIN);
    if size < SLOT_TRACE {
        return Err(DecodeError);
    }
    whole[..size].copy_from_slice(&bytes[..size]);
    read(&whole)
}

/// The command in flight of a slot of a trace. `None` if the slot has none.
pub fn open_command(slot: &[u8]) -> Result<Option<OpenCommand>, DecodeError> {
    let s = slot_of_trace(slot)?;
    if s.state != STATE_OPEN {
        return Ok(None);
    }
    let (row, _) = RowKey::unpack(s.key >> ROW_BITS);
    let id = CommandId {
        ctrl: row.ctrl,
        qid: s.qid,
        cid: s.cid,
        nsid: if row.nsid == ALL_NAMESPACES { s.submission.nsid } else { row.nsid },
        opcode: row.opcode,
    };
    Ok(Some(OpenCommand {
        // classic tracepoints provide none
        request: (s.rq > 1).then_some(s.rq),
        id,
        row,
        setup_ns: s.setup_out_ns,
        submission: submission(&id, &s.submission, s.origin.origin()),
    }))
}

#[cfg(test)]
mod tests {
    use std::mem::offset_of;

    use super::super::skel::types::nd_origin;
    use super::super::{SLOT_FULL, SLOT_STATE};
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn any_bytes_decode_or_are_refused(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            let _ = event(&bytes, &Transports::new(0));
            let _ = unfinished(&bytes, 0);
            let _ = super::super::stack_frames(&bytes);
            let _ = event_time(&bytes);
        }

        #[test]
        fn every_kind_decodes_at_its_own_size(
            mut bytes in prop::collection::vec(any::<u8>(), 300..301), kind in SUBMIT..=STATE,
        ) {
            bytes[0] = kind as u8;
            let known = END + offset_of!(nd_submission, known);
            bytes[known] &= !4;
            bytes[EVENT + offset_of!(nd_submission, known)] &= !4;
            let size = match kind {
                SUBMIT => EVENT + SUBMITTED,
                COMPLETE => END,
                PAIR => PAIR_END,
                _ => EVENT + 8,
            };
            prop_assert!(event(&bytes[..size], &Transports::new(0)).is_ok());
            prop_assert!(event(&bytes[..size - 1], &Transports::new(0)).is_err());
        }
    }

    /// The origin is the last part of a record: one that is too short lacks bytes before it.
    #[test]
    fn a_pair_too_short_for_its_origin_is_refused() {
        let mut bytes = [0; PAIR_END + size_of::<nd_origin>()];
        bytes[0] = PAIR as u8;
        bytes[END + offset_of!(nd_submission, known)] = nd_known::ND_KNOWN_ORIGIN.0 as u8;
        for pattern in [0, NO_COMPLETE as u16, BIO] {
            bytes[offset_of!(nd_event, pattern)..][..2].copy_from_slice(&pattern.to_ne_bytes());
            let decoded = |size| event(&bytes[..size], &Transports::new(0));
            assert!(decoded(bytes.len()).is_ok());
            assert!(decoded(bytes.len() - 1).is_err());
        }
    }

    #[test]
    fn slots_decode_with_and_without_their_last_part() {
        let mut slot = [0; SLOT_ORIGIN];
        slot[SLOT_STATE * 8..][..8].fill(STATE_OPEN);
        for size in [SLOT_TRACE, SLOT_FULL, SLOT_ORIGIN] {
            assert!(open_command(&slot[..size]).is_ok(), "{size}");
        }
        assert!(open_command(&slot[..SLOT_TRACE - 1]).is_err());
    }
}
