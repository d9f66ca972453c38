// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the BPF side knows of each queue (bpf/include/details.bpf.h).

use std::collections::BTreeMap;

use libbpf_rs::MapCore;
use libbpf_rs::MapFlags;

use super::Session;
use super::layout::MIN_STRIDE;
use crate::abi::DecodeError;
use crate::abi::SlotState;
use crate::abi::slot_state;
use crate::error::Mismatch;
use crate::error::Operation;
use crate::error::Result;
use crate::model::ids::QueueId;

/// A number in native byte order.
fn number(bytes: Vec<u8>, what: &'static str) -> Result<u32> {
    let number = bytes.try_into().ok().map(u32::from_ne_bytes);
    Ok(number.ok_or(Mismatch::WrongSize(what))?)
}

impl Session {
    /// The queue of a slot, if a controller has it.
    fn queue_of(&self, slot: u32) -> Option<QueueId> {
        let placed = self.placed.iter().map(|(ctrl, (place, _))| (ctrl, place));
        let former = self.former.iter().map(|(ctrl, place)| (ctrl, place));
        let (ctrl, place) = placed.chain(former).find(|(_, p)| p.contains(slot))?;
        let qid = u16::try_from((slot - place.base) / place.size.stride).ok()?;
        Some(QueueId::new(*ctrl, qid))
    }

    /// Commands in flight, by queue. Queues without one are omitted. While the programs are attached,
    /// the slots are read one after the other.
    ///
    /// # Errors
    /// If the map cannot be read.
    pub fn in_flight_by_queue(&self) -> Result<BTreeMap<QueueId, u64>> {
        let mut all = BTreeMap::new();
        let slots = &self.maps.slots;
        for (key, value) in slots.lookup_batch(1024, MapFlags::ANY, MapFlags::ANY)? {
            let state = slot_state(&value).map_err(|DecodeError| Mismatch::WrongSize("a slot"))?;
            if state != SlotState::InFlight {
                continue;
            }
            if let Some(queue) = self.queue_of(number(key, "a slot's number")?) {
                *all.entry(queue).or_default() += 1;
            }
        }
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
            let count = count.ok_or(Mismatch::WrongSize("a queue's count"))?;
            let slot = number(key, "a queue's number")? * MIN_STRIDE;
            if count > 0
                && let Some(queue) = self.queue_of(slot)
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
        bar.map_err(Operation::SetBar.failed())
    }
}
