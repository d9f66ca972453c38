// SPDX-License-Identifier: MIT OR Apache-2.0
//! `host latency`: histograms of a target.

use std::io::{BufWriter, Write};

use crate::model::event::EventKind;
use crate::model::report::parts::{PartKey, PartRows};
use crate::model::target::{HostEvent, Part, name_of};
use crate::model::text::word;
use crate::nvme::subject::subject;
use crate::view::parts::{parts_json, parts_text};
use crate::view::theme::Theme;
use anyhow::Result;

use super::{Step, observe, write_ledger};
use crate::host::args::HostLatencyArgs;
use crate::run::stdout::stdout;

/// Runs the command to its end.
///
/// # Errors
/// One sentence each, with the exit code of its kind.
pub fn run(args: &HostLatencyArgs) -> Result<()> {
    let mut rows = PartRows::new();
    let ended = observe(&args.target, &mut |step| {
        if let Step::Event(HostEvent::Nvme(event), _) = step
            && let EventKind::Command(id, _, outcome) = &event.what
        {
            let parts = outcome.timeline.as_ref().and_then(Part::of).unwrap_or_default();
            rows.entry((id.ctrl, id.nsid, id.opcode)).or_default().add(&parts);
        }
        Ok(true)
    })?;
    let name_of = |ctrl| name_of(&ended.controllers, ctrl);
    let mut out = BufWriter::new(stdout());
    if args.target.json {
        parts_json("host_row", &rows, &name_of, &mut out)?;
    } else {
        let color = args.color.on_stdout(false);
        if rows.is_empty() {
            writeln!(out, "no finished command to show")?;
        }
        let shown =
            |(ctrl, cdw1, opcode): &PartKey| subject(&word(&name_of(*ctrl)), Some(*cdw1), *opcode);
        parts_text(&rows, &shown, false, Theme { color }, &mut out)?;
    }
    write_ledger(ended.ledger.as_ref(), &args.target, &mut out)?;
    out.flush()?;
    ended.early
}
