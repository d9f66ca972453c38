// SPDX-License-Identifier: MIT OR Apache-2.0
//! What came before the request, in the records of finished commands: points and bios. Few runs have it.

use std::mem::offset_of;

use super::events::EARLY;
use super::events::Times;
use super::events::part;
use super::events::set_times;
use super::skel::types::nd_early_times;
use crate::model::bios::Bios;
use crate::model::event::Event;
use crate::model::event::EventKind;
use crate::model::transport::Wire;

/// `nd_early_times`: the times of points with the numbers after those, and the bios.
pub(super) type EarlyTimes = [u64; size_of::<nd_early_times>() / 8];
/// The place of the bios.
const BIOS: usize = offset_of!(nd_early_times, bios) / 8;

/// Adds the times of points before the request and the bios, if the record has them.
#[cold]
#[inline(never)]
pub(super) fn add_early(event: &mut Event, times: &[u8], wire: &Wire) {
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
        set_times(line, size_of::<Times>() / 8, &times[..BIOS], wire);
    }
}
