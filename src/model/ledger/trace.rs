// SPDX-License-Identifier: MIT OR Apache-2.0
//! The part of the ledger on the events of a trace.

use serde::{Deserialize, Serialize};

use crate::model::counters::{Count, Counters};
use crate::model::event::EventKind;

/// The class of an event in the ledger.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventClass {
    /// The setup of a command.
    Submit,
    /// The last event of a command.
    Command,
    /// Any other event.
    Other,
}

impl EventClass {
    /// The class of an event.
    pub const fn of(what: &EventKind) -> Self {
        match what {
            EventKind::Submit(..) => Self::Submit,
            EventKind::Complete(..) | EventKind::Command(..) | EventKind::Missed { .. } => {
                Self::Command
            }
            _ => Self::Other,
        }
    }
}

/// Counts of the events that user space received.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Shown {
    /// Submit events written.
    pub submits: u64,
    /// Commands with their last event written.
    pub commands: u64,
    /// Other events written.
    pub events: u64,
    /// Commands that ended and have no line: their completion was not observed, or others were slower.
    pub hidden: u64,
    /// Events after the last command of `-n`.
    pub past_count: u64,
    /// Events that could not be written: the disk is full, or the pipe has no reader.
    pub not_written: u64,
    /// Events written after a later one.
    pub out_of_order: u64,
    /// Records that can't be decoded.
    pub undecodable: u64,
    /// Of the commands, those that this process submitted.
    pub own: u64,
}

impl Shown {
    /// Counts the command of an event if process `own` submitted it. Each command has one event for
    /// which this holds.
    pub fn add_own(&mut self, what: &EventKind, own: Option<u32>) {
        let Some(own) = own else { return };
        let of_command = !matches!(EventClass::of(what), EventClass::Other);
        let submission = what.submission().filter(|s| of_command && s.knows_submitter);
        self.add_own_pid(submission.map(|s| s.pid), Some(own));
    }

    /// Counts a command that this process has submitted.
    pub fn add_own_pid(&mut self, pid: Option<u32>, own: Option<u32>) {
        self.own += u64::from(own.is_some() && pid == own);
    }

    /// Counts an event.
    pub const fn add(&mut self, class: EventClass) {
        match class {
            EventClass::Submit => self.submits += 1,
            EventClass::Command => self.commands += 1,
            EventClass::Other => self.events += 1,
        }
    }
}

/// Counts of all events, and of losses. A count that an older recording lacks is zero;
/// `commands_shown` makes it the ledger of a trace.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TraceLedger {
    /// Submit events shown.
    #[serde(default)]
    pub submits_shown: u64,
    /// Commands with their last event shown.
    pub commands_shown: u64,
    /// Other events shown.
    #[serde(default)]
    pub events_shown: u64,
    /// Commands that ended and are not shown: they were fast or without an error, or their completion was
    /// not observed.
    #[serde(default)]
    pub not_shown: u64,
    /// Events after the last command of `-n`.
    #[serde(default)]
    pub past_count: u64,
    /// Submit events that found no room in the ring.
    #[serde(default)]
    pub lost_submits: u64,
    /// Commands with a last event that found no room in the ring.
    #[serde(default)]
    pub lost_completions: u64,
    /// Other events that found no room in the ring.
    #[serde(default)]
    pub lost_events: u64,
    /// Events that could not be written.
    #[serde(default)]
    pub not_written: u64,
    /// Events written after a later one.
    #[serde(default)]
    pub out_of_order: u64,
    /// Records that can't be decoded.
    #[serde(default)]
    pub undecodable: u64,
    /// Stacks that the kernel could not take.
    #[serde(default)]
    pub stacks_not_taken: u64,
    /// Stacks that found no room in the table.
    #[serde(default)]
    pub stacks_lost: u64,
    /// Of the commands, those that the tool's own process submitted.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub own_commands: u64,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it")]
pub(super) const fn is_zero(n: &u64) -> bool {
    *n == 0
}

impl TraceLedger {
    /// Replaces what was recorded by what a recording shows after the filters left
    /// `unselected` commands out.
    pub const fn show(&mut self, shown: &Shown, unselected: u64) {
        self.submits_shown = shown.submits;
        self.commands_shown = shown.commands;
        self.events_shown = shown.events;
        self.past_count += shown.past_count;
        self.not_shown += unselected + shown.hidden;
        self.not_written = shown.not_written;
    }

    /// Builds the ledger of a trace.
    pub const fn new(counters: &Counters, shown: &Shown) -> Self {
        Self {
            submits_shown: shown.submits,
            commands_shown: shown.commands,
            events_shown: shown.events,
            not_shown: counters.get(Count::NotShown) + shown.hidden,
            past_count: shown.past_count,
            lost_submits: counters.get(Count::LostSubmit),
            lost_completions: counters.get(Count::RingFull),
            lost_events: counters.get(Count::LostEvent),
            not_written: shown.not_written,
            out_of_order: shown.out_of_order,
            undecodable: shown.undecodable,
            stacks_not_taken: counters.get(Count::NoStack),
            stacks_lost: counters.get(Count::StacksFull),
            own_commands: shown.own,
        }
    }

    /// Events shown.
    pub const fn events(&self) -> u64 {
        self.submits_shown + self.commands_shown + self.events_shown
    }

    /// Events that found no room in the ring.
    pub const fn lost(&self) -> u64 {
        self.lost_submits + self.lost_completions + self.lost_events
    }

    /// The commands of the tool's own process, in one sentence. `None`: there are none.
    pub fn own_share(&self) -> Option<String> {
        let own = self.own_commands;
        // with two events per command, only the first has the submitter
        let all = self.submits_shown.max(self.commands_shown);
        let percent = 100.0 * own as f64 / all.max(1) as f64;
        let share = if percent < 0.05 { "less than 0.1%".into() } else { format!("{percent:.1}%") };
        (own > 0).then(|| format!("{own} of {all} commands ({share}) are nvme-deep's own"))
    }

    /// Why the trace is not complete: counts and phrases.
    pub(super) const fn flaws(&self) -> [(u64, &'static str); 4] {
        [
            (self.lost(), "events lost: the ring was full"),
            (self.not_written, "events not written"),
            (self.out_of_order + self.undecodable, "events out of time order or not valid"),
            (self.stacks_not_taken + self.stacks_lost, "stacks not taken or not kept"),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::EventBuilder;

    fn submit(pid: u32, knows_submitter: bool) -> EventKind {
        let made = EventBuilder::read().submitter(pid, pid + 1, b"fio");
        let made = if knows_submitter { made } else { made.unknown_submitter() };
        made.submit().what
    }

    #[test]
    fn own_commands_are_those_of_the_process() {
        let mut shown = Shown::default();
        for (what, own) in [
            (submit(7, true), Some(7)),
            (submit(8, true), Some(7)),
            // not observed: the pid is not valid
            (submit(7, false), Some(7)),
            (submit(7, true), None),
        ] {
            shown.add_own(&what, own);
        }
        assert_eq!(shown.own, 1);
    }

    #[test]
    fn the_share_is_of_the_commands_shown() {
        let share = |own_commands, commands_shown, submits_shown| {
            let ledger = TraceLedger {
                own_commands,
                commands_shown,
                submits_shown,
                ..TraceLedger::default()
            };
            ledger.own_share()
        };
        assert_eq!(share(0, 10, 0), None);
        let few = "12 of 3400 commands (0.4 %) are nvme-deep's own";
        assert_eq!(share(12, 3400, 0).as_deref(), Some(few));
        assert_eq!(share(12, 3399, 3400).as_deref(), Some(few));
        let text = share(1, 1 << 20, 0).unwrap();
        assert!(text.contains("(less than 0.1 %)"), "{text}");
    }
}
