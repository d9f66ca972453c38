// SPDX-License-Identifier: MIT OR Apache-2.0
//! Events on the way from the thread that reads them to the one that writes them.

use std::slice::from_ref;

use crate::abi::PairRecord;
use crate::model::event::Event;

/// Events that are handed over at a time.
const EVENTS: usize = 1024;

/// Finished commands that are not decoded, then events.
#[derive(Default)]
pub struct Batch {
    /// The words of the records, in two parts: a copy of a known size is cheaper.
    commands: Vec<[u64; 16]>,
    /// Of each command, or of none.
    times: Vec<[u64; 7]>,
    events: Vec<Event>,
}

impl Batch {
    /// Adds an event. Returns true if it is the last one that fits.
    #[inline]
    pub fn push(&mut self, event: &Event) -> bool {
        self.events.push(*event);
        self.events.len() == EVENTS
    }

    /// Events after the commands.
    pub fn events(&self) -> &[Event] {
        &self.events
    }

    /// Another one, with as much memory.
    pub fn another(&self) -> Self {
        Self {
            commands: Vec::with_capacity(self.commands.capacity()),
            times: Vec::with_capacity(self.times.capacity()),
            events: Vec::with_capacity(self.events.capacity()),
        }
    }

    /// Forgets all, and keeps the memory.
    pub fn clear(&mut self) {
        self.commands.clear();
        self.times.clear();
        self.events.clear();
    }
}

impl Batch {
    /// Whether this command can be added: it would come before the events.
    #[inline]
    pub fn takes(&self, record: &PairRecord<'_>) -> bool {
        let same = self.commands.is_empty() || self.times.is_empty() == record.times.is_none();
        self.events.is_empty() && same
    }

    /// Adds a command. Returns true if it is the last one that fits.
    #[inline]
    pub fn push_finished(&mut self, record: &PairRecord<'_>) -> bool {
        // not push(), which copies it to the stack first
        self.commands.extend_from_slice(from_ref(record.command));
        if let Some(times) = record.times {
            self.times.extend_from_slice(from_ref(times));
        }
        self.commands.len() == EVENTS
    }

    /// The commands, and the times of each or of none.
    pub fn finished(&self) -> (&[[u64; 16]], &[[u64; 7]]) {
        (&self.commands, &self.times)
    }
}
