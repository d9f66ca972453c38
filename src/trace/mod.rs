// SPDX-License-Identifier: MIT OR Apache-2.0
//! The `trace` command: every command as it happens.
//!
//! One thread reads the ring, and orders, renders and writes the events. If it is blocked (slow
//! reader, stopped terminal), the ring fills. The BPF side counts the events that find no room, and
//! they are reported when it goes on.

pub(crate) mod args;
mod writer;

use std::fs::File;
use std::io::stdout;
use std::os::fd::AsFd;

use crate::machine::System;
use anyhow::Result;

use self::writer::{TraceWriter, clock};
use crate::run::drive::{Live, each, open_all};
use crate::run::eprint_note;
use crate::run::recording::{FileSettings, FileWriter};
use crate::run::start::{LiveStacks, Preflight, Session};
use crate::settings::OriginDetail;
use crate::trace::args::{TimeArg, TraceOptions};

const NO_WALL_CLOCK: &str = "the recording has no wall clock: times are seconds since it began";

/// The output file.
fn output() -> Result<File> {
    Ok(File::from(stdout().as_fd().try_clone_to_owned()?))
}

/// Warns if the output is on an NVMe disk.
fn warn_own_disk(system: &System, out: &File) {
    if let Some(disk) = system.nvme_disk_of(out) {
        eprint_note(&format!(
            "stdout is a file on {disk}: writing the trace makes commands, which are traced too. \
             Better write to a tmpfs, or leave that controller out (--ctrl)"
        ));
    }
}

/// Creates the file of `--tee`.
fn tee(options: &TraceOptions, system: &System) -> Result<Option<FileWriter>> {
    let Some(path) = options.tee.as_deref() else {
        return Ok(None);
    };
    let file = FileSettings {
        path,
        force: options.force,
        inputs: &[],
        redact: false,
        count: options.count,
        keep: None,
    };
    FileWriter::create(&file, &options.settings, system).map(Some)
}

/// Runs the command to its end.
///
/// # Errors
/// One sentence each, with the exit code of its kind. Nothing stays attached.
pub fn run(options: &TraceOptions) -> Result<()> {
    if options.from.is_empty() { live(options) } else { recorded(options) }
}

fn live(options: &TraceOptions) -> Result<()> {
    let settings = &options.settings;
    let ready = Preflight::check(settings)?;
    let stacks = settings.stack().map(|stack| LiveStacks::new(stack.at));
    let mut file = tee(options, &ready.system)?;
    let system = ready.system.clone();
    let live = Live {
        exec: &options.exec.program,
        advice: "stdout is not read fast enough: a larger --buffer, --slow, --stages=none or filters \
                 (--ctrl, --opcode) help",
        stacks,
        ..Live::new(ready, settings, options.run.duration)
    };
    live.run(|run| {
        let out = output()?;
        warn_own_disk(&system, &out);
        let origin = run.session().map(Session::origin).unwrap_or_default();
        if let Some(file) = &mut file {
            file.shows(origin);
            file.begin();
        }
        let begin_ns = file.as_ref().map_or(run.begin_ns, FileWriter::begin_ns);
        let clock = clock(options, begin_ns, Some(0));
        let writer = TraceWriter::new(options, out, clock, settings.stage_set);
        let writer = writer.with_submitters(origin == OriginDetail::Submitters);
        writer.with_header(&run.header).of_this_machine(file).read(run)
    })
}

/// Prints the recordings of `--from`.
fn recorded(options: &TraceOptions) -> Result<()> {
    let settings = &options.settings;
    let may_have_two = options.events.submits && !settings.filter.needs_submission();
    let files = open_all(&options.from.files, settings, &|reader| match may_have_two {
        true => Ok(()),
        false => reader.require_pairs(),
    })?;
    if let Some(file) = files.iter().find(|file| file.clock().wall_ns.is_none()) {
        if options.time == Some(TimeArg::Wall) {
            return Err(file.timeless("use --time rel"));
        }
        if options.clock() == TimeArg::Wall {
            eprint_note(NO_WALL_CLOCK);
        }
    }
    each(files, options.json, true, &mut |run| {
        let wall_ns = run.file().and_then(|file| file.clock().wall_ns);
        let clock = clock(options, run.begin_ns, wall_ns);
        let stage_set = run.file().map_or(settings, |file| &file.settings).stage_set;
        let writer = TraceWriter::new(options, output()?, clock, stage_set);
        let has_submitters = run.file().is_some_and(|file| file.info().submitters);
        writer.with_header(&run.header).with_submitters(has_submitters).read(run)
    })
}
