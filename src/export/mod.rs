// SPDX-License-Identifier: MIT OR Apache-2.0
//! The `export` command: recordings in the formats of other programs.

use std::fs::File;
use std::io;
use std::io::BufWriter;
use std::path::Path;
use std::time::Duration;

use crate::machine::cgroup_paths::Pseudonyms;
use crate::model::event::Event;
use crate::model::ledger::{Accuracy, EventClass, Ledger, Shown};
use crate::model::origin::Cgroups;
use crate::model::span::Span;
use crate::model::untrusted::{Untrusted, printable};
use crate::units::size_text;
use crate::view::export::csv::Csv;
use crate::view::export::hlog::Hlog;
use crate::view::export::ndjson::Ndjson;
#[cfg(feature = "parquet")]
use crate::view::export::parquet::Parquet;
use crate::view::export::perfetto::{Begins, Perfetto};
use crate::view::export::{Entry, Sink};
use anyhow::{Error, Result};

use crate::run::args::export::{ExportOptions, FormatArg};
use crate::run::drive::replay::Replay;
use crate::run::drive::{Consumer, Feed, Item, Names, again, open_all, scan};
use crate::run::outfile::{OutFile, Rules};
use crate::run::{eprint_note, say_ledger};

/// What was exported.
#[derive(Default)]
pub struct Counts {
    /// Commands.
    pub commands: u64,
    /// Other events.
    events: u64,
    /// Events that the format has no place for.
    left_out: u64,
    /// Commands that the filters leave out.
    unselected: u64,
    /// Recordings with an exact ledger, of those that are read to the end.
    exact: u64,
    /// Recordings that are damaged or have no end.
    incomplete: u64,
}

/// Puts the items of a recording into the format.
struct Copy<'a> {
    options: &'a ExportOptions,
    sink: &'a mut dyn Sink,
    counts: &'a mut Counts,
    shown: Shown,
    unselected: u64,
    failed: &'a dyn Fn(io::Error) -> Error,
    /// Other names instead of those of cgroups, with `--redact`.
    redacted: Option<(Pseudonyms, Cgroups)>,
}

impl Consumer for Copy<'_> {
    const SHOWS: bool = false;

    fn item(&mut self, item: &Item<'_>, feed: &mut Feed<'_>) -> Result<()> {
        let done = match item {
            Item::Event(event) => self.event(event, feed.names),
            Item::Unselected(event) => {
                let is_command = EventClass::of(&event.what) == EventClass::Command;
                self.unselected += u64::from(is_command);
                Ok(())
            }
            Item::Stack(id, frames) => self.sink.stack(*id, frames),
            Item::Clock(wall_ns) => self.sink.clock(*wall_ns),
            Item::Cgroups(all) => {
                if let Some((names, cgroups)) = &mut self.redacted {
                    let all = all.iter().map(|one| (one.id, names.path(&one.path)));
                    cgroups.extend(all);
                }
                Ok(())
            }
            _ => Ok(()),
        };
        done.map_err(self.failed)
    }
}

impl Copy<'_> {
    fn event(&mut self, event: &Event, names: &mut Names) -> io::Result<()> {
        let redacted = self.options.redact.then(|| event.redacted());
        let event = redacted.as_ref().unwrap_or(event);
        let (disk, set, cgroups) = names.of_event(event);
        let cgroups = self.redacted.as_ref().map_or(cgroups, |(_, cgroups)| cgroups);
        let taken = self.sink.event(&Entry { event, disk, set, cgroups })?;
        self.shown.add(EventClass::of(&event.what));
        match (taken, Span::of(event)) {
            (false, _) => self.counts.left_out += 1,
            (true, Some(_)) => self.counts.commands += 1,
            (true, None) => self.counts.events += 1,
        }
        Ok(())
    }
}

/// Creates the file of these options.
///
/// # Errors
/// If it exists, is one of the inputs, or cannot be written; one sentence.
pub fn create(options: &ExportOptions) -> Result<(OutFile, File)> {
    let rules = Rules {
        force: options.force,
        inputs: &options.files,
        is_binary: matches!(options.format, FormatArg::Perfetto | FormatArg::Parquet),
        ..Rules::default()
    };
    OutFile::create(&options.output, &rules)
}

/// Looks for the begins of commands.
struct Looking(Begins);

impl Consumer for Looking {
    const SHOWS: bool = false;

    fn item(&mut self, item: &Item<'_>, _feed: &mut Feed<'_>) -> Result<()> {
        if let Item::Event(event) = item {
            self.0.add(event);
        }
        Ok(())
    }
}

/// The begins of commands, from a first pass over a recording.
///
/// # Errors
/// If it cannot be read; one sentence.
pub fn begins(options: &ExportOptions, replay: &Replay) -> Result<Begins> {
    let mut looking = Looking(Begins::default());
    let mut replay = again(replay, &options.settings, "--format perfetto")?;
    replay.show_progress();
    scan(&mut replay, &mut looking)?;
    Ok(looking.0)
}

fn sink(
    options: &ExportOptions,
    replays: &[Replay],
    out: File,
    output: &OutFile,
) -> Result<Box<dyn Sink>> {
    let out = BufWriter::with_capacity(1 << 16, out);
    Ok(match options.format {
        FormatArg::Csv => Box::new(Csv::new(out)),
        FormatArg::Ndjson => Box::new(Ndjson::new(out)),
        FormatArg::Hlog => Box::new(Hlog::new(out, options.interval)),
        FormatArg::Perfetto => {
            let mut found = Begins::default();
            for replay in replays {
                found = begins(options, replay)?;
            }
            Box::new(Perfetto::new(out, found, options.interval))
        }
        #[cfg(feature = "parquet")]
        FormatArg::Parquet => Box::new(Parquet::new(out).map_err(|e| output.failed(e))?),
        #[cfg(not(feature = "parquet"))]
        FormatArg::Parquet => {
            // the options refuse it before
            let text = format!("{}: built without Parquet", output.name());
            return Err(Error::msg(text));
        }
    })
}

/// Writes the accuracy of a recording.
fn show(ledger: &Ledger) {
    say_ledger(ledger, false);
}

/// Returns whether a recording is exact. Of several, the others are reported.
fn report(ledger: &Ledger, path: &Path, of_several: bool) -> bool {
    let exact = ledger.accuracy() == Accuracy::Exact;
    if of_several && !exact {
        eprint_note(&format!("{}:", printable(path)));
        show(ledger);
    }
    exact
}

/// The name of a recording in the output. A file name may have the name of a machine.
fn name_of(options: &ExportOptions, path: &Path, number: usize) -> Untrusted {
    if options.redact {
        return number.to_string().into();
    }
    Untrusted::from_os(path.file_name().unwrap_or(path.as_os_str()))
}

/// Adds a recording. Returns its ledger, and an error if it is damaged or has no end; the events
/// before that are added.
///
/// # Errors
/// If the recording cannot be read, or the format not be written; one sentence.
pub fn add(
    options: &ExportOptions,
    (mut replay, name): (Replay, &Untrusted),
    sink: &mut dyn Sink,
    counts: &mut Counts,
    failed: &dyn Fn(io::Error) -> Error,
) -> Result<(Option<Ledger>, Result<()>)> {
    let mut info = replay.info().clone();
    if options.redact {
        info.redact();
    }
    sink.begin(name, &info).map_err(failed)?;
    let mut copy = Copy {
        options,
        sink,
        counts,
        shown: Shown::default(),
        unselected: 0,
        failed,
        redacted: options.redact.then(Default::default),
    };
    scan(&mut replay, &mut copy)?;
    let (shown, unselected) = (copy.shown, copy.unselected);
    counts.unselected += unselected;
    let (ledger, at, ended) = match replay.end() {
        Ok((ledger, at)) => (Some(ledger), at, Ok(())),
        Err(error) => (None, Duration::ZERO, Err(error)),
    };
    let mut shows = ledger.clone();
    if let Some(trace) = shows.as_mut().and_then(|l| l.trace.as_mut()) {
        trace.show(&shown, unselected);
    }
    sink.end(shows.as_ref(), at).map_err(failed)?;
    Ok((ledger, ended.and(replay.check_complete())))
}

/// Reports what was written.
fn close(options: &ExportOptions, name: &str, counts: &Counts, bytes: Option<u64>) {
    let Counts { commands, events, left_out, unselected, exact, incomplete } = counts;
    let mut text = format!("{name}: {commands} commands");
    if *events > 0 {
        text += &format!(", {events} other events");
    }
    if let Some(bytes) = bytes {
        text += &format!(", {}", size_text(bytes));
    }
    if *left_out > 0 {
        text += &format!("; {left_out} other events have no place in this format");
    }
    if *unselected > 0 {
        text += &format!("; the filters leave {unselected} commands out");
    }
    if options.files.len() > 1 {
        text += &format!("; {exact} of {} recordings are exact", options.files.len());
        if *incomplete > 0 {
            text += &format!(", {incomplete} damaged or without an end");
        }
    }
    eprint_note(&text);
}

/// Runs the command to its end.
///
/// # Errors
/// One sentence each, with the exit code of its kind.
pub fn run(options: &ExportOptions) -> Result<()> {
    // refuse what cannot be exported before anything is written
    let replays = open_all(&options.files, &options.settings, &Replay::require_pairs)?;
    let (output, out) = create(options)?;
    let mut sink = sink(options, &replays, out, &output)?;
    let failed = |error| output.failed(error);
    let mut counts = Counts::default();
    let (mut only, mut verdict) = (None, Ok(()));
    for (n, replay) in replays.into_iter().enumerate() {
        let path = replay.file().to_owned();
        let name = name_of(options, &path, n + 1);
        let (ledger, ended) = add(options, (replay, &name), &mut *sink, &mut counts, &failed)?;
        if let Some(ledger) = &ledger {
            let exact = report(ledger, &path, options.files.len() > 1);
            counts.exact += u64::from(exact && ended.is_ok());
        }
        only = ledger;
        if let Err(error) = ended {
            counts.incomplete += 1;
            // each has its sentence; the last one ends the program
            if let Err(earlier) = std::mem::replace(&mut verdict, Err(error)) {
                eprint_note(&format!("{earlier:#}"));
            }
        }
    }
    sink.finish().map_err(failed)?;
    drop(sink);
    let name = output.name();
    let bytes = output.keep()?;
    close(options, &name, &counts, bytes);
    if let Some(ledger) = only.filter(|_| options.files.len() == 1) {
        show(&ledger);
    }
    verdict
}
