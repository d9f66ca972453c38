// SPDX-License-Identifier: MIT OR Apache-2.0
//! The host side of NVMe commands: logs and traces of targets, and the join with the guest's
//! records. Pure: functions of text and of recordings.

pub mod functions;
pub mod qemu_log;
pub mod qemu_usdt;
pub mod spdk;
pub mod spdk_trace;

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

impl Imported {
    /// Nothing yet, of a target with this clock.
    pub fn of(kind: TargetKind, by: &str, clock: HostClock, resolution_ns: u64) -> Self {
        let by = by.into();
        let target = TargetInfo { kind, by, clock, resolution_ns, ..TargetInfo::default() };
        Self { target, ..Self::default() }
    }

    /// Keeps an event, unless there are too many, and counts it.
    pub fn push(&mut self, event: HostEvent) {
        if self.events.len() >= MOST_EVENTS {
            self.ledger.lost += 1;
            return;
        }
        self.ledger.count(&event);
        self.events.push(event);
    }

    /// The same by time, with the commands that are still in flight.
    #[must_use]
    pub fn finished(mut self, left: impl Iterator<Item = HostCommand>) -> Self {
        left.for_each(|command| self.push(HostEvent::Unfinished(command)));
        self.events.sort_by_key(HostEvent::at_ns);
        self.ledger.imported = true;
        self
    }
}
