// SPDX-License-Identifier: MIT OR Apache-2.0
//! The stacks of a recording, each as one text.

use std::collections::HashMap;

use crate::model::event::StackId;
use crate::model::stack::Frame;

/// Texts of stacks by number.
#[derive(Debug, Default)]
pub(super) struct Stacks {
    texts: HashMap<StackId, String>,
}

impl Stacks {
    /// Adds a stack: its frames, innermost first, with this text between them.
    pub(super) fn join(&mut self, id: StackId, frames: &[Frame], between: &str) {
        let frames: Vec<String> = frames.iter().map(ToString::to_string).collect();
        self.texts.insert(id, frames.join(between));
    }

    /// The text of a stack; empty if there is none.
    pub(super) fn get(&self, id: StackId) -> &str {
        self.texts.get(&id).map_or("", String::as_str)
    }
}
