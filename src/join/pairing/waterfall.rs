// SPDX-License-Identifier: MIT OR Apache-2.0
//! The parts of one command's time on both sides.

use super::{Guest, Offset, Served};
use crate::model::target::{HostPoint, Part, stages_between};

fn by_clock(name: String, ns: i64) -> Part {
    Part { by_clock: true, ..Part::new(name, ns) }
}

fn join(names: [&str; 3]) -> String {
    let there = names.into_iter().filter(|name| !name.is_empty());
    there.collect::<Vec<_>>().join("+")
}

/// The parts of a command's time, in the order of its life. They add up to the time between the
/// guest's first and last point. Without a point before the issue there is no `guest_submit`. Without
/// an offset the two directions are one part, `transit`.
pub fn waterfall(guest: &Guest, host: &Served, offset: Option<&Offset>) -> Vec<Part> {
    let ns = |from: u64, to: u64| to.cast_signed() - from.cast_signed();
    let mut parts = Vec::new();
    if guest.has_begin {
        let submit = ns(guest.begin_ns, guest.issue_ns);
        parts.push(Part::new("guest_submit", submit));
    }
    // out of order: the time as a whole is known
    let stages = host.command.times.stages().unwrap_or_default();
    let inside: i64 = stages.iter().map(|s| s.ns).sum();
    let mut points = host.command.times.seen().map(|(point, _)| point);
    let first = points.next().unwrap_or(HostPoint::Fetch);
    let last = points.last().unwrap_or(first).min(HostPoint::Post);
    let before = stages_between(HostPoint::Fetch, first);
    let after = stages_between(last, HostPoint::Post);
    let complete = if guest.has_cqe { "" } else { "guest_complete" };
    let transit = ns(guest.issue_ns, guest.end_ns) - inside;
    match offset {
        Some(offset) if inside == ns(host.first_ns, host.last_ns) => {
            let at = offset.at(guest.issue_ns.cast_signed());
            let to_host = ns(guest.issue_ns, host.first_ns) - at;
            parts.push(by_clock(join(["to_host", &before, ""]), to_host));
            parts.extend(stages);
            let name = join([&after, "to_guest", complete]);
            parts.push(by_clock(name, transit - to_host));
        }
        _ => {
            parts.extend(stages);
            let name = join([&before, &after, "transit"]);
            parts.push(Part::new(join([&name, complete, ""]), transit));
        }
    }
    if guest.has_cqe {
        parts.push(Part::new("guest_complete", ns(guest.end_ns, guest.last_ns)));
    } else if let Some(last) = parts.last_mut() {
        last.ns += ns(guest.end_ns, guest.last_ns);
    }
    parts
}
