// SPDX-License-Identifier: MIT OR Apache-2.0
//! What came before the request, in the records of finished commands: points and bios. Few runs have it.

use super::events::part;
use super::records::EARLY_TIMES;
use super::times::EARLY;
use crate::model::bios::Bios;
use crate::model::event::{Event, EventKind};
use crate::model::point::{Pattern, Point};

/// `nd_early_times`: the times of [`BEFORE`], and the bios.
pub(super) type EarlyTimes = [u64; EARLY_TIMES];
/// The place of the bios.
const BIOS: usize = EARLY_TIMES - 1;

/// The points before the request, in the order of their times, and of their bits in `enum nd_wait_point`.
const BEFORE: [Point; BIOS] =
    [Point::Bio, Point::Submit, Point::Freeze, Point::Iocost, Point::Wbt, Point::Tag, Point::Zone];

/// The bits of `enum nd_wait_point` for the points of a pattern that are before the request.
#[cfg(feature = "live")]
pub const fn wait_bits(pattern: Pattern) -> u16 {
    let (mut bits, mut n) = (0, 0);
    while n < BEFORE.len() {
        if BEFORE[n].seen_in(pattern) {
            bits |= 1 << n;
        }
        n += 1;
    }
    bits
}

/// Adds the points before the request and the bios, if the record has them.
#[cold]
#[inline(never)]
pub(super) fn add_early(event: &mut Event, times: &[u8], before: Pattern) {
    let Ok(times) = part::<EarlyTimes>(times, EARLY) else {
        return;
    };
    let line = match &mut event.what {
        EventKind::Command(_, _, end) | EventKind::Complete(_, end) => {
            end.bios = Bios::of_word(times[BIOS]);
            end.timeline.as_mut()
        }
        EventKind::Missed { timeline, .. } => timeline.as_mut(),
        _ => None,
    };
    if let Some(line) = line {
        *line = line.with_pattern(line.pattern() | before);
        for (point, ns) in BEFORE.into_iter().zip(times) {
            line.set(point, ns);
        }
    }
}
