// SPDX-License-Identifier: MIT OR Apache-2.0
//! Stacks of a trace: each distinct one is read, symbolized and rendered once.

use std::collections::HashMap;

use nvme_deep::model::event::StackId;
use nvme_deep::model::stack::Frame;
use nvme_deep::model::stack::StackAt;
use nvme_deep::source::Source;
use nvme_deep::symbols::Symbolizer;

use crate::commands::start::symbolizer;

/// The rendered stacks, which are written below events.
pub struct Stacks {
    symbolizer: Symbolizer,
    at: StackAt,
    blocks: HashMap<StackId, String>,
}

impl Stacks {
    /// Reads the symbol table, which takes seconds. To be called before anything is attached.
    pub fn new(at: StackAt) -> Self {
        Self {
            symbolizer: symbolizer(),
            at,
            blocks: HashMap::new(),
        }
    }

    /// See [`Symbolizer::irq_entry`].
    pub fn irq_entry(&self) -> Option<(u64, u64)> {
        self.symbolizer.irq_entry()
    }

    /// Renders a stack that is not rendered yet.
    pub fn learn(&mut self, id: StackId, source: &dyn Source, render: impl Fn(&[Frame]) -> String) {
        if !id.is_some() || self.blocks.contains_key(&id) {
            return;
        }
        // no stack is removed from the map; if the read fails, the event has no stack
        let addresses = source.stack(id).ok().flatten().unwrap_or_default();
        let frames = self.symbolizer.stack(&addresses, self.at);
        self.blocks.insert(id, render(&frames));
    }

    /// The rendered stack; empty if there is none.
    pub fn block(&self, id: StackId) -> &str {
        self.blocks.get(&id).map_or("", String::as_str)
    }
}
