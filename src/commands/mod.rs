// SPDX-License-Identifier: MIT OR Apache-2.0
//! The subcommands, a file or folder each; [`start`] attaches, [`run`] has the loop.

pub mod doctor;
pub mod latency;
mod output;
mod run;
pub mod stacks;
mod start;
pub mod trace;

use std::io::Write;
use std::io::stderr;

/// Writes a line to stderr. Nobody may be listening: that is no error.
fn say(text: &str) {
    let _ = writeln!(stderr(), "nvme-deep: {text}");
}
