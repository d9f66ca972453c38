// SPDX-License-Identifier: MIT OR Apache-2.0
//! The `export` command: recordings in the formats of other programs.

pub mod args;

use std::fs::File;
use std::io::BufWriter;
use std::path::Path;

use crate::model::ledger::{Accuracy, Ledger};
use crate::model::text::{Text, printable};
use crate::units::size_text;
use crate::view::export::Sink;
use crate::view::export::csv::Csv;
use crate::view::export::hlog::Hlog;
use crate::view::export::ndjson::Ndjson;
#[cfg(feature = "parquet")]
use crate::view::export::parquet::Parquet;
use crate::view::export::perfetto::{Begins, Perfetto};
use anyhow::Result;

use crate::export::args::{ExportOptions, Format};
use crate::run::drive::{FileReader, open_all};
use crate::run::exporting::{Counts, add, begins};
use crate::run::outfile::{OutFile, Rules};
use crate::run::{eprint_note, say_ledger};

fn sink(
    options: &ExportOptions,
    files: &[FileReader],
    out: File,
    output: &OutFile,
) -> Result<Box<dyn Sink>> {
    let out = BufWriter::with_capacity(1 << 16, out);
    Ok(match options.format()? {
        Format::Csv => Box::new(Csv::new(out)),
        Format::Ndjson => Box::new(Ndjson::new(out)),
        Format::Hlog => Box::new(Hlog::new(out, options.interval())),
        Format::Perfetto => {
            let mut found = Begins::default();
            for file in files {
                found = begins(&options.settings, file)?;
            }
            Box::new(Perfetto::new(out, found, options.interval()))
        }
        #[cfg(feature = "parquet")]
        Format::Parquet => Box::new(Parquet::new(out).map_err(|e| output.failed(e))?),
        #[cfg(not(feature = "parquet"))]
        Format::Parquet => {
            // the options refuse it before
            let text = format!("{}: built without Parquet", output.name());
            return Err(anyhow::Error::msg(text));
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
fn name_of(options: &ExportOptions, path: &Path, number: usize) -> Text {
    if options.out.redact {
        return number.to_string().into();
    }
    Text::file_name(path)
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
    let files = open_all(&options.files, &options.settings, &FileReader::require_pairs)?;
    let rules = Rules {
        force: options.out.force,
        inputs: &options.files,
        is_binary: matches!(options.format()?, Format::Perfetto | Format::Parquet),
        ..Rules::default()
    };
    let (output, out) = OutFile::create(&options.out.output, &rules)?;
    let mut sink = sink(options, &files, out, &output)?;
    let failed = |error| output.failed(error);
    let mut counts = Counts::default();
    let (mut only, mut verdict) = (None, Ok(()));
    for (n, mut file) in files.into_iter().enumerate() {
        let path = file.file.clone();
        let name = name_of(options, &path, n + 1);
        if options.out.redact {
            file.redact();
        }
        if output.is_stdout() {
            file.streams();
        }
        let (ledger, ended) = add((file, &name), &mut *sink, &mut counts, &failed)?;
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
