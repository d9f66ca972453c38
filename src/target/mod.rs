// SPDX-License-Identifier: MIT OR Apache-2.0
//! The host side of NVMe commands: logs and traces of targets, and the join with the guest's
//! records. Pure: functions of text and of recordings.

pub mod functions;
pub mod qemu;
pub mod spdk;
pub mod spdk_trace;

use std::collections::BTreeMap;

use crate::model::ledger::HostLedger;
use crate::model::target::{
    HostClock, HostCommand, HostController, HostEvent, TargetInfo, TargetKind,
};

/// The words after `key`, which `=`, `:` or a blank follows; without quotation marks.
fn words<'t>(text: &'t str, key: &str) -> impl Iterator<Item = &'t str> {
    text.match_indices(key).filter_map(move |(at, key)| {
        let starts = at == 0 || text[..at].ends_with([' ', ',', '(']);
        let rest = text[at + key.len()..].strip_prefix(['=', ':', ' ']).filter(|_| starts)?;
        let rest = rest.trim_start();
        match rest.strip_prefix('"') {
            Some(quoted) => quoted.split('"').next(),
            None => rest.split([' ', ',', ')']).next(),
        }
    })
}

/// The first word after `key` in a text such as `disk=nvme0n1, qid=4` or `cid 5 nsid 0x1`.
pub(crate) fn word<'t>(text: &'t str, key: &str) -> Option<&'t str> {
    words(text, key).next()
}

/// The first number after `key`, decimal or hexadecimal.
pub(crate) fn value(text: &str, key: &str) -> Option<u64> {
    words(text, key).find_map(|word| match word.strip_prefix("0x") {
        Some(hex) => u64::from_str_radix(hex, 16).ok(),
        None => word.parse().ok(),
    })
}

/// What an import gives.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Imported {
    /// The target.
    pub target: TargetInfo,
    /// Its controllers.
    pub controllers: Vec<HostController>,
    /// The events, by time.
    pub events: Vec<HostEvent>,
    /// What was read, and what was not.
    pub ledger: HostLedger,
}

/// Most events that are kept from any text.
pub const MOST_EVENTS: usize = 1 << 22;
/// Most commands in flight that are kept from any text.
pub const MOST_OPEN: usize = 1 << 18;

impl Imported {
    /// Keeps an event, unless there are too many, and counts it.
    pub fn push(&mut self, event: HostEvent) {
        if self.events.len() >= MOST_EVENTS {
            self.ledger.lost += 1;
            return;
        }
        self.ledger.count(&event);
        self.events.push(event);
    }
}

/// Commands in flight, by what tells them apart, and those that are done.
#[derive(Default)]
pub struct Flying<K> {
    /// The commands in flight.
    pub open: BTreeMap<K, HostCommand>,
    /// What was read so far.
    pub done: Imported,
}

impl<K: Ord> Flying<K> {
    /// Nothing yet, of a target with this clock.
    pub fn of(kind: TargetKind, by: &str, clock: HostClock, resolution_ns: u64) -> Self {
        let by = by.into();
        let target = TargetInfo { kind, by, clock, resolution_ns, ..TargetInfo::default() };
        Self { open: BTreeMap::new(), done: Imported { target, ..Imported::default() } }
    }

    /// A command begins. One with the same key has no end.
    pub fn begin(&mut self, key: K, command: HostCommand) {
        let ledger = &mut self.done.ledger;
        if self.open.len() >= MOST_OPEN {
            ledger.lost += 1;
            return;
        }
        ledger.without_end += u64::from(self.open.insert(key, command).is_some());
    }

    /// A command ends. `last` adds what the end says.
    pub fn end(&mut self, key: &K, last: impl FnOnce(&mut HostCommand)) {
        match self.open.remove(key) {
            Some(mut command) => {
                last(&mut command);
                self.done.push(HostEvent::Command(command));
            }
            None => self.done.ledger.without_begin += 1,
        }
    }

    /// Everything by time, with the commands that are still in flight.
    #[must_use]
    pub fn finished(mut self) -> Imported {
        for command in self.open.into_values() {
            self.done.push(HostEvent::Unfinished(command));
        }
        self.done.events.sort_by_key(HostEvent::at_ns);
        self.done.ledger.imported = true;
        self.done
    }
}
