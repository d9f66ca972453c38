// SPDX-License-Identifier: MIT OR Apache-2.0
//! The subcommands, one file or directory each. [`start`] attaches; [`run`] contains the loop.

pub mod diff;
pub mod doctor;
mod drops;
pub mod export;
#[cfg(test)]
mod fixture;
pub mod inflight;
pub mod latency;
mod names;
mod outfile;
mod output;
mod privileges;
pub mod record;
mod recording;
mod replay;
mod run;
pub mod serve;
mod several;
mod single;
pub mod stacks;
mod start;
mod symbols;
pub mod trace;

use std::io::Write;
use std::io::stderr;

use nvme_deep::render::ledger::ledger as write_ledger;
use nvme_deep::render::theme::Theme;
use nvme_deep::report::ledger::Ledger;

/// Writes a ledger to stderr. A closed stderr is not an error.
fn say_ledger(ledger: &Ledger, detail: bool) {
    let theme = Theme { color: false };
    let _ = write_ledger(ledger, theme, detail, &mut stderr().lock());
}

/// Writes a line to stderr. A closed stderr is not an error.
fn say(text: &str) {
    let _ = writeln!(stderr(), "nvme-deep: {text}");
}
