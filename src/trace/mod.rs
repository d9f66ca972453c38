// SPDX-License-Identifier: MIT OR Apache-2.0
//! The `trace` command: every command as it happens.
//!
//! One thread reads the ring, and orders, renders and writes the events. If it is blocked (slow
//! reader, stopped terminal), the ring fills. The BPF side counts the events that find no room, and
//! another thread reports them during the run.

pub(crate) mod args;
mod writer;

use std::fs::File;
use std::io::stdout;
use std::os::fd::AsFd;

use crate::machine::System;
use anyhow::Result;

use self::writer::TraceWriter;
use crate::run::drive::{Form, Input, Live, Reader, drive, open_all};
use crate::run::eprint_note;
use crate::run::recording::{FileSettings, RecordingFile};
use crate::run::start::Preflight;
use crate::run::symbols::LiveStacks;
use crate::trace::args::{TimeArg, TraceOptions};

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
fn tee(options: &TraceOptions, system: &System) -> Result<Option<RecordingFile>> {
    let Some(path) = options.tee.as_deref() else {
        return Ok(None);
    };
    let file = FileSettings {
        path,
        force: options.force,
        inputs: &[],
        compress: true,
        redact: false,
        count: options.count,
        keep: None,
    };
    RecordingFile::create(&file, &options.settings, system).map(Some)
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
    let live = Live::new(ready, settings, options.run.duration);
    let input = Input::live(Live {
        exec: &options.exec.program,
        until: options.count.map_or(live.until, |_| ""),
        reader: Reader::Stdout,
        stacks,
        ..live
    });
    drive(input, &mut |start| {
        let out = output()?;
        warn_own_disk(&system, &out);
        file.iter_mut().for_each(RecordingFile::begin);
        let begin_ns = file.as_ref().map_or(start.begin_ns, RecordingFile::begin_ns);
        let writer = TraceWriter::new(options, out, begin_ns);
        Ok(writer.of_this_machine(file.take()))
    })
}

/// Prints the recordings of `--from`.
fn recorded(options: &TraceOptions) -> Result<()> {
    let settings = &options.settings;
    let pairs = settings.events().is_some_and(|events| events.pairs);
    let pairs = pairs || settings.filter.needs_submission();
    let replays = open_all(&options.from.files, settings, &|replay| {
        if options.time == TimeArg::Wall {
            replay.require_time_of_day("use --time rel")?;
        }
        if pairs { replay.require_pairs() } else { Ok(()) }
    })?;
    let form = Form {
        json: options.json,
        color: options.session.color.on_stdout(options.json),
        ledger_apart: true,
    };
    drive(Input::recordings(replays, form, false), &mut |start| {
        let has_submitters = start.recording.is_some_and(|replay| replay.info().submitters);
        let writer = TraceWriter::new(options, output()?, start.begin_ns);
        Ok(writer.of_recording(has_submitters))
    })
}

#[cfg(test)]
#[cfg(feature = "live")]
mod tests;
