// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the commands share: arguments ([`args`]), attaching ([`start`]), the event loop ([`drive`]),
//! output files, exit codes.

pub(crate) mod args;
mod cgroup_log;
pub(crate) mod drive;
pub(crate) mod exit;
#[cfg(test)]
pub(crate) mod fixture;
pub(crate) mod inflight;
pub(crate) mod input;
pub(crate) mod outfile;
pub(crate) mod output;
pub(crate) mod picture;
pub(crate) mod privileges;
mod progress;
pub(crate) mod recording;
pub(crate) mod standard;
pub(crate) mod start;
pub(crate) mod symbols;

use std::ffi::OsString;
use std::io::{Write, stderr};
use std::process::ExitCode;

use crate::model::ledger::Ledger;
use crate::model::untrusted::Line;
use crate::view::ledger::ledger as write_ledger;
use crate::view::theme::Theme;
use anyhow::Result;

use crate::cli::{Args, Command};
use crate::run::args::session::SessionOptions;
use crate::run::args::{refused, words};
use crate::run::standard::{flush, has_unicode};
use crate::view::charset;
use clap::Parser;

/// The program: parses the arguments, runs the command, and reports how it ended.
pub fn program(args: impl Iterator<Item = OsString>) -> ExitCode {
    let words = words::joined(args);
    let args = match Args::try_parse_from(&words) {
        Ok(args) => args,
        Err(refused) => return refused::explain(&refused, &words),
    };
    if !has_unicode() {
        charset::use_ascii();
    }
    exit::end(run(args.command).and_then(|()| Ok(flush()?)))
}

/// Parses and runs a command line, for fuzzing.
///
/// # Errors
/// A wrong command line, or what the command failed with.
pub fn execute(words: &[String]) -> Result<()> {
    run(Args::try_parse_from(words)?.command)
}

/// Runs a command.
fn run(command: Command) -> Result<()> {
    match command {
        Command::Top(args) => crate::top::run(&args.checked()?),
        Command::Latency(args) => crate::latency::run(&args.checked()?),
        Command::Trace(args) => crate::trace::run(&args.checked()?),
        Command::Stacks(args) => crate::stacks::run(&args.checked()?),
        Command::Record(args) => crate::record::run(&args.checked()?),
        Command::Diagnose(args) => crate::diagnose::run(&args.checked()?),
        Command::Inflight(args) => crate::inflight::run(&args),
        Command::Heatmap(args) => crate::heatmap::run(&args.checked()?),
        Command::Pattern(args) => crate::pattern::run(&args.checked()?),
        Command::Export(args) => crate::export::run(&args.options()?),
        Command::Diff(args) => crate::diff::run(&args),
        Command::Host(args) => crate::host::run(&args),
        Command::Join(args) => crate::join::run(&args),
        Command::Serve(args) => crate::serve::run(&args.checked()?),
        Command::Doctor(args) => crate::doctor::run(&args),
        Command::Dist(args) => crate::dist::run(&args),
    }
}

/// Writes a ledger to stderr. A closed stderr is not an error.
pub(crate) fn say_ledger(ledger: &Ledger, detail: bool) {
    let theme = Theme { color: false };
    let _ = write_ledger(ledger, theme, detail, &mut stderr().lock());
}

/// Writes a line to stderr. A closed stderr is not an error.
pub(crate) fn eprint_note(text: &str) {
    let _ = writeln!(stderr(), "nvme-deep: {}", Line(text));
}
