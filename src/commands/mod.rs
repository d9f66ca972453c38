// SPDX-License-Identifier: MIT OR Apache-2.0
//! The subcommands, one file or directory each. [`start`] attaches; [`run`] contains the loop.

pub mod doctor;
mod drops;
#[cfg(test)]
mod fixture;
pub mod latency;
mod names;
mod output;
pub mod record;
mod recording;
mod replay;
mod run;
mod single;
pub mod stacks;
mod start;
mod symbols;
pub mod trace;

use std::io::Write;
use std::io::stderr;

/// Writes a line to stderr. A closed stderr is not an error.
fn say(text: &str) {
    let _ = writeln!(stderr(), "nvme-deep: {text}");
}
