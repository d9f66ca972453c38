// SPDX-License-Identifier: MIT OR Apache-2.0
//! `host trace`: the events of a target, as lines or in a recording.

use std::io::BufWriter;
use std::path::Path;

use crate::host::args::HostTraceArgs;
use crate::host::{Step, asked_for, lines, live, observe, write_ledger};
use crate::machine::System;
use crate::run::recording::{FileSettings, FileWriter};
use crate::run::stdout::stdout;
use crate::run::{eprint_note, say_ledger};
use crate::target::HostEvent;
use crate::units::{counted, size_text};
use crate::view::json::typed_line;
use anyhow::Result;
use serde_json::json;

fn record(args: &HostTraceArgs, path: &Path) -> Result<()> {
    let settings = FileSettings::whole(path, args.force, &[]);
    let source = asked_for(&args.target)?;
    let mut file = FileWriter::of_target(&settings, source.target().clone(), &System::at("/"))?;
    let mut known = 0;
    let ended = live(source, args.target.duration, &mut |step| {
        match step {
            Step::Event(HostEvent::Nvme(event), controllers) => {
                if controllers.len() > known {
                    file.target_controllers(controllers);
                    known = controllers.len();
                }
                file.event(event);
            }
            Step::Event(..) => {}
            Step::Pause => file.clock_readings(),
        }
        Ok(!file.has_failed())
    })?;
    let name = file.name();
    let ledger = ended.ledger.unwrap_or_default();
    let written = file.finish(ended.took, &ledger)?;
    let (commands, size) = (counted(ledger.matched, "command"), size_text(written.bytes));
    eprint_note(&format!("{name}: {commands}, {size}"));
    say_ledger(&ledger, args.target.verbose);
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
        let line = json!({ "target": ended.target, "controllers": ended.controllers });
        typed_line("host_target", &line, &mut out)?;
    }
    write_ledger(ended.ledger.as_ref(), &args.target, &mut out)?;
    ended.early
}
