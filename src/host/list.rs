// SPDX-License-Identifier: MIT OR Apache-2.0
//! `host list`: the targets of this machine.

use std::io::{BufWriter, Write};

use crate::host::view::targets_text;
use crate::machine::System;
use crate::view::json::typed_line;
use anyhow::Result;

use crate::host::args::HostListArgs;
use crate::run::stdout::stdout;

/// Runs the command.
///
/// # Errors
/// If the output cannot be written.
pub fn run(args: &HostListArgs) -> Result<()> {
    let targets = System::at("/").targets();
    let mut out = BufWriter::new(stdout());
    if args.json {
        for target in &targets {
            typed_line("host_found", target, &mut out)?;
        }
    } else {
        targets_text(&targets, &mut out)?;
    }
    out.flush()?;
    Ok(())
}
