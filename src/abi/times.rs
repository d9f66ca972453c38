// SPDX-License-Identifier: MIT OR Apache-2.0
//! The times of points in the records of finished commands.

use std::mem::size_of;

use super::records::{RawEvent, TIMES};
use crate::model::point::{Pattern, Point};
use crate::model::timeline::Timeline;
use crate::model::transport::{USUAL, Wire};

/// The first times of `nd_times`, by their numbers: tests/parity compares the order.
pub(crate) type Times = [u64; USUAL.len()];
/// All times of `nd_times`.
pub(super) type AllTimes = [u64; TIMES];
/// Bytes of these times; those before the request follow.
pub(super) const EARLY: usize = size_of::<AllTimes>();

/// The time line of an event, whose times have the numbers of their bits in its pattern.
#[inline(always)]
pub(super) fn timeline(
    event: &RawEvent,
    setup_out_ns: u64,
    times: Option<&AllTimes>,
    wire: &Wire,
) -> Option<Timeline> {
    let (first, others) = times?.split_first_chunk()?;
    let pattern = wire.pattern(event.pattern);
    let mut line = match wire.is_usual() {
        // without a look-up of each point
        true => Timeline::usual(*first, setup_out_ns, event.ns, pattern),
        false => unusual(setup_out_ns, event.ns, pattern, first, wire),
    };
    set_times(&mut line, first.len(), others, wire);
    Some(line)
}

#[cold]
#[inline(never)]
fn unusual(
    setup_out_ns: u64,
    complete_ns: u64,
    pattern: Pattern,
    times: &Times,
    wire: &Wire,
) -> Timeline {
    let mut line = Timeline::new([], pattern);
    line.set(Point::SetupOut, setup_out_ns);
    line.set(Point::Complete, complete_ns);
    set_times(&mut line, 0, times, wire);
    line
}

/// Sets the times of the points with the numbers from `first` on.
#[inline(always)]
fn set_times(line: &mut Timeline, first: usize, times: &[u64], wire: &Wire) {
    for (n, ns) in times.iter().enumerate() {
        if let Some(point) = wire.point(first + n) {
            line.set(point, *ns);
        }
    }
}
