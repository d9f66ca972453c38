// SPDX-License-Identifier: MIT OR Apache-2.0
//! `host list`: the targets of this machine.

use std::io;
use std::io::{BufWriter, Write};

use crate::machine::System;
use crate::machine::targets::FoundTarget;
use crate::view::header::{entry_at, fill};
use crate::view::json::typed_line;
use anyhow::Result;

use crate::host::args::HostListArgs;
use crate::run::stdout::stdout;

/// Column of texts.
const INDENT: usize = 14;

fn targets_text(targets: &[FoundTarget], out: &mut dyn Write) -> io::Result<()> {
    if targets.is_empty() {
        let text = "nothing that this user can see serves NVMe here: the module nvmet is not loaded, \
                    and there is no QEMU with an NVMe controller and no SPDK target";
        for line in fill(text, 0) {
            writeln!(out, "{line}")?;
        }
    }
    for target in targets {
        let pid = target.pid.map_or_else(String::new, |pid| format!(" {pid}"));
        let mut text = target.binary.to_string();
        if !target.subsystems.is_empty() {
            let names: Vec<&str> = target.subsystems.iter().map(|name| &**name).collect();
            text += &format!(", subsystems {}", names.join(", "));
        }
        entry_at(INDENT, &format!("{}{pid}", target.kind.name()), &text, out)?;
        for way in &target.ways {
            let mark = if way.usable { "" } else { "no: " };
            let how = format!("{mark}{}", way.how);
            entry_at(INDENT, &format!("  {}", way.by), &how, out)?;
        }
    }
    Ok(())
}

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
