// SPDX-License-Identifier: MIT OR Apache-2.0
//! `host trace`: the events of a target, as lines or in a recording.

use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use crate::host::view::{HostJson, HostSink, HostText};
use crate::machine::System;
use crate::model::target::{HostController, TargetInfo, name_of};
use crate::units::{counted, size_text};
use anyhow::{Context, Result};

use super::{input, write_ledger};
use crate::host::args::HostTraceArgs;
use crate::run::drive::{Consumer, End, Feed, Input, Item, Moment, Start, Turn, drive};
use crate::run::eprint_note;
use crate::run::recording::{FileSettings, RunWriter};
use crate::run::stdout::{Stdout, stdout};

/// Writes a line for each event.
pub struct Lines {
    /// JSON instead of text.
    json: bool,
    /// All lines of the ledger.
    detail: bool,
    /// In JSON, the target comes before its events if all its controllers are known then.
    before: Option<TargetInfo>,
    controllers: Vec<HostController>,
    out: BufWriter<Stdout>,
}

impl Lines {
    /// Lines of events that come now (`is_live`), or that were recorded.
    pub fn new(start: &Start<'_>, json: bool, detail: bool, is_live: bool) -> Self {
        Self {
            json,
            detail,
            before: start.target.filter(|_| json && !is_live).cloned(),
            controllers: Vec::new(),
            out: BufWriter::new(stdout()),
        }
    }
}

impl Consumer for Lines {
    fn item(&mut self, item: &Item<'_>, _feed: &mut Feed<'_>) -> Result<()> {
        match item {
            Item::TargetControllers(all) => {
                self.controllers = all.to_vec();
                if let Some(target) = &self.before {
                    HostJson::target(target, all, &mut self.out)?;
                }
            }
            Item::Target(event) => {
                let name = name_of(&self.controllers, event.ctrl());
                match self.json {
                    true => HostJson.event(event, &name, &mut self.out)?,
                    false => HostText.event(event, &name, &mut self.out)?,
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn tick(&mut self, _moment: &Moment<'_>) -> Result<Turn> {
        self.out.flush()?;
        Ok(Turn::Items)
    }

    fn finish(mut self, end: End<'_>) -> Result<Result<()>> {
        let Some(end) = end.target else {
            return Ok(Ok(()));
        };
        if self.json && self.before.is_none() {
            HostJson::target(end.info, end.controllers, &mut self.out)?;
        }
        if let Some(ledger) = end.ledger {
            write_ledger(ledger, self.json, self.detail, &mut self.out)?;
        }
        self.out.flush()?;
        Ok(Ok(()))
    }
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
    /// The events are of this machine, and begin now.
    pub is_live: bool,
}

/// Puts each event into a file.
struct Writer {
    file: RunWriter,
    detail: bool,
}

impl Consumer for Writer {
    fn item(&mut self, item: &Item<'_>, _feed: &mut Feed<'_>) -> Result<()> {
        self.file.item(item);
        Ok(())
    }

    fn tick(&mut self, _moment: &Moment<'_>) -> Result<Turn> {
        self.file.clock_readings();
        Ok(match self.file.has_failed() {
            true => Turn::Done,
            false => Turn::Items,
        })
    }

    fn finish(mut self, end: End<'_>) -> Result<Result<()>> {
        let Some((target, ledger)) = end.target.and_then(|t| Some((t.controllers, t.ledger?)))
        else {
            return Ok(Ok(()));
        };
        self.file.target_controllers(target);
        let name = self.file.name();
        let file = self.file.finish(end.took, ledger)?;
        eprint_note(&format!(
            "{name}: {}, {}",
            counted(ledger.commands, "command"),
            size_text(file.bytes)
        ));
        write_ledger(ledger, false, self.detail, &mut std::io::sink())?;
        Ok(Ok(()))
    }
}

/// Records a target, or what was imported.
///
/// # Errors
/// One sentence each, with the exit code of its kind.
pub fn record(input: Input<'_>, output: Output<'_>) -> Result<()> {
    let settings = FileSettings {
        path: output.path,
        force: output.force,
        inputs: output.inputs,
        redact: false,
        count: None,
        keep: None,
    };
    let system = output.is_live.then(|| System::at("/"));
    drive(input, &mut |start| {
        let target = start.target.context("only a target is recorded here")?;
        Ok(Writer {
            file: RunWriter::of_target(&settings, target.clone(), system.as_ref())?,
            detail: output.detail,
        })
    })
}

/// Runs the command to its end.
///
/// # Errors
/// One sentence each, with the exit code of its kind.
pub fn run(args: &HostTraceArgs) -> Result<()> {
    let input = input(&args.target, args.duration, args.verbose)?;
    let is_live = args.target.from.is_none();
    match &args.output {
        None => drive(input, &mut |start| Ok(Lines::new(start, args.json, args.verbose, is_live))),
        Some(path) => {
            let output =
                Output { path, force: args.force, inputs: &[], detail: args.verbose, is_live };
            record(input, output)
        }
    }
}
