// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reading the events of a session: when, and which of them are complete.

use std::time::Duration;

use anyhow::Result;
use nvme_deep::machine::clock::monotonic_ns;
use nvme_deep::source::EventStream;
use nvme_deep::source::REORDER_NS;
use nvme_deep::source::Read;

/// Interval between drains of the ring. At a million commands per second, about 4 MB of events
/// arrive in this time. A smaller ring is drained more often.
const DRAIN: Duration = Duration::from_millis(20);
const ROOM_FOR_DRAIN: u32 = 4 << 20;
const SHORTEST_DRAIN: Duration = Duration::from_millis(1);

/// Time between two drains of a ring of this size.
pub fn drain_pause(ring_bytes: u32) -> Duration {
    let share = f64::from(ring_bytes) / f64::from(ROOM_FOR_DRAIN);
    DRAIN.mul_f64(share.min(1.0)).max(SHORTEST_DRAIN)
}

/// Passes on the new events except the latest, because earlier ones may still arrive. Returns true if
/// there may be more.
///
/// # Errors
/// If the events cannot be read.
pub fn drain_ready(events: &mut dyn EventStream, to: &mut dyn FnMut(Read<'_>)) -> Result<bool> {
    let until_ns = monotonic_ns().saturating_sub(REORDER_NS);
    let more = events.fetch()?;
    events.release(until_ns, to);
    Ok(more)
}

/// Passes on all events that are left, after the end of a run.
///
/// # Errors
/// If the events cannot be read.
pub fn drain_all(events: &mut dyn EventStream, to: &mut dyn FnMut(Read<'_>)) -> Result<()> {
    while events.fetch()? {}
    events.release(u64::MAX, to);
    Ok(())
}
