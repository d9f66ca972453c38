// SPDX-License-Identifier: MIT OR Apache-2.0
//! The command line: its commands.

use std::path::PathBuf;

use clap::Parser;
use clap::Subcommand;

use super::diagnose::DiagnoseArgs;
use super::diff::DiffArgs;
use super::doctor::DoctorArgs;
use super::examples;
use super::export::ExportArgs;
use super::heatmap::HeatmapArgs;
use super::host::HostArgs;
use super::inflight::InflightArgs;
use super::join::JoinArgs;
use super::latency::LatencyArgs;
use super::pattern::PatternArgs;
use super::record::RecordArgs;
use super::serve::ServeArgs;
use super::stacks::StacksArgs;
use super::top::TopArgs;
use super::trace::TraceArgs;

/// Trace the Linux NVMe driver: where each command's time goes, measured by eBPF.
#[derive(Debug, Parser)]
#[command(name = "nvme-deep", version, max_term_width = 80)]
#[command(after_help = "Run as root. Exit codes and examples: see --help.")]
#[command(after_long_help = examples::PROGRAM)]
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
    /// Record every command to a file, for the --from of other commands
    Record(RecordArgs),
    /// Find out why commands are slow: a verdict, its evidence, what to do
    Diagnose(DiagnoseArgs),
    /// Show the commands in flight, their age, and where each is stuck
    ///
    /// A stuck command is not fetched, held by the device, or answered without an interrupt.
    Inflight(InflightArgs),
    /// Draw latency, LBA, size or depth over time, as SVG or PNG
    Heatmap(HeatmapArgs),
    /// Report access patterns: sequential or random, sizes, depth
    ///
    /// Those of each disk, opcode and process, with distances and intervals.
    Pattern(PatternArgs),
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
    /// Join recordings of the driver and of the target, command by command
    Join(JoinArgs),
    /// Serve metrics for Prometheus over HTTP, or write them to a file
    ///
    /// Runs until it is stopped.
    Serve(ServeArgs),
    /// Report what this machine supports, and which settings to change
    ///
    /// It lists the kernel's facts, the controllers, and the hook that each point would use. Works
    /// without root.
    Doctor(DoctorArgs),
    /// Write the man pages and the shell completions, for packages
    #[command(hide = true)]
    Dist(DistArgs),
}

/// `dist`.
#[derive(Clone, Debug, clap::Args)]
pub struct DistArgs {
    /// The directory to write to: DIRECTORY/man and DIRECTORY/completions
    #[arg(value_name = "DIRECTORY")]
    pub directory: PathBuf,
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use clap::CommandFactory;

    use super::*;
    use crate::cli::stages::StagesArg;

    #[test]
    fn the_definition_is_consistent() {
        Args::command().debug_assert();
    }

    #[test]
    fn the_old_name_of_the_basic_stages_is_accepted() {
        for words in ["latency --stages=cheap", "record -o x --stages=cheap"] {
            let words = words.split(' ');
            Args::try_parse_from(["nvme-deep"].into_iter().chain(words)).unwrap();
        }
    }

    #[test]
    fn stages_takes_its_value_by_equals_only_so_that_the_interval_can_follow() {
        let args = Args::try_parse_from(["nvme-deep", "latency", "--stages", "1", "3"]).unwrap();
        let Command::Latency(latency) = args.command else {
            panic!("not latency");
        };
        assert_eq!(latency.stages, Some(StagesArg::Basic));
        assert_eq!(latency.schedule.interval, Some(Duration::from_secs(1)));
        assert_eq!(latency.schedule.count, Some(3));
    }
}
