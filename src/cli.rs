// SPDX-License-Identifier: MIT OR Apache-2.0
//! The command line: its commands. A command's file has its options, its examples, and what they ask of
//! a session; options of several commands have files of their own. clap parses values into what they
//! mean.

mod refused;

use std::ffi::OsString;
use std::io::Write;
use std::process::ExitCode;

use anyhow::Result;
use clap::{CommandFactory, Parser, Subcommand};

use crate::diagnose::DiagnoseArgs;
use crate::diff::args::DiffArgs;
use crate::dist::DistArgs;
use crate::doctor::args::DoctorArgs;
use crate::export::args::ExportArgs;
use crate::heatmap::args::HeatmapArgs;
use crate::host::args::HostArgs;
use crate::import::ImportArgs;
use crate::inflight::args::InflightArgs;
use crate::info::InfoArgs;
use crate::join::JoinArgs;
use crate::latency::args::LatencyArgs;
use crate::model::stage::StageSet;
use crate::pattern::PatternArgs;
use crate::record::args::RecordArgs;
use crate::report::ReportArgs;
use crate::run::args::command_line;
use crate::run::args::common::SessionOptions;
use crate::run::exit;
use crate::run::stdout::{flush, has_unicode, stdout};
use crate::serve::args::ServeArgs;
use crate::stacks::args::StacksArgs;
use crate::top::args::TopArgs;
use crate::trace::args::TraceArgs;
use crate::view::theme::use_ascii;
use crate::{
    diagnose, diff, dist, doctor, export, heatmap, host, import, inflight, info, join, latency,
    pattern, record, report, serve, stacks, top, trace,
};

/// Trace the Linux NVMe driver: where each command's time goes, measured by eBPF.
#[derive(Debug, Parser)]
#[command(name = "nvme-deep", version, max_term_width = 80)]
#[command(
    after_help = "Tracing needs root; reading recordings does not. Exit codes, examples: --help."
)]
#[command(after_long_help = crate::run::args::common::PROGRAM)]
pub struct Args {
    /// The command.
    #[command(subcommand)]
    pub command: Command,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Show rates, latencies, stages and a heat map on a live screen
    Top(TopArgs),
    /// Report latencies per namespace, opcode and stage
    Latency(LatencyArgs),
    /// Print every command as it happens: decoded, with outcome and stages
    Trace(TraceArgs),
    /// Count commands and their latency by kernel stack
    Stacks(StacksArgs),
    /// Record every command to a file, which other commands read
    Record(RecordArgs),
    /// Find out why commands are slow: a verdict, its evidence, what to do
    Diagnose(DiagnoseArgs),
    /// Show the commands in flight, their age, and where each is stuck
    ///
    /// A stuck command is not fetched, held by the device, or answered without an interrupt.
    Inflight(InflightArgs),
    /// Draw latency, LBA, size or number in flight over time (SVG, PNG)
    Heatmap(HeatmapArgs),
    /// Report access patterns: sequential or random, sizes, concurrency
    ///
    /// One row per disk, opcode and process; `-v` adds jumps and intervals.
    Pattern(PatternArgs),
    /// Show what is in a recording, and which questions it answers
    ///
    /// Needs no root.
    Info(InfoArgs),
    /// Write a page about recordings, to attach to a ticket
    ///
    /// One HTML file with the verdict, the stages, pictures, the slowest commands. Needs no root.
    Report(ReportArgs),
    /// Convert recordings to Perfetto, Parquet, CSV, NDJSON, HdrHistogram
    ///
    /// Needs no root.
    Export(ExportArgs),
    /// Compare recordings made before and after a change
    ///
    /// What became slower or faster, by how much, and what is noise.
    Diff(DiffArgs),
    /// Show what the target (nvmet, QEMU, SPDK) did with each command
    ///
    /// Run it on the machine that serves the commands.
    Host(HostArgs),
    /// Turn text from ftrace, perf, blkparse, QEMU or SPDK into a recording
    ///
    /// Needs no root.
    Import(ImportArgs),
    /// Join recordings of the driver and of the target, command by command
    Join(JoinArgs),
    /// Serve metrics for Prometheus over HTTP, or write them to a file
    ///
    /// Runs until it is stopped.
    Serve(ServeArgs),
    /// Report what this machine supports, and which settings to change
    ///
    /// With -v it also lists the kernel's properties, the controllers and the hook of each point. Works
    /// without root.
    Doctor(DoctorArgs),
    /// Write the man pages and the shell completions, for packages
    #[command(hide = true)]
    Dist(DistArgs),
}

/// The commands that trace the driver, each with the stage set that `doctor` judges. `diagnose` also
/// observes the waits before the request, where it can.
const TRACING: &[(&str, StageSet)] = &[
    ("top", StageSet::Basic),
    ("latency", StageSet::Total),
    ("latency --stages", StageSet::Basic),
    ("latency --stages=fine", StageSet::Fine),
    ("trace", StageSet::Basic),
    ("stacks", StageSet::Total),
    ("record", StageSet::Fine),
    ("diagnose", StageSet::Fine),
    ("heatmap", StageSet::Basic),
    ("pattern", StageSet::Total),
    ("serve", StageSet::Total),
];

/// What follows doctor's report if no command was given.
const START: &str = "
Start with
  nvme-deep record -o slow.nvd --duration 60s   record what happens (as root)
  nvme-deep diagnose slow.nvd                   why is it slow?
  nvme-deep latency slow.nvd                    where does the time go?
  nvme-deep top                                 a live screen (as root)
  nvme-deep inflight                            what is stuck now? (as root)
All commands: nvme-deep --help
";

/// Without a command: doctor's report, and where to start. It traces nothing.
fn start() -> Result<()> {
    let args = Args::try_parse_from(["nvme-deep", "doctor"])?;
    let report = run(args.command);
    stdout().write_all(START.as_bytes())?;
    report
}

/// The program: parses the arguments, runs the command, and reports how it ended.
pub fn program(args: impl Iterator<Item = OsString>) -> ExitCode {
    exit::own_up_to_panics();
    let words: Vec<OsString> = args.collect();
    if words.len() <= 1 {
        return exit::end(start().and_then(|()| Ok(flush()?)));
    }
    let words = words.into_iter();
    let words = command_line::with_files(aliased(command_line::joined(words)), &Args::command());
    let args = match Args::try_parse_from(&words) {
        Ok(args) => args,
        Err(refused) => return refused::explain(&refused, &words),
    };
    if !has_unicode() {
        use_ascii();
    }
    exit::end(run(args.command).and_then(|()| Ok(flush()?)))
}

/// `host import` is `import`.
fn aliased(mut words: Vec<OsString>) -> Vec<OsString> {
    if words.get(1..3).is_some_and(|first| first == ["host", "import"]) {
        words.remove(1);
    }
    words
}

/// Parses and runs a command line, for fuzzing.
///
/// # Errors
/// A wrong command line, or what the command failed with.
pub fn execute(words: &[String]) -> Result<()> {
    let words = aliased(words.iter().map(OsString::from).collect());
    let words = command_line::with_files(words, &Args::command());
    run(Args::try_parse_from(words)?.command)
}

/// Runs a command.
fn run(command: Command) -> Result<()> {
    match command {
        Command::Top(args) => top::run(&args.checked()?),
        Command::Latency(args) => latency::run(&args.checked()?),
        Command::Trace(args) => trace::run(&args.checked()?),
        Command::Stacks(args) => stacks::run(&args.checked()?),
        Command::Record(args) => record::run(&args.checked()?),
        Command::Diagnose(args) => diagnose::run(&args.checked()?),
        Command::Inflight(args) => inflight::run(&args),
        Command::Heatmap(args) => heatmap::run(&args.checked()?),
        Command::Pattern(args) => pattern::run(&args.checked()?),
        Command::Info(args) => info::run(&args),
        Command::Report(args) => report::run(&args.checked()?, &diagnose::of_file),
        Command::Export(args) => export::run(&args.checked()?),
        Command::Diff(args) => diff::run(&args),
        Command::Host(args) => host::run(&args),
        Command::Import(args) => import::run(&args),
        Command::Join(args) => join::run(&args),
        Command::Serve(args) => serve::run(&args.checked()?),
        Command::Doctor(args) => doctor::run(&args, TRACING),
        Command::Dist(args) => dist::run(&args, &Args::command()),
    }
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use clap::CommandFactory;
    use std::collections::BTreeSet;
    use std::iter::once;

    /// The command of these words.
    pub fn parsed(words: &str) -> Result<Command> {
        let words = once("nvme-deep").chain(words.split_whitespace());
        Ok(Args::try_parse_from(words)?.command)
    }

    #[test]
    fn the_definition_is_consistent() {
        Args::command().debug_assert();
    }

    #[test]
    fn doctors_verdict_has_the_commands_that_trace() {
        let args = Args::command();
        let attaches = |c: &&clap::Command| c.get_arguments().any(|a| a.get_id() == "attach");
        let commands = args.get_subcommands().filter(attaches);
        let commands: BTreeSet<_> = commands.map(clap::Command::get_name).collect();
        let listed = TRACING.iter().map(|(line, _)| line.split(' ').next().unwrap());
        assert_eq!(commands, listed.chain(["doctor"]).collect());
    }
}
