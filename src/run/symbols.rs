// SPDX-License-Identifier: MIT OR Apache-2.0
//! Stacks of single commands: each distinct one is read and symbolized once.

use std::collections::HashSet;

use crate::model::event::StackId;
use crate::model::stack::{Frame, StackAt};
use crate::session::Session;
use crate::symbols::Symbolizer;

use crate::run::start::symbolizer;

/// The stacks of a session.
pub struct LiveStacks {
    symbolizer: Symbolizer,
    at: StackAt,
    known: HashSet<StackId>,
}

impl LiveStacks {
    /// Reads the symbol table, which takes seconds. To be called before anything is attached.
    pub fn new(at: StackAt) -> Self {
        Self { symbolizer: symbolizer(), at, known: HashSet::new() }
    }

    /// See [`Symbolizer::irq_entry`].
    pub fn irq_entry(&self) -> Option<(u64, u64)> {
        self.symbolizer.irq_entry()
    }

    /// The frames of a stack, the first time that it is asked for.
    pub fn learn(&mut self, id: StackId, session: &Session) -> Option<Vec<Frame>> {
        if !id.is_some() || !self.known.insert(id) {
            return None;
        }
        // no stack is removed from the map; if the read fails, the event has no stack
        let addresses = session.stack(id).ok().flatten().unwrap_or_default();
        Some(self.symbolizer.stack(&addresses, self.at))
    }
}
