// SPDX-License-Identifier: MIT OR Apache-2.0
//! `host trace`: the events of a target, as lines or in a recording.

use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use crate::host::view::{HostJson, HostSink, HostText};
use crate::machine::System;
use crate::model::target::name_of;
use crate::units::{counted, size_text};
use anyhow::Result;

use super::{input, write_ledger};
use crate::host::args::HostTraceArgs;
use crate::run::drive::{TargetInput, TargetStep};
use crate::run::eprint_note;
use crate::run::recording::{FileSettings, FileWriter};
use crate::run::stdout::stdout;

/// Writes a line for each event, and the ledger. `detail`: all lines of it.
///
/// # Errors
/// One sentence each, with the exit code of its kind.
pub fn lines(input: TargetInput<'_>, json: bool, detail: bool) -> Result<()> {
    // the controllers of one of this machine are not known before its events
    let is_live = matches!(input, TargetInput::Live(..));
    input.read(&mut |run| {
        let mut out = BufWriter::new(stdout());
        if json && !is_live {
            HostJson::target(run.target(), run.controllers(), &mut out)?;
        }
        loop {
            match run.next()? {
                TargetStep::Event(event) => {
                    let name = name_of(run.controllers(), event.ctrl());
                    match json {
                        true => HostJson.event(&event, &name, &mut out)?,
                        false => HostText.event(&event, &name, &mut out)?,
                    }
                }
                TargetStep::Tick => out.flush()?,
                TargetStep::Ended => break,
            }
        }
        if json && is_live {
            HostJson::target(run.target(), run.controllers(), &mut out)?;
        }
        if let Some(ledger) = &run.ledger {
            write_ledger(ledger, json, detail, &mut out)?;
        }
        out.flush()?;
        Ok(())
    })
}

/// The file of `-o`.
#[derive(Clone, Copy)]
pub struct Output<'o> {
    /// Its path.
    pub path: &'o Path,
    /// Replace it if it exists.
    pub force: bool,
    /// Files that are read.
    pub inputs: &'o [PathBuf],
    /// All lines of the ledger.
    pub detail: bool,
}

/// Records a target, or what was imported.
///
/// # Errors
/// One sentence each, with the exit code of its kind.
pub fn record(input: TargetInput<'_>, output: Output<'_>) -> Result<()> {
    let settings = FileSettings {
        path: output.path,
        force: output.force,
        inputs: output.inputs,
        redact: false,
        count: None,
        keep: None,
    };
    let system = matches!(input, TargetInput::Live(..)).then(|| System::at("/"));
    input.read(&mut |run| {
        let mut file = FileWriter::of_target(&settings, run.target().clone(), system.as_ref())?;
        loop {
            match run.next()? {
                TargetStep::Event(event) => file.target_event(&event),
                TargetStep::Tick => {
                    file.clock_readings();
                    if file.has_failed() {
                        run.stop()?;
                    }
                }
                TargetStep::Ended => break,
            }
        }
        let Some(ledger) = &run.ledger else {
            return Ok(());
        };
        file.target_controllers(run.controllers());
        let name = file.name();
        let file = file.finish(run.took, ledger)?;
        eprint_note(&format!(
            "{name}: {}, {}",
            counted(ledger.commands, "command"),
            size_text(file.bytes)
        ));
        write_ledger(ledger, false, output.detail, &mut std::io::sink())
    })
}

/// Runs the command to its end.
///
/// # Errors
/// One sentence each, with the exit code of its kind.
pub fn run(args: &HostTraceArgs) -> Result<()> {
    let input = input(&args.target, args.duration, args.verbose)?;
    match &args.output {
        None => lines(input, args.json, args.verbose),
        Some(path) => {
            let output = Output { path, force: args.force, inputs: &[], detail: args.verbose };
            record(input, output)
        }
    }
}
