// SPDX-License-Identifier: MIT OR Apache-2.0
//! The list of targets as text.

use std::io;
use std::io::Write;

use crate::machine::targets::FoundTarget;
use crate::model::text::Text;
use crate::view::header::{entry_at, fill};

/// Column of texts.
const INDENT: usize = 14;

fn texts(all: &[Text]) -> Vec<String> {
    all.iter().map(ToString::to_string).collect()
}

/// Writes the targets as text.
///
/// # Errors
/// Errors of the writer.
pub fn targets_text(targets: &[FoundTarget], out: &mut dyn Write) -> io::Result<()> {
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
        if let Some(id) = &target.build_id {
            text += &format!(", build id {id}");
        }
        if !target.subsystems.is_empty() {
            text += &format!(", subsystems {}", texts(&target.subsystems).join(", "));
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
