// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the BPF side knows of each queue (bpf/include/points.bpf.h).

use std::collections::BTreeMap;

use libbpf_rs::{MapCore, MapFlags};

use super::Session;
use super::layout::{MIN_STRIDE, SlotRange};
use super::mapping::Values;
use crate::abi::{DecodeError, SLOT_STATE, SlotState, slot_is_idle, slot_state};
use crate::error::failed;
use crate::model::ids::QueueId;
use anyhow::{Context, Result, anyhow};

/// A number in native byte order.
fn number(bytes: Vec<u8>, what: &'static str) -> Result<u32> {
    let number = bytes.try_into().ok().map(u32::from_ne_bytes);
    number.with_context(|| format!("{what} of the wrong size"))
}

impl Session {
    /// The queue that a controller has at a place.
    fn queue_at(&self, qid_at: impl Fn(&SlotRange) -> Option<u32>) -> Option<QueueId> {
        let placed = self.placed.iter().map(|(ctrl, (place, _))| (ctrl, place));
        let former = self.former.iter().map(|(ctrl, place)| (ctrl, place));
        placed
            .chain(former)
            .find_map(|(ctrl, place)| Some(QueueId::new(*ctrl, qid_at(place)?.try_into().ok()?)))
    }

    /// Calls `take` with each slot whose command has not ended: its number, its state, and its value.
    /// While the programs are attached, the slots are read one after the other.
    ///
    /// # Errors
    /// If the map cannot be read, or `take` returns an error.
    pub(super) fn each_held(
        &self,
        mut take: impl FnMut(u32, SlotState, &[u8]) -> Result<(), DecodeError>,
    ) -> Result<()> {
        let slots = Values::of(&self.maps.slots)?;
        let mut value = Vec::new();
        for (number, at) in (0_u32..).zip(0..slots.len()) {
            if slot_is_idle(slots.word(at, SLOT_STATE)) {
                continue;
            }
            slots.copy(at, &mut value);
            let wrong = |DecodeError| anyhow!("a slot of the wrong size");
            let state = slot_state(&value).map_err(wrong)?;
            // it may have ended meanwhile
            if state != SlotState::Idle {
                take(number, state, &value).map_err(wrong)?;
            }
        }
        Ok(())
    }

    /// Commands in flight, by queue. Queues without one are omitted. While the programs are attached,
    /// the slots are read one after the other.
    ///
    /// # Errors
    /// If the map cannot be read.
    pub fn in_flight_by_queue(&self) -> Result<BTreeMap<QueueId, u64>> {
        let mut all = BTreeMap::new();
        self.each_held(|slot, state, _| {
            let queue = self.queue_at(|place| place.queue_of_slot(slot));
            if state == SlotState::InFlight
                && let Some(queue) = queue
            {
                *all.entry(queue).or_default() += 1;
            }
            Ok(())
        })?;
        Ok(all)
    }

    /// Commands in flight, by controller instance, for each controller that has slots.
    ///
    /// # Errors
    /// If the map cannot be read.
    pub fn in_flight(&self) -> Result<BTreeMap<u32, u64>> {
        let mut all: BTreeMap<u32, u64> = self.placed.keys().map(|ctrl| (*ctrl, 0)).collect();
        for (QueueId { ctrl, .. }, commands) in self.in_flight_by_queue()? {
            *all.entry(ctrl).or_default() += commands;
        }
        Ok(all)
    }

    /// Commands that were completed on each queue, since the start. Queues without one are omitted.
    /// `None` if the run does not count them.
    ///
    /// # Errors
    /// If the map cannot be read.
    pub fn queue_counts(&self) -> Result<Option<BTreeMap<QueueId, u64>>> {
        let Some(map) = &self.maps.queue_counts else {
            return Ok(None);
        };
        let mut all: BTreeMap<QueueId, u64> = BTreeMap::new();
        for (key, value) in map.lookup_batch(1024, MapFlags::ANY, MapFlags::ANY)? {
            let count = value.try_into().ok().map(u64::from_ne_bytes);
            let count = count.context("a queue's count of the wrong size")?;
            let at = number(key, "a queue's number")?;
            if count > 0
                && let Some(queue) = self.queue_at(|place| place.queue_of_slot(at * MIN_STRIDE))
            {
                *all.entry(queue).or_default() += count;
            }
        }
        Ok(Some(all))
    }

    /// Sets the latency in nanoseconds above which a command becomes an event. Each event raises it.
    ///
    /// # Errors
    /// If the map cannot be written.
    pub fn set_slow_bar(&self, ns: u64) -> Result<()> {
        let map = self.loaded.map("slow_bar")?;
        let bar = map.update(&0_u32.to_ne_bytes(), &ns.to_ne_bytes(), MapFlags::ANY);
        bar.map_err(failed("set the latency above which commands are events"))
    }
}
