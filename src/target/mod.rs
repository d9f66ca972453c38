// SPDX-License-Identifier: MIT OR Apache-2.0
//! Targets: their trace events, logs and states. Pure: functions of text and of arguments.

pub mod functions;
pub mod qemu;
pub mod spdk;
pub mod spdk_trace;

use serde_json::Value;

use crate::model::event::Event;

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

/// Why an event, or a line, gives nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Skip {
    /// It is about something else.
    Other,
    /// It is none that is known.
    Unknown,
    /// Its form is not the expected one.
    Malformed,
    /// It cannot be used, for this reason.
    Lacks(&'static str),
    /// It is about another controller than the events before.
    Second,
}

/// A change of state in SPDK.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StateChange {
    /// Its time, in nanoseconds of CLOCK_MONOTONIC.
    pub at_ns: u64,
    /// The probe.
    pub probe: &'static str,
    /// Names and values of its arguments: texts, numbers, addresses (`0x7f`), names of states.
    pub fields: Vec<(&'static str, Value)>,
}

/// What a session of a target passes on.
#[derive(Debug)]
pub enum HostEvent<'e> {
    /// A command, or an interrupt.
    Nvme(&'e Event),
    /// A state of SPDK has changed.
    State(StateChange),
    /// How often a function (`spdk_thread_send_msg`) has passed on the function at this address so far.
    #[allow(missing_docs, reason = "the sentence says it")]
    Call { by: &'static str, function: u64, count: u64 },
}
