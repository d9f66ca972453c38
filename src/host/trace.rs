// SPDX-License-Identifier: MIT OR Apache-2.0
//! `host trace`: the events of a target, as lines or in a recording.

use std::io::{BufWriter, Write, stderr};
use std::path::Path;

use crate::host::args::HostTraceArgs;
use crate::host::view::{ledger_text, target_json};
use crate::host::{Step, asked_for, lines, live, observe, write_ledger};
use crate::machine::System;
use crate::run::eprint_note;
use crate::run::recording::{FileSettings, FileWriter};
use crate::run::stdout::stdout;
use crate::units::{counted, size_text};
use anyhow::Result;

fn record(args: &HostTraceArgs, path: &Path) -> Result<()> {
    let settings = FileSettings::whole(path, args.force, &[]);
    let source = asked_for(&args.target)?;
    let mut file = FileWriter::of_target(&settings, source.target().clone(), &System::at("/"))?;
    let ended = live(source, args.target.duration, &mut |step| {
        match step {
            Step::Event(event, _) => file.target_event(event),
            Step::Pause => file.clock_readings(),
        }
        Ok(!file.has_failed())
    })?;
    file.target_controllers(&ended.controllers);
    let name = file.name();
    let ledger = ended.ledger.unwrap_or_default();
    let written = file.finish(ended.took, &ledger)?;
    let (commands, size) = (counted(ledger.commands, "command"), size_text(written.bytes));
    eprint_note(&format!("{name}: {commands}, {size}"));
    // a closed stderr is not an error
    let _ = ledger_text(&ledger, args.target.verbose, &mut stderr().lock());
    ended.early
}

/// Runs the command to its end.
///
/// # Errors
/// One sentence each, with the exit code of its kind.
pub fn run(args: &HostTraceArgs) -> Result<()> {
    if let Some(path) = &args.output {
        return record(args, path);
    }
    let mut out = BufWriter::new(stdout());
    let ended = observe(&args.target, &mut lines(args.target.json, &mut out))?;
    if args.target.json {
        target_json(&ended.target, &ended.controllers, &mut out)?;
    }
    write_ledger(ended.ledger.as_ref(), &args.target, &mut out)?;
    out.flush()?;
    ended.early
}
