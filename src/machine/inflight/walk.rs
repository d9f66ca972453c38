// SPDX-License-Identifier: MIT OR Apache-2.0
//! From the list of NVMe subsystems to the requests of each queue.

use super::queue::QueueReading;
use super::types::Types;
use crate::machine::inflight::types::Ticks;
use crate::nvme::sqe::Sqe;
use std::time::Duration;

/// Bounds of lists and tables, against memory that changes while it is read.
const MAX_ENTRIES: usize = 1024;
const MAX_QUEUES: u32 = 65536;
const MAX_TAGS: u32 = 65536;

/// Attempts to read a list. list_del() makes the links of an entry unreadable.
const LIST_TRIES: usize = 3;

/// `enum mq_rq_state` (include/linux/blk-mq.h).
const IN_FLIGHT: u32 = 1;
const COMPLETED: u32 = 2;

/// A controller: addresses in kernel memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ControllerAt {
    /// Its number: 0 for nvme0.
    pub instance: u32,
    at: u64,
    io_tags: u64,
    admin_tags: u64,
}

/// The tags of a queue: an address in kernel memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tags {
    /// The queue; 0 is the admin queue.
    pub qid: u16,
    at: u64,
}

/// The tags of a queue at one moment.
#[derive(Clone, Debug, Default)]
pub struct TagsReading {
    /// Tags of the queue.
    pub total: u32,
    /// Tags of requests, started or not.
    pub used: u32,
    /// The commands that the driver has started.
    pub commands: Vec<CommandReading>,
}

/// A started command at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct CommandReading {
    /// Address of its request.
    pub request: u64,
    /// Its tag.
    pub tag: u32,
    /// Jiffy at which it times out.
    pub deadline: u64,
    /// The time that it has, in jiffies.
    pub timeout: u32,
    /// The driver has completed it.
    pub completed: bool,
    /// Its SQE, if the request has it.
    pub sqe: Option<Sqe>,
}

impl CommandReading {
    /// Whether a command id is this command's: the same one, or if the request has none, one with
    /// its tag.
    pub fn has(&self, cid: u16) -> bool {
        match &self.sqe {
            Some(sqe) => sqe.cid() == cid,
            None => u32::from(cid & 0xfff) == self.tag,
        }
    }

    /// Whether it is the same command in another reading.
    pub fn is_same(&self, other: &Self) -> bool {
        (self.request, self.tag, self.deadline) == (other.request, other.tag, other.deadline)
            && self.sqe == other.sqe
    }

    /// Its age; a lower bound, because a reset of the timer moves the deadline.
    pub fn age(&self, ticks: Ticks) -> Option<Duration> {
        ticks.age(self.deadline, self.timeout)
    }
}

/// Reads controllers, tags, requests and queues.
pub struct Walker<'a> {
    reader: Reader<'a>,
}

impl<'a> Walker<'a> {
    /// A walker through a kernel's memory.
    pub fn new(memory: &'a mut dyn Memory, types: &'a Types) -> Self {
        Self { reader: Reader { memory, types } }
    }

    /// The controllers, from the list `nvme_subsystems` (drivers/nvme/host/core.c). `None` if the
    /// list cannot be read.
    pub fn controllers(&mut self, subsystems: u64) -> Option<Vec<ControllerAt>> {
        (0..LIST_TRIES).find_map(|_| self.listed(subsystems))
    }

    fn listed(&mut self, subsystems: u64) -> Option<Vec<ControllerAt>> {
        let mut found = vec![];
        let entry = self.reader.offset("nvme_subsystem", "entry")?;
        let ctrls = self.reader.offset("nvme_subsystem", "ctrls")?;
        let link = self.reader.offset("nvme_ctrl", "subsys_entry")?;
        for subsystem in self.reader.list(subsystems, MAX_ENTRIES)? {
            let head = subsystem.wrapping_sub(entry).wrapping_add(ctrls);
            for ctrl in self.reader.list(head, MAX_ENTRIES)? {
                found.extend(self.controller(ctrl.wrapping_sub(link)));
            }
        }
        found.sort_by_key(|c: &ControllerAt| c.instance);
        Some(found)
    }

    fn controller(&mut self, at: u64) -> Option<ControllerAt> {
        let ctrl = self.reader.image("nvme_ctrl", at)?;
        Some(ControllerAt {
            instance: ctrl.u32("instance")?,
            at,
            io_tags: ctrl.u64("tagset")?,
            admin_tags: ctrl.u64("admin_tagset")?,
        })
    }

    /// The queues of a controller that have tags. If the tags of a tag set cannot be read, its first
    /// queue stands for all.
    pub fn queues(&mut self, ctrl: &ControllerAt) -> Vec<Tags> {
        let admin = self.tags_of(ctrl.admin_tags, 0);
        let io = self.tags_of(ctrl.io_tags, 1);
        [(0, ctrl.admin_tags, admin), (1, ctrl.io_tags, io)]
            .into_iter()
            .flat_map(|(qid, set, tags)| match tags {
                Some(tags) => tags,
                // a controller may have no I/O queues
                None if set == 0 => vec![],
                None => vec![Tags { qid, at: 0 }],
            })
            .collect()
    }

    fn tags_of(&mut self, set: u64, first: u16) -> Option<Vec<Tags>> {
        let set = self.reader.image("blk_mq_tag_set", set)?;
        let count = set.u32("nr_hw_queues")?.min(MAX_QUEUES);
        let tags = self.reader.pointers(set.u64("tags")?, count as usize)?;
        let numbered = (first..).zip(tags).filter(|(_, at)| *at != 0);
        Some(numbered.map(|(qid, at)| Tags { qid, at }).collect())
    }

    /// The state of a queue of the PCI driver; `None` if it cannot be read. Call this only for
    /// controllers on PCI. Commands whose request has no SQE get the one in the SQ.
    pub fn queue(
        &mut self,
        ctrl: &ControllerAt,
        qid: u16,
        commands: &mut [CommandReading],
    ) -> Option<QueueReading> {
        let dev = ctrl.at.wrapping_sub(self.reader.offset("nvme_dev", "ctrl")?);
        let dev = self.reader.image("nvme_dev", dev)?;
        let size = u64::try_from(self.reader.types.size("nvme_queue")?).ok()?;
        let at = dev.u64("queues")?.checked_add(u64::from(qid) * size)?;
        let (queue, entries) = QueueReading::read(&mut self.reader, at, commands)?;
        for command in commands.iter_mut().filter(|c| c.sqe.is_none()) {
            let slot = queue.slot_of(|cid| command.has(cid));
            let entry = slot.and_then(|slot| entries.get(usize::from(slot)));
            command.sqe = entry.map(Sqe::from);
        }
        Some(queue)
    }

    /// The commands of a queue.
    pub fn commands(&mut self, tags: &Tags) -> Option<TagsReading> {
        let reader = &mut self.reader;
        let image = reader.image("blk_mq_tags", tags.at)?;
        let reserved = image.u32("nr_reserved_tags")?;
        let mut reading = TagsReading { total: image.u32("nr_tags")?, ..TagsReading::default() };
        if reading.total > MAX_TAGS || reserved > reading.total {
            return None;
        }
        let mut used = vec![];
        for (member, first) in [("breserved_tags", 0), ("bitmap_tags", reserved)] {
            // before 5.16 these are pointers to members __breserved_tags, __bitmap_tags
            let bits = match image.address(&format!("__{member}")) {
                Some(_) => image.u64(member)?,
                None => image.address(member)?,
            };
            let set = reader.bits(bits)?.into_iter().map(|bit| bit + first);
            used.extend(set.filter(|tag| *tag < reading.total));
        }
        reading.used = u32::try_from(used.len()).ok()?;
        let requests = reader.pointers(image.u64("rqs")?, reading.total as usize)?;
        let at = |tag: u32| requests.get(tag as usize).copied();
        let of = |tag: u32| reader.command(tag, at(tag)?);
        reading.commands = used.into_iter().filter_map(of).collect();
        Some(reading)
    }
}

impl Reader<'_> {
    fn offset(&self, name: &str, member: &str) -> Option<u64> {
        u64::try_from(self.types.offset(name, member)?).ok()
    }

    /// The bits that are set in a `struct sbitmap_queue` (lib/sbitmap.c): `word` has the bits that
    /// are taken, `cleared` those that were given back since.
    fn bits(&mut self, queue: u64) -> Option<Vec<u32>> {
        let map = queue.checked_add(self.offset("sbitmap_queue", "sb")?)?;
        let map = self.image("sbitmap", map)?;
        let (depth, count) = (map.u32("depth")?, map.u32("map_nr")?);
        let shift = map.u32("shift")?;
        if depth == 0 {
            return Some(vec![]);
        }
        if depth > MAX_TAGS || count > depth || shift > 6 {
            return None;
        }
        let size = u64::try_from(self.types.size("sbitmap_word")?).ok()?;
        let words = map.u64("map")?;
        let mut bits = vec![];
        for n in 0..count {
            let word = words.wrapping_add(u64::from(n) * size);
            let word = self.image("sbitmap_word", word)?;
            let taken = word.u64("word")? & !word.u64("cleared")?;
            let set = (0..1_u32 << shift).filter(|bit| taken >> bit & 1 == 1);
            bits.extend(set.map(|bit| (n << shift) + bit).filter(|b| *b < depth));
        }
        Some(bits)
    }

    /// The command of a request, if the driver has started it.
    fn command(&mut self, tag: u32, at: u64) -> Option<CommandReading> {
        let request = self.image("request", at)?;
        let state = request.u32("state")?;
        // a tag that was just taken has the request of its last user
        let is_of_tag = request.u32("tag")? == tag;
        if !is_of_tag || (state != IN_FLIGHT && state != COMPLETED) {
            return None;
        }
        let pdu = at.wrapping_add(u64::try_from(self.types.size("request")?).ok()?);
        let sqe = self
            .image("nvme_request", pdu)
            .and_then(|driver| self.bytes(driver.u64("cmd")?, 64))
            .and_then(|bytes| Some(Sqe::from(<&[u8; 64]>::try_from(&bytes[..]).ok()?)))
            // before 5.14 this is set only for passthrough, without a command id
            .filter(|sqe| u32::from(sqe.cid() & 0xfff) == tag);
        Some(CommandReading {
            request: at,
            tag,
            deadline: request.u64("deadline")?,
            timeout: request.u32("timeout")?,
            completed: state == COMPLETED,
            sqe,
        })
    }
}

/// Memory of a kernel.
pub trait Memory {
    /// Reads from a kernel address. Returns false if not all of it can be read.
    fn read(&mut self, at: u64, to: &mut [u8]) -> bool;
}

/// The bytes of a struct, and the offsets of its members.
pub(crate) struct Image<'t> {
    types: &'t Types,
    name: &'static str,
    at: u64,
    bytes: Vec<u8>,
}

/// Reads structs. `None`: not readable, or no such member.
pub(crate) struct Reader<'a> {
    pub(crate) memory: &'a mut dyn Memory,
    pub(crate) types: &'a Types,
}

impl<'a> Reader<'a> {
    /// A whole struct.
    pub(crate) fn image(&mut self, name: &'static str, at: u64) -> Option<Image<'a>> {
        let bytes = self.bytes(at, self.types.size(name)?)?;
        Some(Image { types: self.types, name, at, bytes })
    }

    /// Bytes at an address that is not null.
    pub(crate) fn bytes(&mut self, at: u64, count: usize) -> Option<Vec<u8>> {
        if at == 0 {
            return None;
        }
        let mut bytes = vec![0; count];
        self.memory.read(at, &mut bytes).then_some(bytes)
    }

    /// A pointer.
    pub(crate) fn pointer(&mut self, at: u64) -> Option<u64> {
        let bytes = self.bytes(at, 8)?;
        Some(u64::from_ne_bytes(bytes.try_into().ok()?))
    }

    /// Pointers in a row.
    pub(crate) fn pointers(&mut self, at: u64, count: usize) -> Option<Vec<u64>> {
        let bytes = self.bytes(at, count.checked_mul(8)?)?;
        let words = bytes.as_chunks::<8>().0;
        Some(words.iter().map(|w| u64::from_ne_bytes(*w)).collect())
    }

    /// The entries of a list (`struct list_head`), except its head; at most `most`.
    pub(crate) fn list(&mut self, head: u64, most: usize) -> Option<Vec<u64>> {
        let mut entries = vec![];
        let mut next = self.pointer(head)?;
        while next != head && entries.len() < most {
            entries.push(next);
            next = self.pointer(next)?;
        }
        Some(entries)
    }
}

impl Image<'_> {
    /// The address of a member.
    pub(crate) fn address(&self, member: &str) -> Option<u64> {
        let offset = u64::try_from(self.types.offset(self.name, member)?).ok()?;
        Some(self.at.wrapping_add(offset))
    }

    fn word<const N: usize>(&self, member: &str) -> Option<[u8; N]> {
        let at = self.types.offset(self.name, member)?;
        self.bytes.get(at..at + N)?.try_into().ok()
    }

    pub(crate) fn u8(&self, member: &str) -> Option<u8> {
        Some(u8::from_ne_bytes(self.word(member)?))
    }

    pub(crate) fn u16(&self, member: &str) -> Option<u16> {
        Some(u16::from_ne_bytes(self.word(member)?))
    }

    pub(crate) fn u32(&self, member: &str) -> Option<u32> {
        Some(u32::from_ne_bytes(self.word(member)?))
    }

    pub(crate) fn u64(&self, member: &str) -> Option<u64> {
        Some(u64::from_ne_bytes(self.word(member)?))
    }
}

#[cfg(test)]
#[path = "walk_tests.rs"]
mod tests;
