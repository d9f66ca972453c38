// SPDX-License-Identifier: MIT OR Apache-2.0
//! The slowest commands of a run.

use crate::model::event::{Event, EventKind};
use crate::model::ledger::EventClass;
use crate::model::report::begins::Longest;
use crate::model::text::Text;
use crate::model::timeline::{Span, total_ns};
use crate::nvme::decode::CommandSet;
use crate::run::drive::Names;

/// A command with the name and the command set of its disk.
pub type Named = (Event, Text, CommandSet);

/// The slowest commands so far.
pub struct Slowest {
    kept: Longest<Named>,
    commands: u64,
}

impl Slowest {
    /// Keeps the `most` slowest.
    pub fn new(most: usize) -> Self {
        Self { kept: Longest::at_most(most), commands: 0 }
    }

    /// Adds a finished command. One whose time is not known is counted only.
    pub fn add(&mut self, event: &Event, names: &mut Names) {
        self.commands += u64::from(EventClass::of(&event.what) == EventClass::Command);
        let EventKind::Command(id, ..) = &event.what else {
            return;
        };
        if let Some(ns) = total_ns(event) {
            let span = Span { begin_ns: event.at_ns.saturating_sub(ns), end_ns: Some(event.at_ns) };
            // of equal ones the first counts as the slower
            self.kept.add(&span, u64::MAX - self.commands, || {
                let (disk, set) = names.of_command(Some(id));
                Some((*event, disk.into(), set))
            });
        }
    }

    /// How many are kept, and how many are not.
    pub fn shown_and_hidden(&self) -> (u64, u64) {
        let shown = self.kept.number() as u64;
        (shown, self.commands - shown)
    }

    /// The commands in order.
    pub fn slowest_first(self) -> impl Iterator<Item = Named> {
        self.kept.longest_first()
    }
}
