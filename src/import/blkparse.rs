// SPDX-License-Identifier: MIT OR Apache-2.0
//! The requests in the text of blkparse, as commands: from their issue (D) to their completion (C).

use std::collections::BTreeMap;

use super::lines::{Found, Layout, Line, each, sectors};
use super::report::Report;
use crate::model::collect::{Collector, PartialCommand};
use crate::model::event::{CommandId, Event, NO_QUEUE, Submission};
use crate::model::point::Point;
use crate::model::stage::StageSet;
use crate::nvme::opcode::{Opcode, QueueKind};
use crate::nvme::sqe::{Parts, Sqe};
use crate::target::Skip;

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
fn issued(event: &Line<'_>, ctrl: u32, code: u8, (first, count): (u64, u32)) -> PartialCommand {
    let opcode = Opcode { queue: QueueKind::Io, code };
    let id = CommandId { ctrl, qid: NO_QUEUE, cid: NO_QUEUE, nsid: 1, opcode };
    let nlb = count.saturating_sub(1);
    let cdw = [first as u32, (first >> 32) as u32, nlb, 0, 0, 0];
    let sqe = Sqe::from(Parts { opcode: code, cid: id.cid, nsid: 1, cdw, ..Parts::default() });
    let has_blocks = (1..=1 << 16).contains(&count);
    let name = event.text.rsplit_once('[').map_or("", |(_, name)| name.trim_end_matches(']'));
    let sqe = if has_blocks { sqe } else { sqe.without_dwords() };
    let submission = Submission { bytes: count.checked_mul(512), ..event.submission(name, sqe) };
    PartialCommand::of_driver(id, submission, event.at_ns)
}

/// Reads the whole text, and passes on its commands. A second call gives the same.
pub fn import(text: &str, to: &mut dyn FnMut(&Event)) -> Report {
    let mut commands = Collector::new(true);
    let mut devices: BTreeMap<&str, u32> = BTreeMap::new();
    let mut resolution_ns = 0;
    let skipped = each(text, |_, found| {
        let Found::Event(event) = found else { return Ok(()) };
        if event.layout != Layout::Blkparse {
            return Err(Skip::Unknown);
        }
        let next = devices.len() as u32;
        let ctrl = *devices.entry(event.device).or_insert(next);
        let rwbs = event.text.split(' ').next().unwrap_or_default();
        let known = sectors(event.text)
            .and_then(|(_, first, count)| Some((first, u32::try_from(count).ok()?)));
        // a flush has no sectors; of other requests without them, an end does not tell which it belongs to
        let range = known.or_else(|| rwbs.starts_with('F').then_some((0, 0)));
        let key = range.map(|range| (ctrl, range));
        match (event.name, key) {
            ("D" | "C", None) => return Err(Skip::Lacks("a request without sectors")),
            ("D", Some(key)) => {
                let code = code(rwbs).ok_or(Skip::Lacks("a request of another kind"))?;
                commands.begin(key, issued(&event, ctrl, code, key.1));
            }
            ("C", key) => {
                if let Some(mut command) = commands.end(key.as_ref()) {
                    command.complete(event.at_ns, event.cpu);
                    commands.push(command.finished());
                }
            }
            // requeued requests are issued again; queued, merged, allocated, plugged: before the issue
            (action, key) => {
                if let Some(key) = key.filter(|_| action == "R") {
                    commands.open.remove(&key);
                }
                return Err(Skip::Other);
            }
        }
        commands.at(event.at_ns);
        resolution_ns = event.resolution_ns;
        commands.events.drain(..).for_each(|event| to(&event));
        Ok(())
    });
    commands.finish();
    commands.events.iter().for_each(to);
    commands.ledger.span = (Point::SetupOut, Point::Complete);
    // the sectors of a disk are its blocks
    let disk = |name: &str| BTreeMap::from([(1, (name.replace(',', ":"), 512))]);
    Report {
        resolution_ns,
        lacks: LACKS.map(str::to_owned).to_vec(),
        span: commands.span,
        stage_set: StageSet::Basic,
        disks: devices.into_iter().map(|(name, ctrl)| (ctrl, disk(name))).collect(),
        ..Report::new("blkparse", "request", commands.ledger, skipped)
    }
}
