// SPDX-License-Identifier: MIT OR Apache-2.0
//! Blocks of events: up to [`BLOCK_EVENTS`] fixed records.

use super::error::Damage;
use super::frame::{Content, Summary};
use super::reader::Item;
use crate::abi::{NO_EVENT, Record, TIMES_OF_RECORD, WORDS_OF_RECORD};
use crate::model::event::Event;
use crate::model::ledger::EventClass;
use crate::recording::frame::{pack, unpack};

/// Most events of a block. Larger blocks hardly compress better, and more is lost with the last one.
pub const BLOCK_EVENTS: usize = 1 << 12;

/// The words of a record.
pub type Words = [u64; WORDS_OF_RECORD];

/// The records of a block that is not complete.
#[derive(Clone)]
pub struct Batch {
    /// Room for all of them; `summary.events` are in use.
    records: Vec<Words>,
    summary: Summary,
}

impl Default for Batch {
    fn default() -> Self {
        Self::new()
    }
}

impl Batch {
    /// An empty block.
    pub const fn new() -> Self {
        let content = Content::Events;
        let summary = Summary { content, events: 0, commands: 0, from_ns: u64::MAX, to_ns: 0 };
        Self { records: Vec::new(), summary }
    }

    /// Whether it has no room.
    pub const fn is_full(&self) -> bool {
        self.summary.events as usize >= BLOCK_EVENTS
    }

    /// Its summary.
    pub const fn summary(&self) -> Summary {
        self.summary
    }

    /// Adds a record of zeroes, if there is room. Lent, because a record is large.
    #[inline]
    fn add(&mut self, at_ns: u64, is_command: bool) -> Option<&mut Words> {
        if self.records.is_empty() {
            self.records = vec![[0; WORDS_OF_RECORD]; BLOCK_EVENTS];
        }
        let summary = &mut self.summary;
        let record = self.records.get_mut(usize::from(summary.events))?;
        summary.events += 1;
        summary.commands += u16::from(is_command);
        summary.from_ns = summary.from_ns.min(at_ns);
        summary.to_ns = summary.to_ns.max(at_ns);
        Some(record)
    }

    /// The payload.
    pub fn pack(&self) -> Vec<u8> {
        let records = self.records.get(..self.summary.events.into()).unwrap_or_default();
        pack(records, &TIMES_OF_RECORD)
    }

    /// Adds an event, if there is room.
    #[inline]
    pub fn push(&mut self, event: &Event) {
        let is_command = EventClass::of(&event.what) == EventClass::Command;
        if let Some(words) = self.add(event.at_ns, is_command) {
            Record::fill(words, event);
        }
    }
}

/// The events of the block that is being read. Its memory is used again.
pub struct Unpacked {
    records: Vec<Words>,
    next: usize,
    /// The last one that was decoded.
    event: Event,
}

impl Default for Unpacked {
    fn default() -> Self {
        Self { records: Vec::new(), next: 0, event: NO_EVENT }
    }
}

const UNKNOWN: Damage = Damage::Content("an event of an unknown kind");

impl Unpacked {
    /// Takes a block of events.
    ///
    /// # Errors
    /// If the content is not valid.
    pub fn events(&mut self, payload: &[u8], count: usize) -> Result<(), Damage> {
        self.next = 0;
        unpack(payload, count, &TIMES_OF_RECORD, &mut self.records)
    }

    /// Whether all events of the block were read.
    pub const fn is_empty(&self) -> bool {
        self.next >= self.records.len()
    }

    /// The next event in the block, which has one, in the order in which they were added.
    ///
    /// # Errors
    /// If its kind is unknown.
    #[inline]
    pub fn next_event(&mut self) -> Result<Item<'_>, Damage> {
        let words = self.records.get(self.next).ok_or(UNKNOWN)?;
        self.next += 1;
        if Record::of_words(words).decode(&mut self.event).is_err() {
            // nothing after damage is shown
            self.next = usize::MAX;
            return Err(UNKNOWN);
        }
        Ok(Item::Event(&self.event))
    }

    /// The last event that was read.
    pub const fn event(&self) -> &Event {
        &self.event
    }

    /// Forgets the rest of the block.
    pub fn clear(&mut self) {
        self.records.clear();
    }
}
