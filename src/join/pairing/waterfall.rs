// SPDX-License-Identifier: MIT OR Apache-2.0
//! The parts of one command's time on both sides.

use super::{Guest, Offset};
use crate::model::stage::{Stage, StageSet};
use crate::model::target::{Part, Served};

/// A part, merged with stages of the target whose points were not observed, before or after it.
fn merged(before: &[Stage], name: &str, after: &[Stage]) -> String {
    let names = |stages: &[Stage]| stages.iter().map(|stage| stage.name).collect::<Vec<_>>();
    [names(before), vec![name], names(after)].concat().join("+")
}

/// The parts of a command's time, in the order of its life. They add up to the time between the
/// guest's first and last point. Without a point before the issue there is no `guest_submit`.
pub fn waterfall(guest: &Guest, host: &Served, offset: &Offset) -> Vec<Part> {
    let ns = |from: u64, to: u64| to.cast_signed() - from.cast_signed();
    let by_clock = |name, ns| Part { by_clock: true, ..Part::new(name, ns) };
    let mut parts = Vec::new();
    if guest.has_begin {
        parts.push(Part::new("guest_submit", ns(guest.begin_ns, guest.issue_ns)));
    }
    let stages = StageSet::Host.stages();
    let seen = |stage: &Stage| host.times.at(stage.from).is_some();
    let is_posted = host.times.at(StageSet::Host.last_point()).is_some();
    let first = stages.iter().position(seen).unwrap_or(stages.len());
    let last = stages.iter().rposition(seen).filter(|_| !is_posted).unwrap_or(stages.len());
    let to_host = ns(guest.issue_ns, host.first_ns) - offset.at(guest.issue_ns.cast_signed());
    parts.push(by_clock(merged(&[], "to_host", &stages[..first]), to_host));
    parts.extend(Part::of(&host.times).unwrap_or_default());
    let to_guest = ns(guest.issue_ns, guest.end_ns) - ns(host.first_ns, host.last_ns) - to_host;
    let complete = ns(guest.end_ns, guest.last_ns);
    let name = merged(&stages[last..], "to_guest", &[]);
    if guest.has_cqe {
        parts.push(by_clock(name, to_guest));
        parts.push(Part::new("guest_complete", complete));
    } else {
        parts.push(by_clock(name + "+guest_complete", to_guest + complete));
    }
    parts
}
