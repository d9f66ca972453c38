// SPDX-License-Identifier: MIT OR Apache-2.0
//! The requests in the text of blkparse: from their issue (D) to their completion (C).

use std::collections::BTreeMap;

use super::lines::{Found, OTHER, each, sectors};
use super::report::Report;
use crate::model::target::{
    HostClock, HostCommand, HostController, HostPoint, HostTimes, TargetKind,
};
use crate::target::{Flying, Imported};

/// What a text of blkparse lacks.
const LACKS: [&str; 3] = [
    "NVMe fields: no queue, no command id, no status",
    "all but the time from issue (D) to completion (C), which is driver and device: `backend`",
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

/// Reads a text.
pub fn import(text: &str) -> (Imported, Report) {
    let mut all = Flying::of(TargetKind::Block, "blkparse", HostClock::Other, 1);
    let mut devices: BTreeMap<&str, u32> = BTreeMap::new();
    let unread = each(text, |_, found| {
        let Found::Event(event) = found else { return Err(OTHER) };
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
                all.done.ledger.other += 1;
                return Ok(());
            }
            all.done.ledger.not_read += 1;
            return Err("a request without sectors".into());
        };
        let key = (ctrl, range);
        match event.name {
            "D" => {
                let known = known.filter(|(_, count)| *count > 0);
                let request = HostCommand {
                    ctrl,
                    code: code(rwbs),
                    slba: known.map(|(first, _)| first),
                    nlb: known.map(|(_, count)| count),
                    times: HostTimes::default().with(HostPoint::BackendSubmit, event.at_ns),
                    ..HostCommand::default()
                };
                all.begin(key, request);
            }
            "C" => all.end(&key, |request| request.times.set(HostPoint::BackendDone, event.at_ns)),
            // requeued requests are issued again; queued, merged, allocated, plugged: before the issue
            action => {
                if action == "R" {
                    all.open.remove(&key);
                }
                all.done.ledger.other += 1;
            }
        }
        Ok(())
    });
    let controllers = devices.into_iter().map(|(name, number)| HostController {
        number,
        ..HostController::named(name.replace(',', ":"))
    });
    let mut imported = all.finished();
    imported.controllers = controllers.collect();
    imported.controllers.sort_by_key(|c| c.number);
    let lacks = LACKS.map(str::to_owned).to_vec();
    let report = Report { format: "blkparse", lacks, unread, ..Report::of_target(&imported) };
    (imported, report)
}
