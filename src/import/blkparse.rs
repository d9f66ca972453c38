// SPDX-License-Identifier: MIT OR Apache-2.0
//! The requests in the text of blkparse: from their issue (D) to their completion (C).

use std::collections::BTreeMap;

use super::lines::{MOST_OPEN, SECOND, Unreads, numbered, time};
use super::report::Report;
use crate::model::target::{
    HostClock, HostCommand, HostController, HostEvent, HostPoint, HostTimes, TargetKind,
};
use crate::target::Imported;

/// What a text of blkparse lacks.
const LACKS: [&str; 3] = [
    "NVMe fields: no queue, no command id, no status",
    "all but the time from issue (D) to completion (C), which is driver and device: `backend`",
    "blocks: slba and nlb are sectors of 512 bytes",
];

/// An event: `259,1 2 5 0.000241000 211 D WFSM 8388872 + 32 [kworker/2:1H]`.
struct Line<'t> {
    device: &'t str,
    at_ns: u64,
    action: &'t str,
    rwbs: &'t str,
    /// First sector and number of sectors; zero for a flush, `None` for another command without them.
    sectors: Option<(u64, u32)>,
}

fn line(text: &str) -> Option<Line<'_>> {
    let mut words = text.trim_start_matches(['>', ' ']).split_whitespace();
    let mut next = || words.next();
    let device = next()?;
    let (major, minor) = device.split_once(',')?;
    let _: (u32, u32, u32, u64) =
        (major.parse().ok()?, minor.parse().ok()?, next()?.parse().ok()?, next()?.parse().ok()?);
    // its first time is zero, which would be none
    let at_ns = time(next()?, SECOND)?.0.checked_add(SECOND)?;
    let _: u32 = next()?.parse().ok()?;
    let (action, rwbs) = (next()?, next()?);
    let sector = next().and_then(|word| word.parse().ok());
    let count = next().filter(|word| *word == "+").and_then(|_| next()?.parse().ok());
    let sectors = sector.zip(count).or_else(|| rwbs.starts_with('F').then_some((0, 0)));
    Some(Line { device, at_ns, action, rwbs, sectors })
}

/// Whether a line is of blkparse.
pub fn is_line(text: &str) -> bool {
    line(text).is_some()
}

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

/// Reads a text.
pub fn import(text: &str) -> (Imported, Report) {
    let mut imported = Imported::of(TargetKind::Block, "blkparse", HostClock::Other, 1);
    let mut unread = Unreads::default();
    let mut devices: BTreeMap<&str, u32> = BTreeMap::new();
    let mut open: BTreeMap<(u32, (u64, u32)), HostCommand> = BTreeMap::new();
    for (number, text) in numbered(text) {
        let Some(line) = line(text) else {
            unread.add("something else", number, text);
            continue;
        };
        let next = devices.len() as u32;
        let ctrl = *devices.entry(line.device).or_insert(next);
        let ledger = &mut imported.ledger;
        let Some(sectors) = line.sectors else {
            // an end does not tell which of them it belongs to
            match line.action {
                "D" | "C" => {
                    unread.add("a request without sectors", number, text);
                    ledger.not_read += 1;
                }
                _ => ledger.other += 1,
            }
            continue;
        };
        let key = (ctrl, sectors);
        match line.action {
            "D" if open.len() >= MOST_OPEN => ledger.lost += 1,
            "D" => {
                let known = Some(sectors).filter(|(_, count)| *count > 0);
                let request = HostCommand {
                    ctrl,
                    code: code(line.rwbs),
                    slba: known.map(|(first, _)| first),
                    nlb: known.map(|(_, count)| count),
                    times: HostTimes::default().with(HostPoint::BackendSubmit, line.at_ns),
                    ..HostCommand::default()
                };
                ledger.without_end += u64::from(open.insert(key, request).is_some());
            }
            "C" => match open.remove(&key) {
                Some(mut request) => {
                    request.times.set(HostPoint::BackendDone, line.at_ns);
                    imported.push(HostEvent::Command(request));
                }
                None => ledger.without_begin += 1,
            },
            // requeued requests are issued again; queued, merged, allocated, plugged: before the issue
            action => {
                if action == "R" {
                    open.remove(&key);
                }
                ledger.other += 1;
            }
        }
    }
    let controllers = devices.into_iter().map(|(name, number)| HostController {
        number,
        ..HostController::named(name.replace(',', ":"))
    });
    imported.controllers = controllers.collect();
    imported.controllers.sort_by_key(|c| c.number);
    let imported = imported.finished(open.into_values());
    let report = Report {
        format: "blkparse",
        lacks: LACKS.map(str::to_owned).to_vec(),
        unread,
        ..Report::of_target(&imported)
    };
    (imported, report)
}
