// SPDX-License-Identifier: MIT OR Apache-2.0
//! The ledger of a target (`host`). Its JSON is a part of recordings, so it has the fields that it had.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{Accuracy, phrases};
use crate::model::host::HostEvent;
use crate::model::text::Text;

/// What was seen of a target, and what was not.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct HostLedger {
    /// It was read from a text, which does not say what its tracer lost.
    pub imported: bool,
    /// Finished commands.
    pub commands: u64,
    /// Commands that the run or their connection ended before.
    pub unfinished: u64,
    /// Interrupts.
    pub interrupts: u64,
    /// Commands whose end was not observed: another command took their place.
    pub without_end: u64,
    /// Ends of commands whose start was not observed. Ends of commands that started before the run
    /// are among them.
    pub without_begin: u64,
    /// Points out of order.
    pub out_of_order: u64,
    /// Records that found no room.
    pub lost: u64,
    /// Lines or records of an import that cannot be read.
    pub malformed: u64,
    /// Lines or records of an import that are about something else.
    pub other: u64,
    /// Hits whose data contradict each other. Such a hit is in no command.
    pub failed_checks: u64,
    /// Hits by program.
    pub hits: BTreeMap<Text, u64>,
    /// Runs that the kernel skipped, by program.
    pub skipped: BTreeMap<Text, u64>,
    /// Mean time of a program's run in nanoseconds, without the trap.
    pub run_ns: BTreeMap<Text, u64>,
}

impl HostLedger {
    /// Why not every command of the run has a complete record, one phrase per reason. Empty: all have.
    pub fn degraded(&self) -> Vec<String> {
        let all = [
            (self.without_begin, "without begin"),
            (self.without_end, "without end"),
            (self.out_of_order, "out of order"),
            (self.lost, "lost"),
            (self.malformed, "malformed"),
            (self.failed_checks, "failed checks"),
            (self.skipped.values().sum(), "skipped program runs"),
        ];
        phrases(all).collect()
    }

    /// The accuracy of the records: all losses of a target are known, unless a text was imported.
    pub fn accuracy(&self) -> Accuracy {
        Accuracy::of(self.degraded(), !self.imported)
    }

    /// Whether every command of the run has a complete record.
    pub fn is_exact(&self) -> bool {
        self.accuracy() == Accuracy::Exact
    }

    /// Counts an event.
    pub fn count(&mut self, event: &HostEvent) {
        match event {
            HostEvent::Command(command) => {
                self.commands += 1;
                self.out_of_order += u64::from(command.times.stages().is_none());
            }
            HostEvent::Unfinished(_) => self.unfinished += 1,
            HostEvent::Interrupt { .. } => self.interrupts += 1,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_loss_is_not_exact() {
        let mut ledger = HostLedger::default();
        assert!(ledger.is_exact());
        ledger.skipped.insert("fetch".into(), 2);
        assert_eq!(ledger.degraded(), ["2 skipped program runs"]);
    }
}
