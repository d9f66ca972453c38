// SPDX-License-Identifier: MIT OR Apache-2.0
//! `import`: a text of another program becomes a recording.

pub(crate) mod args;
mod driver;
mod lines;
mod report;

use std::path::Path;
use std::time::Duration;

use crate::error::Kind;
use crate::import::args::ImportArgs;
use crate::import::report::Report;
use crate::model::ledger::Ledger;
use crate::model::text::printable;
use crate::recording::RunInfo;
use crate::run::exit::Failure;
use crate::run::input::read_text;
use crate::run::recording::{FileSettings, RunWriter};
use crate::run::stdout::stdout;
use anyhow::Result;

/// What a text is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Format {
    /// Tracepoints of the driver.
    Driver,
    /// Tracepoints of KVM.
    Kvm,
    Blkparse,
    Qemu,
    SpdkText,
    SpdkJson,
}

/// What a line is of, if it is of anything that is read.
fn format_of_line(line: &str) -> Option<Format> {
    match lines::read(line) {
        lines::Found::Event(event) if event.name.starts_with("nvme_") => Some(Format::Driver),
        lines::Found::Event(event) if event.name.starts_with("kvm_") => Some(Format::Kvm),
        _ => None,
    }
}

/// What a text is, by the first line that tells.
fn format_of(text: &str) -> Option<Format> {
    text.lines().find_map(format_of_line)
}

/// What can be imported, for an error.
const EXPECTED: &str = "it has no line of nvme:* tracepoints (ftrace, trace-cmd, perf script, perf \
                        trace), of blkparse, of QEMU's pci_nvme_* trace events, of spdk_trace, or of \
                        kvm:* tracepoints";

fn usage(text: impl Into<String>) -> anyhow::Error {
    Failure::error(Kind::Usage, text)
}

fn settings<'a>(args: &'a ImportArgs, path: &'a Path) -> FileSettings<'a> {
    FileSettings {
        path,
        force: args.force,
        inputs: std::slice::from_ref(&args.text),
        redact: false,
        count: None,
        keep: None,
    }
}

/// Reads tracepoints of the driver, and records their commands.
fn driver(text: &str, args: &ImportArgs) -> Result<Report> {
    let census = driver::import(text, &mut |_| {});
    let report = Report::of_driver(&census);
    let (Some(path), Some((first_ns, last_ns))) = (&args.output, census.span) else {
        return Ok(report);
    };
    let info = RunInfo {
        begin_ns: first_ns,
        pairs: true,
        sample_period: 1,
        stage_set: census.stage_set(),
        sq: Some(census.events.contains_key("nvme_sq")),
        aen: Some(false),
        imported: Some(report.format.into()),
        ..RunInfo::default()
    };
    let mut file = RunWriter::of_text(&settings(args, path), info)?;
    file.controllers(&census.controllers());
    file.ledger(Duration::ZERO, &Ledger { imported: true, ..Ledger::default() });
    driver::import(text, &mut |event| file.event(event));
    file.finish(Duration::from_nanos(last_ns - first_ns), &census.ledger)?;
    Ok(report)
}

/// Runs the command to its end.
///
/// # Errors
/// One sentence each, with the exit code of its kind.
pub fn run(args: &ImportArgs) -> Result<()> {
    let text = read_text(&args.text)?;
    let refuse = |why: &str| usage(format!("{}: {why}", printable(&args.text)));
    let format = format_of(&text).ok_or_else(|| refuse(EXPECTED))?;
    let report = match format {
        Format::Driver => driver(&text, args)?,
        _ => return Err(refuse(EXPECTED)),
    };
    report.write(args.json, &mut stdout())?;
    Ok(())
}
