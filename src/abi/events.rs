// SPDX-License-Identifier: MIT OR Apache-2.0
//! Decodes the records of a trace.

use std::mem::size_of;

use bytemuck::AnyBitPattern;

use super::early::add_early;
use super::origin::split;
use super::records::{RawEnd, RawEvent, RawOther, RawPair, RawSubmission, RawSubmit, kind, known};
use super::times::{AllTimes, timeline};
use super::{DecodeError, read};
use crate::model::bios::Bios;
use crate::model::conditions::Conditions;
use crate::model::event::{
    CommandId, CompletionStatus, CtrlState, Event, EventKind, Outcome, StackId, Submission,
};
use crate::model::origin::Origin;
use crate::model::point::{NO_COMPLETE, NO_SETUP, Point};
use crate::model::transport::{Transports, Wire};
use crate::nvme::aen::AsyncEvent;
use crate::nvme::opcode::{Opcode, QueueKind};
use crate::nvme::sqe::Parts;
use crate::nvme::status::Status;

const END: usize = size_of::<RawEnd>();
const PAIR_END: usize = size_of::<RawPair>();
/// The bit of a command with the points before its request.
const BIO: u16 = match Point::Bio.pattern_bit() {
    Some(bit) => bit as u16,
    None => 0,
};

impl RawSubmission {
    /// Whether the number of bytes is known.
    pub(crate) const fn knows_bytes(&self) -> bool {
        self.known & known::BYTES != 0
    }

    /// Whether the submitter is known.
    pub(crate) const fn knows_submitter(&self) -> bool {
        self.known & known::SUBMITTER != 0
    }
}

fn opcode(event: &RawEvent) -> Opcode {
    Opcode {
        queue: match event.admin {
            0 => QueueKind::Io,
            _ => QueueKind::Admin,
        },
        code: event.opcode,
    }
}

fn id(event: &RawEvent) -> CommandId {
    CommandId {
        ctrl: event.ctrl.into(),
        qid: event.qid,
        cid: event.cid,
        nsid: event.nsid,
        opcode: opcode(event),
    }
}

pub(super) fn submission(id: &CommandId, a: &RawSubmission, origin: Origin) -> Submission {
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

fn outcome(end: &RawEnd, times: Option<&AllTimes>, wire: &Wire) -> Outcome {
    let RawEnd { event, outcome: o, setup_out_ns } = end;
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
pub(super) fn event_latency(event: &RawEvent, setup_out_ns: u64) -> Option<u64> {
    let seen = event.pattern & NO_SETUP as u16 == 0;
    seen.then(|| event.ns.saturating_sub(setup_out_ns))
}

/// The event of a command whose completion was not observed.
#[cold]
#[inline(never)]
fn missed(
    end: &RawEnd,
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
        kind::SUBMIT => submit(bytes),
        kind::COMPLETE => complete(bytes, transports),
        kind::PAIR => pair(bytes, transports),
        _ => other(bytes),
    }
}

/// Decodes the part of the record that begins there.
pub(super) fn part<T: AnyBitPattern>(bytes: &[u8], begin: usize) -> Result<T, DecodeError> {
    read(bytes.get(begin..).ok_or(DecodeError)?)
}

#[inline(never)]
fn submit(bytes: &[u8]) -> Result<Event, DecodeError> {
    let record: RawSubmit = read(bytes)?;
    let id = id(&record.event);
    let (_, origin) = split(bytes, &record.submission);
    Ok(Event {
        at_ns: record.event.ns,
        what: EventKind::Submit(id, submission(&id, &record.submission, origin)),
    })
}

#[inline(never)]
fn complete(bytes: &[u8], transports: &Transports) -> Result<Event, DecodeError> {
    let end: RawEnd = read(bytes)?;
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
    let a: RawSubmission = part(bytes, END)?;
    let (bytes, origin) = split(bytes, &a);
    let end: RawEnd = read(bytes)?;
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
    let e: RawEvent = read(bytes)?;
    let id = id(&e);
    let value = || -> Result<u64, DecodeError> { Ok(read::<RawOther>(bytes)?.value) };
    let age = || -> Result<u64, DecodeError> { Ok(e.ns.saturating_sub(value()?)) };
    let what = match u32::from(e.kind) {
        kind::SQ => {
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
        kind::TIMEOUT => EventKind::Timeout { id, age_ns: age()? },
        kind::CANCEL => EventKind::Cancel { id, age_ns: age()? },
        kind::REQUEUE => {
            value()?;
            EventKind::Requeue(id)
        }
        kind::RETRY => EventKind::Retry { id, retries: u8::try_from(value()?).ok() },
        kind::ASYNC => EventKind::AsyncEvent { ctrl: id.ctrl, event: AsyncEvent(value()? as u32) },
        kind::STATE => EventKind::State {
            ctrl: id.ctrl,
            state: CtrlState(value()? as u32),
            requested: value()? >> 32 != 0,
        },
        _ => return Err(DecodeError),
    };
    Ok(Event { at_ns: e.ns, what })
}

#[cfg(test)]
mod tests {
    use std::mem::offset_of;

    use super::super::records::RawOrigin;
    use super::*;

    use proptest::prelude::*;

    proptest! {
        #[test]
        fn any_bytes_decode_or_are_refused(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            let _ = event(&bytes, &Transports::new(0));
            let _ = event_time(&bytes);
        }

        #[test]
        fn every_kind_decodes_at_its_own_size(
            mut bytes in prop::collection::vec(any::<u8>(), 300..301), kind in kind::SUBMIT..=kind::STATE,
        ) {
            bytes[0] = kind as u8;
            let known = END + offset_of!(RawSubmission, known);
            bytes[known] &= !4;
            bytes[size_of::<RawEvent>() + offset_of!(RawSubmission, known)] &= !4;
            let size = match kind {
                kind::SUBMIT => size_of::<RawSubmit>(),
                kind::COMPLETE => END,
                kind::PAIR => PAIR_END,
                _ => size_of::<RawOther>(),
            };
            prop_assert!(event(&bytes[..size], &Transports::new(0)).is_ok());
            prop_assert!(event(&bytes[..size - 1], &Transports::new(0)).is_err());
        }
    }

    /// The origin is the last part of a record: one that is too short lacks bytes before it.
    #[test]
    fn a_pair_too_short_for_its_origin_is_refused() {
        let mut bytes = [0; PAIR_END + size_of::<RawOrigin>()];
        bytes[0] = kind::PAIR as u8;
        bytes[END + offset_of!(RawSubmission, known)] = known::ORIGIN as u8;
        for pattern in [0, NO_COMPLETE as u16, BIO] {
            bytes[offset_of!(RawEvent, pattern)..][..2].copy_from_slice(&pattern.to_ne_bytes());
            let decoded = |size| event(&bytes[..size], &Transports::new(0));
            assert!(decoded(bytes.len()).is_ok());
            assert!(decoded(bytes.len() - 1).is_err());
        }
    }
}
