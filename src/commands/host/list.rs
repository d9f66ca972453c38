// SPDX-License-Identifier: MIT OR Apache-2.0
//! `host list`: the targets of this machine.

use std::io::{BufWriter, Write};

use anyhow::Result;
use nvme_deep::machine::System;
use nvme_deep::view::host::{targets_json, targets_text};

use crate::cli::host::HostListArgs;
use crate::commands::standard::stdout;

/// Runs the command.
///
/// # Errors
/// If the output cannot be written.
pub fn run(args: &HostListArgs) -> Result<()> {
    let targets = System::at("/").targets();
    let mut out = BufWriter::new(stdout());
    if args.json {
        targets_json(&targets, &mut out)?;
    } else {
        targets_text(&targets, &mut out)?;
    }
    out.flush()?;
    Ok(())
}
