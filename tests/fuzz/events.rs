// SPDX-License-Identifier: MIT OR Apache-2.0
//! Events made of arbitrary bytes, with hostile times and numbers more often than chance has them.

use arbitrary::{Arbitrary, Result, Unstructured};
use nvme_deep::model::bios::Bios;
use nvme_deep::model::conditions::Conditions;
use nvme_deep::model::event::{
    CommandId, CompletionStatus, CtrlState, Event, EventKind, Outcome, StackId, Submission,
};
use nvme_deep::model::origin::{Origin, Submitter};
use nvme_deep::model::point::Pattern;
use nvme_deep::model::timeline::Timeline;
use nvme_deep::nvme::aen::AsyncEvent;
use nvme_deep::nvme::opcode::{Opcode, QueueKind};
use nvme_deep::nvme::sqe::Parts;
use nvme_deep::nvme::status::Status;

/// Most events of a part.
const MOST: usize = 4096;

/// A duration: mostly one of a device, at times one of years.
fn duration(u: &mut Unstructured<'_>) -> Result<u64> {
    Ok(match u8::arbitrary(u)? {
        0..=127 => u16::arbitrary(u)?.into(),
        128..=175 => u64::from(u16::arbitrary(u)?) * 1000,
        176..=207 => u64::from(u8::arbitrary(u)?) * 100_000_000,
        208..=223 => u64::from(u16::arbitrary(u)?) * 1_000_000_000,
        224..=239 => u64::from(u16::arbitrary(u)?) << 48,
        240..=247 => u64::MAX - u64::from(u8::arbitrary(u)?),
        248.. => u64::arbitrary(u)?,
    })
}

/// A number: mostly a small one.
fn number(u: &mut Unstructured<'_>) -> Result<u32> {
    Ok(match u8::arbitrary(u)? {
        n @ 0..=199 => (n % 4).into(),
        200..=229 => u8::arbitrary(u)?.into(),
        230..=239 => u32::MAX - u32::from(u8::arbitrary(u)? % 4),
        240.. => u32::arbitrary(u)?,
    })
}

fn id(u: &mut Unstructured<'_>) -> Result<CommandId> {
    let code = u8::arbitrary(u)?;
    Ok(CommandId {
        ctrl: number(u)?,
        qid: number(u)? as u16,
        cid: number(u)? as u16,
        nsid: number(u)?,
        opcode: Opcode {
            queue: QueueKind::BOTH[usize::from(code & 0x40 != 0)],
            code: if code & 0x80 != 0 { u8::arbitrary(u)? } else { code & 3 },
        },
    })
}

/// Who caused a command: mostly nobody.
fn origin(u: &mut Unstructured<'_>) -> Result<Origin> {
    if !u.ratio(1, 4)? {
        return Ok(Origin::default());
    }
    Ok(Origin {
        task_cgroup: number(u)?.into(),
        io_cgroup: number(u)?.into(),
        submitter: Submitter {
            pid: number(u)?,
            tid: number(u)?,
            comm: [u8::arbitrary(u)?; 16],
            cgroup: number(u)?.into(),
        },
    })
}

fn submission(u: &mut Unstructured<'_>, id: CommandId) -> Result<Submission> {
    let mut cdw = [0; 6];
    for word in &mut cdw {
        *word = number(u)?;
    }
    Ok(Submission {
        sqe: Parts {
            opcode: id.opcode.code,
            cid: id.cid,
            nsid: id.nsid,
            cdw,
            flags: u8::arbitrary(u)? & 0x81,
            metadata: bool::arbitrary(u)?,
        }
        .into(),
        bytes: Option::arbitrary(u)?,
        knows_submitter: bool::arbitrary(u)?,
        pid: number(u)?,
        tid: number(u)?,
        comm: [u8::arbitrary(u)?; 16],
        cpu: number(u)? as u16,
        stack: StackId(number(u)?.into()),
        origin: origin(u)?,
    })
}

/// Points up to the time of the event, mostly in their order.
fn timeline(u: &mut Unstructured<'_>, at_ns: u64) -> Result<Timeline> {
    let mut points = [0; 9];
    let mut point = at_ns;
    for to in points.iter_mut().rev() {
        *to = point;
        point = point.wrapping_sub(duration(u)?);
    }
    Ok(Timeline::new(points, Pattern::arbitrary(u)?))
}

fn outcome(u: &mut Unstructured<'_>, at_ns: u64) -> Result<Outcome> {
    let verdict = CompletionStatus {
        result: number(u)?.into(),
        status: Status(number(u)? as u16),
        retries: number(u)? as u8,
        flags: number(u)? as u8,
    };
    Ok(Outcome {
        verdict: bool::arbitrary(u)?.then_some(verdict),
        latency_ns: if u8::arbitrary(u)? < 200 { Some(duration(u)?) } else { None },
        timeline: if u8::arbitrary(u)? < 200 { Some(timeline(u, at_ns)?) } else { None },
        cpu: number(u)? as u16,
        conditions: Conditions::from_bits(u8::arbitrary(u)?),
        bios: Bios::of_word(u64::arbitrary(u)?),
        stack: StackId(number(u)?.into()),
    })
}

fn kind(u: &mut Unstructured<'_>, at_ns: u64) -> Result<EventKind> {
    let which = u8::arbitrary(u)?;
    let id = id(u)?;
    Ok(match which {
        0..=179 => EventKind::Command(id, submission(u, id)?, outcome(u, at_ns)?),
        180..=195 => EventKind::Submit(id, submission(u, id)?),
        196..=211 => EventKind::Complete(id, outcome(u, at_ns)?),
        212..=219 => {
            EventKind::Unfinished { id, submission: submission(u, id)?, age_ns: duration(u)? }
        }
        220..=227 => EventKind::Missed {
            id,
            submission: Some(submission(u, id)?),
            latency_max_ns: Some(duration(u)?),
            timeline: Some(timeline(u, at_ns)?),
        },
        228..=231 => EventKind::Sq {
            ctrl: id.ctrl,
            qid: id.qid,
            id: Some(id),
            head: u16::arbitrary(u)?,
            tail: u16::arbitrary(u)?,
        },
        232..=235 => EventKind::Timeout { id, age_ns: duration(u)? },
        236..=239 => EventKind::Cancel { id, age_ns: duration(u)? },
        240..=243 => EventKind::Requeue(id),
        244..=247 => EventKind::Retry { id, retries: Option::arbitrary(u)? },
        248..=251 => EventKind::AsyncEvent { ctrl: id.ctrl, event: AsyncEvent(u32::arbitrary(u)?) },
        252.. => EventKind::State {
            ctrl: id.ctrl,
            state: CtrlState(number(u)?),
            requested: bool::arbitrary(u)?,
        },
    })
}

/// Makes events until the bytes are used up.
pub fn events(u: &mut Unstructured<'_>, begin_ns: u64, to: &mut dyn FnMut(&Event)) {
    let mut at_ns = begin_ns;
    for _ in 0..MOST {
        if u.is_empty() {
            break;
        }
        let Ok(step) = duration(u) else { break };
        // time runs backwards at times
        at_ns =
            if step & 0x3f == 0x3f { at_ns.wrapping_sub(step) } else { at_ns.wrapping_add(step) };
        let Ok(what) = kind(u, at_ns) else { break };
        to(&Event { at_ns, what });
    }
}
