// SPDX-License-Identifier: MIT OR Apache-2.0
//! The parts of one command's time on both sides.

use super::{Guest, Offset, Served};
use crate::model::target::{HostPoint, Part, stages_between};

fn join(names: [&str; 3]) -> String {
    let there = names.into_iter().filter(|name| !name.is_empty());
    there.collect::<Vec<_>>().join("+")
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
    let mut points = host.command.times.seen().map(|(point, _)| point);
    let first = points.next().unwrap_or(HostPoint::Fetch);
    let last = points.last().unwrap_or(first).min(HostPoint::Post);
    let before = stages_between(HostPoint::Fetch, first);
    let after = stages_between(last, HostPoint::Post);
    let to_host = ns(guest.issue_ns, host.first_ns) - offset.at(guest.issue_ns.cast_signed());
    parts.push(by_clock(join(["to_host", &before, ""]), to_host));
    parts.extend(host.command.times.stages().unwrap_or_default());
    let to_guest = ns(guest.issue_ns, guest.end_ns) - ns(host.first_ns, host.last_ns) - to_host;
    let complete = ns(guest.end_ns, guest.last_ns);
    if guest.has_cqe {
        parts.push(by_clock(join([&after, "to_guest", ""]), to_guest));
        parts.push(Part::new("guest_complete", complete));
    } else {
        let name = join([&after, "to_guest", "guest_complete"]);
        parts.push(by_clock(name, to_guest + complete));
    }
    parts
}
