// SPDX-License-Identifier: MIT OR Apache-2.0
//! `host trace`: the events of a target, as lines or in a recording.

use std::io::{Write, stderr};
use std::path::Path;

use crate::host::view::{event_json, event_text, ledger_text, target_json};
use crate::machine::System;
use crate::model::target::{HostController, HostEvent, name_of};
use crate::units::{counted, size_text};
use anyhow::Result;

use super::{Lines, Taker, attach, live, observe, write_ledger};
use crate::host::args::HostTraceArgs;
use crate::run::eprint_note;
use crate::run::recording::{FileSettings, FileWriter};

impl Taker<HostEvent> for Lines {
    fn event(&mut self, event: &HostEvent, controllers: &[HostController]) -> Result<()> {
        let name = name_of(controllers, event.ctrl());
        match self.json {
            true => event_json(event, &name, &mut self.out)?,
            false => event_text(event, &name, &mut self.out)?,
        }
        Ok(())
    }

    fn pause(&mut self) -> Result<bool> {
        self.out.flush()?;
        Ok(true)
    }
}

impl Taker<HostEvent> for FileWriter {
    fn event(&mut self, event: &HostEvent, _controllers: &[HostController]) -> Result<()> {
        self.target_event(event);
        Ok(())
    }

    fn pause(&mut self) -> Result<bool> {
        self.clock_readings();
        Ok(!self.has_failed())
    }
}

fn record(args: &HostTraceArgs, path: &Path) -> Result<()> {
    let settings = FileSettings::whole(path, args.force, &[]);
    let source = attach(&args.target)?;
    let mut file = FileWriter::of_target(&settings, source.target().clone(), &System::at("/"))?;
    let ended = live(source, args.target.duration, &mut file)?;
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
    let mut lines = Lines::new(args.target.json);
    let ended = observe(&args.target, &mut lines)?;
    let Lines { json, mut out } = lines;
    if json {
        target_json(&ended.target, &ended.controllers, &mut out)?;
    }
    write_ledger(ended.ledger.as_ref(), &args.target, &mut out)?;
    out.flush()?;
    ended.early
}
