// SPDX-License-Identifier: MIT OR Apache-2.0
//! The parts of one command's time on both sides.

use super::{Guest, Offset, Served};
use crate::model::host::{HostPoint, stages_between};

/// A part of a command's time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Segment {
    /// Name, or names of merged parts: `to_host`, `backend+host_complete`.
    pub name: String,
    /// Duration in nanoseconds. Negative only where the clock contradicts the pair.
    pub ns: i64,
    /// Whether the clock's error applies: it adds to one direction what it takes from the other.
    pub by_clock: bool,
}

fn part(name: impl Into<String>, ns: i64, by_clock: bool) -> Segment {
    let name = name.into();
    Segment { name, ns, by_clock }
}

fn join(names: [&str; 3]) -> String {
    let there = names.into_iter().filter(|name| !name.is_empty());
    there.collect::<Vec<_>>().join("+")
}

/// The parts of a command's time, in the order of its life. They add up to the time between the
/// guest's first and last point. Without a point before the issue there is no `guest_submit`. Without
/// an offset the two directions are one part, `transit`.
pub fn waterfall(guest: &Guest, host: &Served, offset: Option<&Offset>) -> Vec<Segment> {
    let ns = |from: u64, to: u64| to.cast_signed() - from.cast_signed();
    let mut parts = Vec::new();
    if guest.has_begin {
        let submit = ns(guest.begin_ns, guest.issue_ns);
        parts.push(part("guest_submit", submit, false));
    }
    let stages = host.times.stages().unwrap_or_else(|| {
        // out of order: the time as a whole is known
        vec![]
    });
    let inside: i64 = stages.iter().map(|s| s.ns.cast_signed()).sum();
    let mut points = host.times.seen().map(|(point, _)| point);
    let first = points.next().unwrap_or(HostPoint::Fetch);
    let last = points.last().unwrap_or(first).min(HostPoint::Post);
    let before = stages_between(HostPoint::Fetch, first);
    let after = stages_between(last, HostPoint::Post);
    let complete = if guest.has_cqe { "" } else { "guest_complete" };
    let transit = ns(guest.issue_ns, guest.end_ns) - inside;
    let stages = stages.into_iter().map(|s| part(s.name, s.ns.cast_signed(), false));
    match offset {
        Some(offset) if inside == ns(host.first_ns, host.last_ns) => {
            let at = offset.at(guest.issue_ns.cast_signed());
            let to_host = ns(guest.issue_ns, host.first_ns) - at;
            parts.push(part(join(["to_host", &before, ""]), to_host, true));
            parts.extend(stages);
            let name = join([&after, "to_guest", complete]);
            parts.push(part(name, transit - to_host, true));
        }
        _ => {
            parts.extend(stages);
            let name = join([&before, &after, "transit"]);
            parts.push(part(join([&name, complete, ""]), transit, false));
        }
    }
    if guest.has_cqe {
        parts.push(part("guest_complete", ns(guest.end_ns, guest.last_ns), false));
    } else if let Some(last) = parts.last_mut() {
        last.ns += ns(guest.end_ns, guest.last_ns);
    }
    parts
}
