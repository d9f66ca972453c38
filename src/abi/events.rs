// SPDX-License-Identifier: MIT OR Apache-2.0
//! Decodes the records of a trace.

use super::DecodeError;
use super::record::Record;
use crate::abi::record::{
    EARLY_TIMES, RawEnd, RawEvent, RawOrigin, RawSubmission, TIMES, kind, known,
};
use crate::model::command_class::Conditions;
use crate::model::event::{
    CommandId, CompletionStatus, CtrlState, Event, EventKind, Outcome, StackId, Submission,
};
use crate::model::origin::{Bios, Origin, Submitter};
use crate::model::point::{NO_SETUP, Pattern, Point, pattern_of};
use crate::model::timeline::Timeline;
use crate::nvme::aen::AsyncEvent;
use crate::nvme::opcode::{Opcode, QueueKind};
use crate::nvme::sqe::{Parts, Sqe};
use crate::nvme::status::Status;

impl RawSubmission {
    /// Whether the number of bytes is known.
    const fn knows_bytes(&self) -> bool {
        self.known & known::BYTES != 0
    }

    /// Whether the submitter is known.
    const fn knows_submitter(&self) -> bool {
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

#[inline(always)]
pub(super) fn id(event: &RawEvent) -> CommandId {
    CommandId {
        ctrl: event.ctrl.into(),
        qid: event.qid,
        cid: event.cid,
        nsid: event.nsid,
        opcode: opcode(event),
    }
}

#[inline(always)]
pub(super) fn submission(id: &CommandId, a: &RawSubmission, origin: Origin) -> Submission {
    let sqe = Sqe::from(Parts {
        opcode: id.opcode.code,
        flags: a.flags,
        cid: id.cid,
        nsid: a.nsid,
        metadata: a.metadata != 0,
        cdw: a.cdw,
    });
    Submission {
        sqe: if a.known & known::BARE == 0 { sqe } else { sqe.without_dwords() },
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

#[inline(always)]
pub(super) fn outcome(end: &RawEnd, times: Option<&Times>) -> Outcome {
    let RawEnd { event, outcome: o, setup_out_ns } = end;
    Outcome {
        verdict: (o.known != 0).then_some(CompletionStatus {
            result: o.result,
            status: Status(o.status),
            retries: o.retries,
            flags: o.flags,
        }),
        latency_ns: event_latency(event, *setup_out_ns),
        timeline: timeline(event, *setup_out_ns, times),
        cpu: o.cpu,
        conditions: Conditions::from_bits(o.beside),
        bios: Bios::default(),
        stack: StackId(o.stack),
    }
}

/// Time from the setup to the event; `None` if the setup was not observed.
pub(super) fn event_latency(event: &RawEvent, setup_out_ns: u64) -> Option<u64> {
    let seen = event.pattern & NO_SETUP as u16 == 0;
    seen.then(|| event.ns.saturating_sub(setup_out_ns))
}

/// The time of the event in these bytes, for sorting before decoding.
pub fn event_time(bytes: &[u8]) -> Option<u64> {
    let ns = bytes.get(8..16)?;
    Some(u64::from_ne_bytes(ns.try_into().ok()?))
}

/// Decodes a record of the ring. `before` has the points before the request that the run observes: a
/// command has all of them, or none.
///
/// # Errors
/// If the kind is unknown, or the record is too short for its kind.
pub fn event(bytes: &[u8], before: Pattern) -> Result<Event, DecodeError> {
    Record::of_ring(bytes, before)?.event()
}

/// The same in place, because an event is large.
///
/// # Errors
/// As before.
#[inline]
pub fn decode_event(bytes: &[u8], before: Pattern, to: &mut Event) -> Result<(), DecodeError> {
    Record::of_ring(bytes, before)?.decode(to)
}

/// What a small record says.
pub(super) fn small(e: &RawEvent, value: u64) -> Result<EventKind, DecodeError> {
    let id = id(e);
    let age_ns = e.ns.saturating_sub(value);
    Ok(match u32::from(e.kind) {
        kind::SQ => EventKind::Sq {
            ctrl: id.ctrl,
            qid: id.qid,
            // a classic tracepoint does not report the command
            id: (value >> 32 == 0).then_some(id),
            head: value as u16,
            tail: (value >> 16) as u16,
        },
        kind::TIMEOUT => EventKind::Timeout { id, age_ns },
        kind::CANCEL => EventKind::Cancel { id, age_ns },
        kind::REQUEUE => EventKind::Requeue(id),
        kind::RETRY => EventKind::Retry { id, retries: u8::try_from(value).ok() },
        kind::ASYNC => EventKind::AsyncEvent { ctrl: id.ctrl, event: AsyncEvent(value as u32) },
        kind::STATE => EventKind::State {
            ctrl: id.ctrl,
            state: CtrlState(value as u32),
            requested: value >> 32 != 0,
        },
        kind::INTERRUPT => EventKind::Interrupt { ctrl: id.ctrl, vector: value as u32 },
        _ => return Err(DecodeError),
    })
}

/// `nd_early_times`: the times of [`BEFORE`], and the bios.
pub(super) type EarlyTimes = [u64; EARLY_TIMES];
/// The place of the bios.
pub(super) const BIOS: usize = EARLY_TIMES - 1;

/// The points before the request, in the order of their times, and of their bits in `enum nd_wait_point`.
pub(super) const BEFORE: [Point; BIOS] =
    [Point::Bio, Point::Submit, Point::Freeze, Point::Iocost, Point::Wbt, Point::Tag, Point::Zone];

/// The bits of `enum nd_wait_point` for the points of a pattern that are before the request.
pub const fn wait_bits(pattern: Pattern) -> u16 {
    let (mut bits, mut n) = (0, 0);
    while n < BEFORE.len() {
        if BEFORE[n].seen_in(pattern) {
            bits |= 1 << n;
        }
        n += 1;
    }
    bits
}

/// Adds the points before the request, and the bios.
#[inline(never)]
pub(super) fn add_early(event: &mut Event, times: &EarlyTimes, before: Pattern) {
    let line = match &mut event.what {
        EventKind::Command(_, _, end) | EventKind::Complete(_, end) => {
            end.bios = Bios::of_word(times[BIOS]);
            end.timeline.as_mut()
        }
        EventKind::Missed { timeline, .. } => timeline.as_mut(),
        _ => None,
    };
    if let Some(line) = line {
        *line = line.with_pattern(line.pattern() | before);
        for (point, ns) in BEFORE.into_iter().zip(times) {
            line.set(point, *ns);
        }
    }
}

/// `nd_times`: tests/parity compares the order.
pub(super) type Times = [u64; TIMES];

/// The timeline of an event, without the points before the request.
#[inline(always)]
pub(super) fn timeline(
    event: &RawEvent,
    setup_out_ns: u64,
    times: Option<&Times>,
) -> Option<Timeline> {
    let pattern = pattern_of(event.pattern, 0);
    Some(Timeline::of_record(*times?, setup_out_ns, event.ns, pattern))
}

/// A name that the BPF side keeps in two words.
pub(crate) fn name_of([low, high]: [u64; 2]) -> [u8; 16] {
    let mut comm = [0; 16];
    comm[..8].copy_from_slice(&low.to_ne_bytes());
    comm[8..].copy_from_slice(&high.to_ne_bytes());
    comm
}

impl RawOrigin {
    /// The same in the terms of the model.
    pub(crate) fn origin(&self) -> Origin {
        Origin {
            task_cgroup: self.task_cgroup,
            io_cgroup: self.io_cgroup,
            submitter: Submitter {
                pid: self.by.tgid,
                tid: self.by.tid,
                comm: name_of(self.by.comm),
                cgroup: self.by.cgroup,
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use std::mem::{offset_of, size_of};

    use super::*;
    use crate::abi::record::{RawOther, RawPair, RawSubmit};
    use crate::model::point::{HAS_BEFORE, NO_COMPLETE};

    const END: usize = size_of::<RawEnd>();
    const PAIR_END: usize = size_of::<RawPair>();

    use proptest::prelude::*;

    proptest! {
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
            prop_assert!(event(&bytes[..size], 0).is_ok());
            prop_assert!(event(&bytes[..size - 1], 0).is_err());
        }
    }

    /// The origin is the last part of a record: one that is too short lacks bytes before it.
    #[test]
    fn a_pair_too_short_for_its_origin_is_refused() {
        let mut bytes = [0; PAIR_END + size_of::<RawOrigin>()];
        bytes[0] = kind::PAIR as u8;
        bytes[END + offset_of!(RawSubmission, known)] = known::ORIGIN as u8;
        for pattern in [0, NO_COMPLETE as u16, HAS_BEFORE as u16] {
            bytes[offset_of!(RawEvent, pattern)..][..2].copy_from_slice(&pattern.to_ne_bytes());
            let decoded = |size| event(&bytes[..size], 0);
            assert!(decoded(bytes.len()).is_ok());
            assert!(decoded(bytes.len() - 1).is_err());
        }
    }
}
