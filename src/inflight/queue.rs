// SPDX-License-Identifier: MIT OR Apache-2.0
//! The state of a queue of the PCI driver (`struct nvme_queue`) at one moment.

use super::memory::Reader;

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
    /// Command ids of the CQEs that the driver has not handled.
    pub waiting: Vec<u16>,
    /// The SQ head of the latest CQE.
    pub sq_head: Option<u16>,
    /// Command ids by slot of the SQ; empty if it was not read.
    pub cids: Vec<u16>,
}

/// A word of an entry, little endian.
fn word(entry: &[u8], at: usize) -> u16 {
    entry
        .get(at..at + 2)
        .and_then(|w| w.try_into().ok())
        .map_or(0, u16::from_le_bytes)
}

impl QueueReading {
    /// Reads a queue, and the entries of its SQ: 64 bytes of each, none if they cannot be read. `None`
    /// if the queue goes away.
    pub(super) fn read(reader: &mut Reader<'_>, at: u64) -> Option<(Self, Vec<[u8; 64]>)> {
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
        let event_index = queue.u64("dbbuf_sq_ei")?;
        if event_index != 0 {
            let bytes = reader.bytes(event_index, 4)?;
            reading.event_index = Some(u32::from_le_bytes(bytes.try_into().ok()?));
        }
        let cqes = reader.bytes(reading.cq, usize::from(depth) * CQE_BYTES)?;
        reading.take_cqes(&cqes, queue.u8("cq_phase")? & 1);
        let sq = reader.bytes(reading.sq, usize::from(depth) * entry_bytes);
        let sq = sq.unwrap_or_default();
        let entries = sq.chunks_exact(entry_bytes);
        let entries: Vec<[u8; 64]> = entries
            .filter_map(|entry| entry.first_chunk().copied())
            .collect();
        reading.cids = entries.iter().map(|e| word(&e[..], 2)).collect();
        let queue = reader.image("nvme_queue", at)?;
        reading.sq_tail = queue.u16("sq_tail")?;
        reading.rung_tail = queue.u16("last_sq_tail")?;
        let is_sane = reading.sq_tail < depth && reading.rung_tail < depth;
        is_sane.then_some((reading, entries))
    }

    /// The end of the CQEs that the controller has posted.
    pub(super) fn cq_end(&self) -> usize {
        (usize::from(self.cq_head) + self.waiting.len()) % usize::from(self.depth.max(1))
    }

    /// Whether the SQ was read.
    pub(super) const fn has_sq(&self) -> bool {
        !self.cids.is_empty()
    }

    /// Takes in the entries of the CQ. `phase`: of new entries at the head.
    fn take_cqes(&mut self, cqes: &[u8], phase: u8) {
        let entries = cqes.as_chunks::<CQE_BYTES>().0;
        let head = usize::from(self.cq_head);
        let expected = u16::from(phase);
        let ahead = entries.iter().skip(head).map(|e| (e, expected));
        let wrapped = entries.iter().take(head).map(|e| (e, expected ^ 1));
        let new = |(entry, phase): &(&[u8; CQE_BYTES], u16)| word(&entry[..], 14) & 1 == *phase;
        let waiting: Vec<_> = ahead
            .chain(wrapped)
            .take_while(new)
            .map(|(e, _)| e)
            .collect();
        self.waiting = waiting.iter().map(|e| word(&e[..], 12)).collect();
        let handled = head.checked_sub(1).unwrap_or(entries.len() - 1);
        let latest = waiting.last().copied().or_else(|| entries.get(handled));
        // an entry of a CQ that was never used is zero
        self.sq_head = latest
            .filter(|e| e.iter().any(|b| *b != 0))
            .map(|e| word(&e[..], 8));
    }

    /// Entries from a position of the SQ to its tail.
    pub(super) fn before_tail(&self, position: u16) -> u16 {
        let (tail, depth) = (u32::from(self.sq_tail), u32::from(self.depth));
        let distance = (tail + depth - u32::from(position) % depth) % depth;
        u16::try_from(distance).unwrap_or(0)
    }

    /// The slot of the SQ that was last written with a command id for which `is` holds.
    pub(super) fn slot_of(&self, is: impl Fn(u16) -> bool) -> Option<u16> {
        (1..self.depth)
            .map(|back| {
                let (tail, depth) = (u32::from(self.sq_tail), u32::from(self.depth));
                u16::try_from((tail + depth - u32::from(back)) % depth).unwrap_or(0)
            })
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

    fn taken(head: u16, phase: u8, entries: &[[u8; 16]]) -> (Vec<u16>, Option<u16>) {
        let mut queue = QueueReading {
            cq_head: head,
            ..QueueReading::default()
        };
        queue.take_cqes(entries.as_flattened(), phase);
        (queue.waiting, queue.sq_head)
    }

    #[test]
    fn entries_with_the_phase_at_the_head_wait() {
        let never = [[0; 16]; 3];
        assert_eq!(taken(0, 1, &never), (vec![], None));
        let one = [cqe(5, 7, 1), [0; 16], [0; 16]];
        assert_eq!(taken(0, 1, &one), (vec![7], Some(5)));
        assert_eq!(taken(1, 1, &one), (vec![], Some(5)), "handled");
        // the second lap has begun: the phase is inverted behind the end
        let lap = [cqe(9, 3, 0), cqe(6, 1, 1), cqe(8, 2, 1)];
        assert_eq!(taken(2, 1, &lap), (vec![2, 3], Some(9)));
        assert_eq!(taken(0, 0, &lap), (vec![3], Some(9)));
        assert_eq!(taken(1, 0, &lap), (vec![], Some(9)));
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
