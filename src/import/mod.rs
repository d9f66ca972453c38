// SPDX-License-Identifier: MIT OR Apache-2.0
//! `import`: a text of another program becomes a recording.

use crate::error::{Failure, Kind};
use crate::import::driver::Known;
use crate::import::lines::{Found, Layout, Line, QEMU};
use crate::import::report::Report;
use crate::model::event::Event;
use crate::model::ledger::Ledger;
use crate::model::target::HostController;
use crate::model::text::printable;
use crate::recording::RunInfo;
use crate::run::args::common::{JSON, JSON_LONG, ONLY_EXAMPLES};
use crate::run::exit::usage;
use crate::run::input::read_text;
use crate::run::outfile::is_stdout;
use crate::run::recording::{FileSettings, FileWriter};
use crate::run::stdout::stdout;
use anyhow::{Error, Result};
use std::io::{BufWriter, Write, stderr};
use std::path::PathBuf;
use std::time::Duration;

mod blkparse;
mod driver;
mod kvm;
mod lines;
mod qemu;
mod report;
mod spdk;

/// What a text is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Format {
    /// Tracepoints of the driver.
    Driver,
    /// Tracepoints of KVM.
    Kvm,
    Blkparse,
    Qemu,
    /// Text or JSON.
    Spdk,
}

/// What a line is of, if it is of anything that is read.
fn format_of_line(line: &str) -> Option<Format> {
    let Some(Found::Event(Line { layout, name, .. })) = lines::read(line) else { return None };
    match layout {
        Layout::Text | Layout::PerfTrace if name.starts_with("nvme_") => Some(Format::Driver),
        Layout::Text | Layout::PerfTrace if name.starts_with("kvm_") => Some(Format::Kvm),
        Layout::Qemu if name.starts_with(QEMU) => Some(Format::Qemu),
        Layout::Blkparse => Some(Format::Blkparse),
        Layout::Spdk => Some(Format::Spdk),
        _ => None,
    }
}

/// What a text is, by the first line that tells.
fn format_of(text: &str) -> Option<Format> {
    if text.trim_start().starts_with('{') {
        return Some(Format::Spdk);
    }
    text.lines().find_map(format_of_line)
}

/// What can be imported, for an error.
const EXPECTED: &str = "no line of it has a known format: nvme:* tracepoints (ftrace, trace-cmd, perf \
                        script, perf trace), blkparse, QEMU's pci_nvme_* events, spdk_trace, or kvm:* \
                        tracepoints";

/// What to do with a file that is no text.
fn binary(text: &str) -> Option<&'static str> {
    [
        ("\u{17}\u{8}Dtracing", "it is binary: `trace-cmd report FILE` prints its text"),
        ("PERFILE2", "it is binary: `perf script -i FILE` prints its text"),
        ("\u{7}tae", "it is binary: `blkparse -i FILE` prints its text"),
        ("\u{1f}\u{fffd}", "it is compressed: `zcat FILE` prints its text"),
    ]
    .into_iter()
    .find_map(|(begin, what)| text.starts_with(begin).then_some(what))
    .or_else(|| text.trim().is_empty().then_some("it is empty"))
}

/// Passes on the events of a text, the same at each call.
type Importer<'t> = &'t dyn Fn(&mut dyn FnMut(&Event)) -> Result<Report>;

/// Reads commands of the driver, or of QEMU, and records them.
fn commands(import: Importer<'_>, args: &ImportArgs) -> Result<Report> {
    let report = import(&mut |_| {})?;
    let Some(path) = &args.output else {
        return Ok(report);
    };
    let Some((first_ns, last_ns)) = report.span else {
        return Err(usage("no event of the text can be read, so no recording is written"));
    };
    let info = RunInfo {
        begin_ns: first_ns,
        pairs: true,
        sample_period: 1,
        stage_set: report.stage_set,
        sq: Some(report.has_sq),
        aen: Some(false),
        imported: Some(report.format.into()),
        target: report.target.clone(),
        ..RunInfo::default()
    };
    let settings = FileSettings::whole(path, args.force, std::slice::from_ref(&args.text));
    let mut file = FileWriter::of_text(&settings, info)?;
    match &report.target {
        Some(_) => file.target_controllers(&[HostController::named("qemu:0")]),
        None => file.controllers(&report.controllers()),
    }
    file.ledger(Duration::ZERO, &Ledger { imported: true, ..Ledger::default() });
    import(&mut |event| file.event(event))?;
    file.finish(Duration::from_nanos(last_ns - first_ns), &report.ledger)?;
    Ok(report)
}

/// Runs the command to its end.
///
/// # Errors
/// One sentence each, with the exit code of its kind.
pub fn run(args: &ImportArgs) -> Result<()> {
    let text = read_text(&args.text)?;
    let refuse = |why: &str| usage(format!("{}: {why}", printable(&args.text)));
    if text.starts_with("\u{fffd}nvmedp\n") {
        return Err(refuse(
            "it is a recording already: `export` converts it, other commands read it",
        ));
    }
    let format = format_of(&text).ok_or_else(|| refuse(binary(&text).unwrap_or(EXPECTED)))?;
    if args.bar.is_some() && format != Format::Kvm {
        return Err(refuse("it has no kvm:* tracepoints, and --bar is for those only"));
    }
    // a recording on stdout is alone there
    let is_alone = args.output.as_deref().is_some_and(is_stdout);
    let mut out: Box<dyn Write> = match is_alone {
        true => Box::new(stderr()),
        false => Box::new(BufWriter::new(stdout())),
    };
    let no_commands = match format {
        Format::Spdk => Some("SPDK's trace has states, and no commands to record: omit -o"),
        Format::Kvm => Some("kvm:* tracepoints have no commands to record: omit -o"),
        _ => None,
    };
    if let Some(why) = no_commands.filter(|_| args.output.is_some()) {
        return Err(refuse(why));
    }
    let of_text = |why: Error| refuse(&why.to_string());
    let report = match format {
        Format::Driver => {
            let known = Known::of(&text);
            commands(&|to| Ok(driver::import(&text, &known, to)), args)?
        }
        Format::Blkparse => commands(&|to| Ok(blkparse::import(&text, to)), args)?,
        Format::Qemu => commands(&|to| qemu::import(&text, to).map_err(of_text), args)?,
        Format::Spdk => spdk::import(&text).map_err(of_text)?,
        Format::Kvm => {
            let bar = args.bar.ok_or_else(|| {
                refuse("kvm:* tracepoints need --bar, the controller's BAR 0 in the guest")
            })?;
            kvm::import(&text, bar)
        }
    };
    report.write(args.json, &mut out)?;
    out.flush()?;
    if args.output.is_none() && report.ledger.matched + report.ledger.in_flight == 0 {
        let why = format!("{}: it has no {}", printable(&args.text), report.what);
        return Err(Failure::error(Kind::Run, why));
    }
    Ok(())
}

const EXAMPLES: &str = "\
Examples:
  nvme-deep import trace.txt -o trace.nvd
      Text of ftrace, trace-cmd, perf, blkparse, QEMU or SPDK
  nvme-deep import kvm.txt --bar 0xfebf0000-0xfebf3fff
      The doorbell writes of a guest, and what each costs";

/// `import`.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = ONLY_EXAMPLES)]
#[command(after_long_help = EXAMPLES)]
pub struct ImportArgs {
    /// The file to import
    ///
    /// Tracepoints nvme:* and block:* as ftrace, `trace-cmd report`, `perf script` or `perf trace`
    /// print them; blkparse; QEMU's log of pci_nvme_*; spdk_trace, its text or -j; tracepoints kvm:*.
    /// The format is detected.
    #[arg(value_name = "TEXT")]
    pub text: PathBuf,

    /// Write a recording to this file
    ///
    /// Read it with any command, or, if from QEMU, with `host trace` and `host latency`.
    /// Only you can read the file.
    #[arg(long, short, value_name = "FILE")]
    pub output: Option<PathBuf>,

    /// Replace the file of -o if it exists
    #[arg(long, requires = "output")]
    pub force: bool,

    /// For kvm:* text: the controller's BAR 0 in the guest
    ///
    /// First and last address (sysfs `resource`).
    #[arg(long, value_name = "FIRST-LAST", value_parser = addresses)]
    pub bar: Option<(u64, u64)>,

    #[arg(long, short = 'j', help = JSON, long_help = JSON_LONG)]
    pub json: bool,
}

/// Parses `0xfebd4000-0xfebd7fff`.
fn addresses(text: &str) -> Result<(u64, u64), String> {
    let number = |text: &str| u64::from_str_radix(text.trim().strip_prefix("0x")?, 16).ok();
    let range = text.split_once('-');
    let range = range.and_then(|(first, last)| number(first).zip(number(last)));
    range.filter(|(first, last)| first < last).ok_or_else(|| {
        "give the first and last address of BAR 0 in the guest, as in 0xfebd4000-0xfebd7fff \
         (/sys/class/nvme/nvme0/device/resource)"
            .into()
    })
}
