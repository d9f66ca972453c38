// SPDX-License-Identifier: MIT OR Apache-2.0
//! The part of the ledger on the events of a trace.

use serde::Deserialize;
use serde::Serialize;

use crate::model::counters::Count;
use crate::model::counters::Counters;
use crate::model::event::EventKind;

/// The class of an event in the ledger.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventClass {
    /// The set-up of a command.
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
    /// Events after the last command of `-n`.
    pub past_count: u64,
    /// Events that could not be written: the disk is full, or the pipe has no reader.
    pub not_written: u64,
    /// Events written after a later one.
    pub out_of_order: u64,
    /// Records that can't be decoded.
    pub undecodable: u64,
}

impl Shown {
    /// Counts an event.
    pub const fn add(&mut self, class: EventClass) {
        match class {
            EventClass::Submit => self.submits += 1,
            EventClass::Command => self.commands += 1,
            EventClass::Other => self.events += 1,
        }
    }
}

/// Counts of all events, and of losses.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TraceLedger {
    /// Submit events shown.
    pub submits_shown: u64,
    /// Commands with their last event shown.
    pub commands_shown: u64,
    /// Other events shown.
    pub events_shown: u64,
    /// Commands that ended and are not shown, because they were fast enough, or without an error.
    pub not_shown: u64,
    /// Events after the last command of `-n`.
    pub past_count: u64,
    /// Submit events that found no room in the ring.
    pub lost_submits: u64,
    /// Commands with a last event that found no room in the ring.
    pub lost_completions: u64,
    /// Other events that found no room in the ring.
    pub lost_events: u64,
    /// Events that could not be written.
    pub not_written: u64,
    /// Events written after a later one.
    pub out_of_order: u64,
    /// Records that can't be decoded.
    pub undecodable: u64,
    /// Stacks that the kernel could not take.
    pub stacks_not_taken: u64,
    /// Stacks that found no room in the table.
    pub stacks_lost: u64,
}

impl TraceLedger {
    /// Builds the ledger of a trace.
    pub const fn new(counters: &Counters, shown: &Shown) -> Self {
        Self {
            submits_shown: shown.submits,
            commands_shown: shown.commands,
            events_shown: shown.events,
            not_shown: counters.get(Count::Quiet),
            past_count: shown.past_count,
            lost_submits: counters.get(Count::LostSubmit),
            lost_completions: counters.get(Count::RingFull),
            lost_events: counters.get(Count::LostEvent),
            not_written: shown.not_written,
            out_of_order: shown.out_of_order,
            undecodable: shown.undecodable,
            stacks_not_taken: counters.get(Count::NoStack),
            stacks_lost: counters.get(Count::StacksFull),
        }
    }

    /// Events that found no room in the ring.
    pub const fn lost(&self) -> u64 {
        self.lost_submits + self.lost_completions + self.lost_events
    }

    /// Why the trace is not complete: counts and phrases.
    pub(super) const fn flaws(&self) -> [(u64, &'static str); 7] {
        [
            (self.lost_submits, "submit events lost"),
            (self.lost_completions, "completions lost"),
            (self.lost_events, "other events lost"),
            (self.not_written, "events not written"),
            (self.out_of_order, "events out of time order"),
            (self.undecodable, "records that make no sense"),
            (
                self.stacks_not_taken + self.stacks_lost,
                "stacks not taken or not kept",
            ),
        ]
    }
}
