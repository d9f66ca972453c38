// SPDX-License-Identifier: MIT OR Apache-2.0
//! The state of a queue of the PCI driver (`struct nvme_queue`) at one moment.

use std::collections::{BTreeMap, BTreeSet};

use super::walk::CommandReading;
use crate::machine::inflight::walk::Reader;

/// Bits of `nvme_queue.flags` (drivers/nvme/host/pci.c).
const SQ_IN_CMB: u32 = 1 << 1;
const POLLED: u32 = 1 << 3;

/// Size of an entry of a CQ in bytes (NVMe base 2.1, section 4.2).
const CQE_BYTES: usize = 16;

/// A queue at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct QueueReading {
    /// Address of the SQ; 0 if it is in a controller memory buffer, which is not read.
    pub sq: u64,
    /// Address of the CQ.
    pub cq: u64,
    /// Entries of each.
    pub depth: u16,
    /// Where the driver puts the next SQE.
    pub sq_tail: u16,
    /// The tail that was last written to the doorbell.
    pub rung_tail: u16,
    /// Where the driver expects the next CQE.
    pub cq_head: u16,
    /// The driver polls for completions: there is no interrupt.
    pub polled: bool,
    /// If it has shadow doorbells (NVMe base 2.1, Doorbell Buffer Config): the tail up to which the
    /// controller wants no notification.
    pub event_index: Option<u32>,
    /// The same for the CQ: the head below which it wants no doorbell. QEMU writes the head that it knows.
    pub cq_event_index: Option<u32>,
    /// More commands are in flight than fit in the SQ: its tail has met its head, as if it were empty.
    pub is_overfull: bool,
    /// Command ids of the CQEs that the driver has not handled.
    pub waiting: Vec<u16>,
    /// The SQ head of the latest CQE. Linux ignores it, so a wrong one does no harm elsewhere.
    pub sq_head: Option<u16>,
    /// The CQEs report more than one SQ head.
    pub head_moves: bool,
    /// A CQE reports an SQ head that has not passed the SQE of a command that has completed.
    pub head_is_wrong: bool,
    /// Command ids by slot of the SQ; empty if it was not read.
    pub cids: Vec<u16>,
}

/// What is used of a CQE.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Posted {
    pub(super) cid: u16,
    pub(super) sq_head: u16,
}

/// A word of an entry, little endian.
fn word(entry: &[u8], at: usize) -> u16 {
    entry.get(at..at + 2).and_then(|w| w.try_into().ok()).map_or(0, u16::from_le_bytes)
}

impl QueueReading {
    /// Reads a queue, and the entries of its SQ: 64 bytes of each, none if they cannot be read. `None`
    /// if the queue goes away. `commands`: those in flight, read before.
    pub(super) fn read(
        reader: &mut Reader<'_>,
        at: u64,
        commands: &[CommandReading],
    ) -> Option<(Self, Vec<[u8; 64]>)> {
        // The order matters, because the queue is in use: first how far the controller has come, then
        // what the driver has put there. So the tail is never behind the SQ head.
        let queue = reader.image("nvme_queue", at)?;
        let depth = u16::try_from(queue.u32("q_depth")? & 0xffff).ok()?;
        let flags = queue.u32("flags")?;
        let mut reading = Self {
            sq: queue.u64("sq_cmds")?,
            cq: queue.u64("cqes")?,
            depth,
            cq_head: queue.u16("cq_head")?,
            polled: flags & POLLED != 0,
            is_overfull: commands.iter().filter(|c| !c.completed).count() >= usize::from(depth),
            ..Self::default()
        };
        // some controllers have SQEs of more than 64 bytes
        let entry_bytes = 1 << queue.u8("sqes").unwrap_or(6).min(12);
        if depth < 2 || reading.cq_head >= depth || entry_bytes < 64 {
            return None;
        }
        if flags & SQ_IN_CMB != 0 {
            reading.sq = 0;
        }
        let mut index = |member| match queue.u64(member)? {
            0 => Some(None),
            at => Some(Some(u32::from_le_bytes(reader.bytes(at, 4)?.try_into().ok()?))),
        };
        reading.event_index = index("dbbuf_sq_ei")?;
        // the files of btf/ do not have it
        reading.cq_event_index = index("dbbuf_cq_ei").flatten();
        let cqes = reader.bytes(reading.cq, usize::from(depth) * CQE_BYTES)?;
        let posted = reading.take_cqes(&cqes, queue.u8("cq_phase")? & 1);
        let sq = reader.bytes(reading.sq, usize::from(depth) * entry_bytes);
        let sq = sq.unwrap_or_default();
        let entries = sq.chunks_exact(entry_bytes);
        let entries: Vec<[u8; 64]> =
            entries.filter_map(|entry| entry.first_chunk().copied()).collect();
        reading.cids = entries.iter().map(|e| word(&e[..], 2)).collect();
        let queue = reader.image("nvme_queue", at)?;
        reading.sq_tail = queue.u16("sq_tail")?;
        reading.rung_tail = queue.u16("last_sq_tail")?;
        if reading.sq_tail >= depth || reading.rung_tail >= depth {
            return None;
        }
        reading.check_heads(&posted, commands);
        Some((reading, entries))
    }

    /// The end of the CQEs that the controller has posted.
    pub(super) fn cq_end(&self) -> usize {
        (usize::from(self.cq_head) + self.waiting.len()) % usize::from(self.depth.max(1))
    }

    /// Whether the controller believes that the CQ is full although the driver has handled all of it: the last
    /// head that it noticed is just behind the slot of its next CQE.
    pub(super) fn seems_full(&self) -> bool {
        let next = (self.cq_end() + 1) % usize::from(self.depth.max(1));
        // a controller that never writes the index leaves 0; in a tiny CQ the index is always near
        let known = self.cq_event_index.filter(|known| *known > 0 && self.depth > 4);
        self.waiting.is_empty() && known.is_some_and(|known| known as usize == next)
    }

    /// Whether the SQ was read.
    pub(super) const fn has_sq(&self) -> bool {
        !self.cids.is_empty()
    }

    /// Remembers the entries of the CQ and returns them, latest first. `phase`: the phase bit of new
    /// entries at the head.
    fn take_cqes(&mut self, cqes: &[u8], phase: u8) -> Vec<Posted> {
        let entries = cqes.as_chunks::<CQE_BYTES>().0;
        let head = usize::from(self.cq_head);
        let expected = u16::from(phase);
        let ahead = entries.iter().skip(head).map(|e| (e, expected));
        let wrapped = entries.iter().take(head).map(|e| (e, expected ^ 1));
        let in_order: Vec<_> = ahead.chain(wrapped).collect();
        let new = |(entry, phase): &(&[u8; CQE_BYTES], u16)| word(&entry[..], 14) & 1 == *phase;
        let count = in_order.iter().take_while(|e| new(e)).count();
        let (waiting, handled) = in_order.split_at(count);
        self.waiting = waiting.iter().map(|(e, _)| word(&e[..], 12)).collect();
        // an entry that was never used is zero
        let latest_first = waiting.iter().rev().chain(handled.iter().rev());
        let posted: Vec<_> = latest_first
            .take_while(|(e, _)| e.iter().any(|b| *b != 0))
            .map(|(e, _)| Posted { cid: word(&e[..], 12), sq_head: word(&e[..], 8) })
            .collect();
        self.sq_head = posted.first().map(|cqe| cqe.sq_head);
        posted
    }

    /// Compares the SQ heads of all CQEs with each other, and with the SQEs of their commands.
    pub(super) fn check_heads(&mut self, posted: &[Posted], commands: &[CommandReading]) {
        self.head_moves = posted.iter().any(|cqe| Some(cqe.sq_head) != self.sq_head);
        let Some(latest) = self.sq_head else {
            return;
        };
        let mut distances = BTreeMap::new();
        for back in 1..self.depth {
            if let Some(cid) = self.cids.get(usize::from(self.slot_before_tail(back))) {
                distances.entry(*cid).or_insert(back);
            }
        }
        // a command in flight may have the id of one that has completed
        let by_tag: BTreeMap<_, _> = commands.iter().map(|c| (c.tag, c)).collect();
        let in_flight = |cid: u16| {
            let command = by_tag.get(&u32::from(cid & 0xfff));
            command.is_some_and(|c| !c.completed && c.has(cid))
        };
        let mut later = BTreeSet::new();
        self.head_is_wrong = posted
            .iter()
            .filter(|cqe| later.insert(cqe.cid) && !in_flight(cqe.cid))
            .filter_map(|cqe| Some((cqe.sq_head, *distances.get(&cqe.cid)?)))
            .any(|(head, distance)| {
                [head, latest].iter().any(|head| self.before_tail(*head) >= distance)
            });
    }

    /// Entries from a position of the SQ to its tail.
    pub(super) fn before_tail(&self, position: u16) -> u16 {
        let (tail, depth) = (u32::from(self.sq_tail), u32::from(self.depth));
        let distance = (tail + depth - u32::from(position) % depth) % depth;
        u16::try_from(distance).unwrap_or(0)
    }

    /// The slot of the SQ that is so many entries before its tail.
    fn slot_before_tail(&self, back: u16) -> u16 {
        let (tail, depth) = (u32::from(self.sq_tail), u32::from(self.depth));
        u16::try_from((tail + depth - u32::from(back)) % depth).unwrap_or(0)
    }

    /// The slot of the SQ that was last written with a command id for which `is` holds.
    pub(super) fn slot_of(&self, is: impl Fn(u16) -> bool) -> Option<u16> {
        (1..self.depth)
            .map(|back| self.slot_before_tail(back))
            .find(|slot| self.cids.get(usize::from(*slot)).is_some_and(|c| is(*c)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cqe(sq_head: u16, cid: u16, phase: u16) -> [u8; 16] {
        let mut entry = [0; 16];
        entry[8..10].copy_from_slice(&sq_head.to_le_bytes());
        entry[12..14].copy_from_slice(&cid.to_le_bytes());
        entry[14..].copy_from_slice(&phase.to_le_bytes());
        entry
    }

    #[test]
    fn entries_with_the_phase_at_the_head_wait() {
        let never = [[0; 16]; 3];
        let one = [cqe(5, 7, 1), [0; 16], [0; 16]];
        // the second lap has begun: the phase is inverted behind the end
        let lap = [cqe(9, 3, 0), cqe(6, 1, 1), cqe(8, 2, 1)];
        for (head, phase, entries, waiting, sq_head) in [
            (0, 1, never, &[][..], None),
            (0, 1, one, &[7], Some(5)),
            (1, 1, one, &[], Some(5)), // handled
            (2, 1, lap, &[2, 3], Some(9)),
            (0, 0, lap, &[3], Some(9)),
            (1, 0, lap, &[], Some(9)),
        ] {
            let mut queue = QueueReading { cq_head: head, ..QueueReading::default() };
            queue.take_cqes(entries.as_flattened(), phase);
            assert_eq!((&*queue.waiting, queue.sq_head), (waiting, sq_head), "{head} {phase}");
        }
    }

    #[test]
    fn posted_cqes_are_in_order_latest_first() {
        let lap = [cqe(9, 3, 0), cqe(6, 1, 1), cqe(8, 2, 1)];
        let mut queue = QueueReading { cq_head: 2, ..QueueReading::default() };
        let posted = queue.take_cqes(lap.as_flattened(), 1);
        let cids: Vec<_> = posted.iter().map(|p| (p.cid, p.sq_head)).collect();
        assert_eq!(cids, [(3, 9), (2, 8), (1, 6)]);
        let never = [cqe(1, 1, 1), [0; 16], [0; 16]];
        queue.cq_head = 1;
        assert_eq!(queue.take_cqes(never.as_flattened(), 1).len(), 1);
    }

    /// Commands 0 to 4 in the slots 0 to 4 of 8, and the SQ heads of the CQEs of the first, latest
    /// first; returns whether the heads move, and whether one is wrong.
    fn checked(posted: &[(u16, u16)], in_flight: &[u16]) -> (bool, bool) {
        let posted: Vec<_> = posted.iter().map(|&(cid, sq_head)| Posted { cid, sq_head }).collect();
        let command = |&cid: &u16| CommandReading { tag: cid.into(), ..CommandReading::default() };
        let commands: Vec<_> = in_flight.iter().map(command).collect();
        let mut queue = QueueReading {
            depth: 8,
            sq_tail: 5,
            cids: vec![0, 1, 2, 3, 4, 0xffff, 0xffff, 0xffff],
            sq_head: posted.first().map(|p| p.sq_head),
            ..QueueReading::default()
        };
        queue.check_heads(&posted, &commands);
        (queue.head_moves, queue.head_is_wrong)
    }

    #[test]
    fn a_head_must_move_and_pass_what_has_completed() {
        for (posted, in_flight, want) in [
            (&[][..], &[][..], (false, false)),
            (&[(0, 2)], &[], (false, false)),
            (&[(2, 4), (1, 2), (0, 1)], &[], (true, false)),
            // out of order, all fetched at once
            (&[(0, 5), (4, 5), (1, 2)], &[], (true, false)),
            // constant, also where it could have passed the commands
            (&[(1, 0), (0, 0)], &[], (false, true)),
            (&[(1, 5), (0, 5)], &[], (false, false)),
            // late: command 3 has completed, and the head is at its slot
            (&[(3, 3), (2, 3), (1, 2)], &[], (true, true)),
            // late in an older CQE, or in the latest one
            (&[(4, 5), (3, 3)], &[], (true, true)),
            (&[(0, 2), (4, 5)], &[], (true, true)),
            // an older command had the id of one in flight
            (&[(1, 3), (3, 1)], &[3], (true, false)),
            (&[(1, 3), (3, 1)], &[], (true, true)),
            // the SQE is not there any more
            (&[(1, 3), (9, 1)], &[], (true, false)),
        ] {
            assert_eq!(checked(posted, in_flight), want, "{posted:?} {in_flight:?}");
        }
    }

    #[test]
    fn the_latest_slot_of_a_command_id_counts() {
        let queue = QueueReading {
            depth: 8,
            sq_tail: 2,
            cids: vec![5, 6, 7, 5, 0, 0, 0, 6],
            ..QueueReading::default()
        };
        let of = |cid| queue.slot_of(|c| c == cid);
        assert_eq!([of(6), of(5), of(7), of(1)], [Some(1), Some(0), None, None]);
        assert_eq!(queue.before_tail(7), 3);
        assert_eq!(queue.before_tail(2), 0);
    }
}
