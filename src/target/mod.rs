// SPDX-License-Identifier: MIT OR Apache-2.0
//! Targets: their trace events, logs and states. Pure: functions of text and of arguments.

pub mod functions;
pub mod qemu;
pub mod spdk;
pub mod spdk_trace;

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

/// Most events that are kept from any text.
pub const MOST_EVENTS: usize = 1 << 22;
/// Most commands in flight that are kept from any text.
pub const MOST_OPEN: usize = 1 << 18;
