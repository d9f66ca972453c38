// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the commands share: arguments ([`args`]), attaching ([`start`]), the event loop ([`drive`]),
//! output files, exit codes.

pub(crate) mod args;
mod cgroup_log;
pub(crate) mod drive;
pub(crate) mod exit;
pub(crate) mod exporting;
pub(crate) mod inflight;
pub(crate) mod input;
pub(crate) mod outfile;
pub(crate) mod picture;
mod progress;
pub(crate) mod recording;
pub(crate) mod slowest;
pub(crate) mod start;
pub(crate) mod stdout;

use std::io::{Write, stderr};

use crate::model::ledger::Ledger;
use crate::model::text::clean;
use crate::view::ledger::write_ledger;
use crate::view::theme::Theme;

/// What a live run ends with that has stages or looks for slow commands, and does not measure the waits
/// before the request.
pub(crate) const WAITS_UNMEASURED: &str =
    "waits before the request (cgroup limits, wbt, tags) were not measured: use --stages=full";

/// Writes a ledger to stderr. A closed stderr is not an error.
pub(crate) fn say_ledger(ledger: &Ledger, detail: bool) {
    let theme = Theme { color: false };
    let _ = write_ledger(ledger, theme, detail, &mut stderr().lock());
}

/// Writes a line to stderr, without the numbers of the system's errors. A closed stderr is not an error.
pub(crate) fn eprint_note(text: &str) {
    const NUMBER: &str = " (os error ";
    let mut parts = text.split(NUMBER);
    let mut text = parts.next().unwrap_or_default().to_owned();
    parts.for_each(|part| text += part.split_once(')').map_or(part, |(_, rest)| rest));
    let _ = writeln!(stderr(), "nvme-deep: {}", clean(&text));
}

#[cfg(test)]
#[cfg(feature = "live")]
pub(crate) mod fixture;
