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

use std::io::{Write, stderr};

use anyhow::Result;
use nvme_deep::model::ledger::Ledger;
use nvme_deep::model::untrusted::Line;
use nvme_deep::view::ledger::ledger as write_ledger;
use nvme_deep::view::theme::Theme;

use crate::cli::Command;
use crate::cli::session::SessionOptions;

/// Runs a command.
///
/// # Errors
/// Those of the command.
pub fn run(command: Command) -> Result<()> {
    match command {
        Command::Top(args) => top::run(&args.checked()?),
        Command::Latency(args) => latency::run(&args.checked()?),
        Command::Trace(args) => trace::run(&args.checked()?),
        Command::Stacks(args) => stacks::run(&args.checked()?),
        Command::Record(args) => record::run(&args.checked()?),
        Command::Diagnose(args) => diagnose::run(&args.checked()?),
        Command::Inflight(args) => inflight::run(&args),
        Command::Heatmap(args) => heatmap::run(&args.checked()?),
        Command::Pattern(args) => pattern::run(&args.checked()?),
        Command::Export(args) => export::run(&args.options()?),
        Command::Diff(args) => diff::run(&args),
        Command::Host(args) => host::run(&args),
        Command::Join(args) => join::run(&args),
        Command::Serve(args) => serve::run(&args.checked()?),
        Command::Doctor(args) => doctor::run(&args),
        Command::Dist(args) => dist::run(&args),
    }
}

/// Writes a ledger to stderr. A closed stderr is not an error.
fn say_ledger(ledger: &Ledger, detail: bool) {
    let theme = Theme { color: false };
    let _ = write_ledger(ledger, theme, detail, &mut stderr().lock());
}

/// Writes a line to stderr. A closed stderr is not an error.
fn eprint_note(text: &str) {
    let _ = writeln!(stderr(), "nvme-deep: {}", Line(text));
}
