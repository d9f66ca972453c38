// SPDX-License-Identifier: MIT OR Apache-2.0
//! The requests in the text of blkparse, as commands: from their issue (D) to their completion (C).

use std::collections::BTreeMap;

use super::driver::{Census, comm};
use super::lines::{Found, Line, OTHER, each, sectors};
use crate::model::event::{CommandId, Event, EventKind, NO_QUEUE, Outcome, Submission};
use crate::model::ledger::Ledger;
use crate::model::point::Point;
use crate::model::timeline::Timeline;
use crate::nvme::opcode::{Opcode, QueueKind};
use crate::nvme::sqe::{Parts, Sqe};
use crate::target::MOST_OPEN;

/// What a text of blkparse lacks.
const LACKS: [&str; 3] = [
    "NVMe fields: no queue, no command id, no status; each disk counts as namespace 1 of a controller",
    "all but the time from issue (D) to completion (C): `submit+device+complete` is one stage",
    "blocks: slba and nlb are sectors of 512 bytes",
];

/// The NVMe opcode that the driver makes of a request; `None` if it is none of these.
fn code(rwbs: &str) -> Option<u8> {
    let rest = rwbs.trim_start_matches('F');
    match rest.bytes().next() {
        Some(b'R') => Some(2),
        Some(b'W') => Some(1),
        Some(b'D') => Some(9),
        Some(b'N') | None if rest.len() < rwbs.len() => Some(0),
        _ => None,
    }
}

/// A request that was issued, as a command.
fn issued(
    event: &Line<'_>,
    ctrl: u32,
    code: u8,
    (first, count): (u64, u32),
) -> (CommandId, Submission) {
    let opcode = Opcode { queue: QueueKind::Io, code };
    let id = CommandId { ctrl, qid: NO_QUEUE, cid: NO_QUEUE, nsid: 1, opcode };
    let nlb = count.saturating_sub(1);
    let cdw = [first as u32, (first >> 32) as u32, nlb, 0, 0, 0];
    let sqe = Sqe::from(Parts { opcode: code, cid: id.cid, nsid: 1, cdw, ..Parts::default() });
    let has_blocks = (1..=1 << 16).contains(&count);
    let name = event.text.rsplit_once('[').map_or("", |(_, name)| name.trim_end_matches(']'));
    let submission = Submission {
        bytes: count.checked_mul(512),
        knows_submitter: true,
        pid: event.tid,
        tid: event.tid,
        comm: comm(name),
        cpu: event.cpu.unwrap_or(0),
        ..Submission::of(if has_blocks { sqe } else { sqe.without_dwords() })
    };
    (id, submission)
}

/// Reads the whole text, and passes on its commands. A second call gives the same.
pub fn import(text: &str, to: &mut dyn FnMut(&Event)) -> Census {
    let mut census = Census::default();
    census.ledger = Ledger::of_target(true);
    let mut open: BTreeMap<_, (u64, (CommandId, Submission))> = BTreeMap::new();
    let mut devices: BTreeMap<&str, u32> = BTreeMap::new();
    let unreads = each(text, |_, found| {
        let Found::Event(event) = found else { return Err(OTHER) };
        let (at_ns, ledger) = (event.at_ns, &mut census.ledger);
        if event.device.is_empty() {
            return Err(event.name.into());
        }
        let next = devices.len() as u32;
        let ctrl = *devices.entry(event.device).or_insert(next);
        let rwbs = event.text.split(' ').next().unwrap_or_default();
        let known = sectors(event.text)
            .and_then(|(_, first, count)| Some((first, u32::try_from(count).ok()?)));
        // a flush has no sectors; of other requests without them, an end does not tell which it belongs to
        let Some(range) = known.or_else(|| rwbs.starts_with('F').then_some((0, 0))) else {
            if !matches!(event.name, "D" | "C") {
                census.other += 1;
                return Ok(());
            }
            ledger.not_read(1);
            return Err("a request without sectors".into());
        };
        census.span = Some((census.span.map_or(at_ns, |(first, _)| first.min(at_ns)), at_ns));
        census.resolution_ns = event.resolution_ns;
        let key = (ctrl, range);
        match event.name {
            "D" => {
                let Some(code) = code(rwbs) else {
                    ledger.not_read(1);
                    return Err("a request of another kind".into());
                };
                if open.len() >= MOST_OPEN {
                    ledger.lose(1);
                    return Ok(());
                }
                let before = open.insert(key, (at_ns, issued(&event, ctrl, code, range)));
                ledger.overwritten += u64::from(before.is_some());
            }
            "C" => match open.remove(&key) {
                Some((begin_ns, (id, submission))) => {
                    let time = |point| if point == Point::SetupOut { begin_ns } else { at_ns };
                    let times = Timeline::from_fn(0, time);
                    let cpu = event.cpu.unwrap_or(0);
                    let outcome =
                        Outcome { cpu, ..Outcome::of(at_ns.checked_sub(begin_ns), Some(times)) };
                    let what = EventKind::Command(id, submission, outcome);
                    let event = Event { at_ns, what };
                    ledger.count(&event);
                    to(&event);
                }
                None => ledger.orphan_completions += 1,
            },
            // requeued requests are issued again; queued, merged, allocated, plugged: before the issue
            action => {
                if action == "R" {
                    open.remove(&key);
                }
                census.other += 1;
            }
        }
        Ok(())
    });
    let last_ns = census.span.map_or(0, |(_, last)| last);
    for (at_ns, (id, submission)) in open.into_values() {
        let age_ns = last_ns.saturating_sub(at_ns);
        let event =
            Event { at_ns: last_ns, what: EventKind::Unfinished { id, submission, age_ns } };
        census.ledger.count(&event);
        to(&event);
    }
    census.ledger.span = (Point::SetupOut, Point::Complete);
    for (device, ctrl) in devices {
        census.disk(ctrl, device.replace(',', ":"));
    }
    census.lacks = LACKS.map(str::to_owned).to_vec();
    census.unreads = unreads;
    census
}
