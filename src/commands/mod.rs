// SPDX-License-Identifier: MIT OR Apache-2.0
//! The subcommands, one file or directory each. [`start`] attaches; [`drive`] runs them all.

mod cgroup_log;
pub mod diagnose;
pub mod diff;
pub mod dist;
pub mod doctor;
mod drive;
pub mod export;
#[cfg(test)]
mod fixture;
pub mod heatmap;
pub mod host;
pub mod inflight;
mod input;
pub mod join;
pub mod latency;
mod outfile;
mod output;
pub mod pattern;
mod picture;
mod privileges;
mod progress;
pub mod record;
mod recording;
pub mod serve;
pub mod stacks;
pub mod standard;
mod start;
mod symbols;
pub mod top;
pub mod trace;

use std::io::Write;
use std::io::stderr;

use nvme_deep::model::ledger::Ledger;
use nvme_deep::model::untrusted::Line;
use nvme_deep::render::ledger::ledger as write_ledger;
use nvme_deep::render::theme::Theme;

/// Writes a ledger to stderr. A closed stderr is not an error.
fn say_ledger(ledger: &Ledger, detail: bool) {
    let theme = Theme { color: false };
    let _ = write_ledger(ledger, theme, detail, &mut stderr().lock());
}

/// Writes a line to stderr. A closed stderr is not an error.
fn eprint_note(text: &str) {
    let _ = writeln!(stderr(), "nvme-deep: {}", Line(text));
}
