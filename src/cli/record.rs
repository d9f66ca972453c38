// SPDX-License-Identifier: MIT OR Apache-2.0
//! The command line of `record` as typed, and the options of other commands about recordings.

use std::path::PathBuf;
use std::time::Duration;

use clap::ValueEnum;
use nvme_deep::units::parse_duration;

use super::args::AttachArgs;
use super::args::ExecArgs;
use super::args::FilterArgs;
use super::args::StackAtArg;
use super::examples;

/// Stage sets of a recording.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum RecordStagesArg {
    /// queue, submit, device, complete
    #[value(alias = "cheap")]
    Basic,
    /// queue, setup, map, submit, device, irq, complete, end
    Fine,
    /// only the latency from setup_out to complete
    None,
}

/// `record`.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = examples::WITH_FILTERS)]
#[command(after_long_help = examples::RECORD)]
pub struct RecordArgs {
    /// The file to write; `-` for stdout
    ///
    /// It is readable by its owner only. Until the end of the run its name ends in `.partial`.
    #[arg(long, short, value_name = "FILE")]
    pub output: PathBuf,

    /// Replace the file if it exists
    ///
    /// Or what an interrupted run has left.
    #[arg(long)]
    pub force: bool,

    /// The points to record of each command
    #[arg(long, value_name = "SET", default_value = "basic")]
    pub stages: RecordStagesArg,

    /// Also record the kernel stack
    ///
    /// Without a value, at submission. A stack costs several thousand instructions: see --sample.
    #[arg(long, value_name = "AT", num_args = 0..=1, require_equals = true,
          default_missing_value = "submit")]
    pub kstack: Option<StackAtArg>,

    /// Take the stack of one command in N only
    ///
    /// Chosen at random. All commands are recorded.
    #[arg(long, hide_short_help = true, value_name = "1/N", requires = "kstack")]
    pub sample: Option<String>,

    /// Also record what `diagnose` needs
    ///
    /// The conditions of each command (CPU idle or in a soft interrupt, doorbell written or not), waits
    /// before the request, splits, bounce buffers, and the settings of the machine. Costs some 750
    /// instructions per command more.
    #[arg(long)]
    pub context: bool,

    /// Stop after this time (`5s`, `2m`)
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    pub duration: Option<Duration>,

    /// Stop when the file has this size (`500M`, `1G`)
    #[arg(long, value_name = "SIZE")]
    pub max_size: Option<String>,

    /// Keep the last TIME (`15m`) until a trigger fires
    ///
    /// In memory, at most --max-size [default with --ring: 64M]. The file is written when a trigger fires, or at
    /// the end.
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    pub ring: Option<Duration>,

    /// Events that write the ring to the file
    ///
    /// `slow=50ms` (a command that took at least this long), `timeout`, `reset` (of a controller),
    /// `error` (a status other than success).
    #[arg(long, value_name = "WHAT", value_delimiter = ',', requires = "ring")]
    pub trigger: Vec<String>,

    /// After a trigger, record this long, then end
    #[arg(long, hide_short_help = true, value_name = "TIME", value_parser = parse_duration, default_value = "10s",
          requires = "trigger")]
    pub after: Duration,

    /// Do not compress
    ///
    /// Takes less CPU time, and about twice the space.
    #[arg(long)]
    pub no_compress: bool,

    /// Do not record names of the machine and of processes
    ///
    /// Nor those of its controllers.
    #[arg(long)]
    pub redact: bool,

    /// Size of the ring buffers, as for `trace`
    #[arg(long, hide_short_help = true, value_name = "SIZE")]
    pub buffer: Option<String>,

    #[command(flatten)]
    #[allow(missing_docs, reason = "ExecArgs says it")]
    pub exec: ExecArgs,

    #[command(flatten)]
    #[allow(missing_docs, reason = "FilterArgs says it")]
    pub filter: FilterArgs,

    #[command(flatten)]
    #[allow(missing_docs, reason = "AttachArgs says it")]
    pub attach: AttachArgs,
}

/// Reading a recording instead of tracing.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct FromArgs {
    /// Read recordings instead of tracing
    ///
    /// Made by `record`. Needs no root. Several are read one after the other; a picture shows one.
    #[arg(long, value_name = "FILE", num_args = 1..,
          conflicts_with_all = ["duration", "attach", "btf", "test_ignore", "test_no_recovery"])]
    pub from: Vec<PathBuf>,
}

/// The ring buffers of a run that traces.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct BufferArgs {
    /// Size of all ring buffers together (`4M`, `64M`)
    ///
    /// Rounded up to a power of two. Each group of 8 CPUs has its own. Events that find no room are lost
    /// and counted. [default: 16M, or 2M for each 8 CPUs if that is more; less if the controllers' tags
    /// need much memory]
    #[arg(
        long,
        hide_short_help = true,
        value_name = "SIZE",
        conflicts_with = "from"
    )]
    pub buffer: Option<String>,
}
