// SPDX-License-Identifier: MIT OR Apache-2.0
//! `host`.

use std::path::PathBuf;
use std::time::Duration;

use crate::units::parse_duration;
use clap::Subcommand;

use crate::run::args::common::{ColorArg, JSON, JSON_LONG, ONLY_EXAMPLES, number};

const EXAMPLES: &str = "\
Examples:
  nvme-deep host list
      What serves NVMe on this machine
  nvme-deep host latency --nvmet --duration 10s
      Latencies of the kernel's target";

const LIST_EXAMPLES: &str = "\
Examples:
  nvme-deep host list
      The targets, and the methods that work for each";

const TRACE_EXAMPLES: &str = "\
Examples:
  nvme-deep host trace --nvmet
      Every command of the kernel's target
  nvme-deep host trace --pid 4711 -o host.nvd
      The commands of a QEMU or SPDK process, to a file for `join`";

const LATENCY_EXAMPLES: &str = "\
Examples:
  nvme-deep host latency --nvmet --duration 10s
      The kernel's target, for 10 s
  nvme-deep host latency --from host.nvd
      A recording of the host side";

const ANNOTATE_EXAMPLES: &str = "\
Examples:
  nvme-deep host annotate trace.json host.nvd
      The entries of an SPDK trace, each with its command";

const SPDK_EXAMPLES: &str = "\
Examples:
  nvme-deep host spdk --pid 4711
      The state changes of this SPDK target";

const MSGS_EXAMPLES: &str = "\
Examples:
  nvme-deep host msgs --pid 4711 --duration 10s
      The messages of this SPDK process in 10 s";

/// `host`.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = ONLY_EXAMPLES)]
#[command(after_long_help = EXAMPLES)]
pub struct HostArgs {
    /// What to do.
    #[command(subcommand)]
    pub command: HostCommand,
}

/// The commands of `host`.
#[derive(Clone, Debug, Subcommand)]
pub enum HostCommand {
    /// List the targets of this machine, and how each can be observed
    ///
    /// Processes and kernel targets that serve NVMe.
    List(HostListArgs),
    /// Print every command of a target as it is served
    Trace(HostTraceArgs),
    /// Report latencies of a target per namespace, opcode and stage
    Latency(HostLatencyArgs),
    /// Print an SPDK trace with the commands that its entries are about
    Annotate(HostAnnotateArgs),
    /// Print the state changes of an SPDK target
    ///
    /// Of its subsystems, controllers, queues and listeners. Needs an SPDK built --with-usdt.
    #[command(after_long_help = SPDK_EXAMPLES)]
    Spdk(HostSpdkArgs),
    /// Count messages between the threads of an SPDK process, by function
    #[command(after_long_help = MSGS_EXAMPLES)]
    Msgs(HostSpdkArgs),
}

/// Which target, how long, and in which form.
#[derive(Clone, Debug, clap::Args)]
pub struct TargetArgs {
    /// The target of this kernel (nvmet), by its tracepoints
    #[arg(long)]
    pub nvmet: bool,

    /// This process, by uprobes
    ///
    /// QEMU with an NVMe controller, or SPDK's NVMe-oF target.
    #[arg(long, value_name = "PID", conflicts_with = "nvmet", value_parser = number(0..=u32::MAX))]
    pub pid: Option<u32>,

    /// Trace --pid by USDT probes instead of uprobes
    ///
    /// It must be a QEMU that was built with the trace backend dtrace.
    #[arg(long, requires = "pid", conflicts_with_all = ["nvmet", "from"])]
    pub usdt: bool,

    /// Only the start and the end of each command
    ///
    /// Fewer traps, and one stage.
    #[arg(long, requires = "pid", conflicts_with_all = ["usdt", "nvmet", "from"])]
    pub ends: bool,

    /// Read a recording of the host side instead
    #[arg(long, value_name = "FILE", conflicts_with_all = ["nvmet", "pid"])]
    pub from: Option<PathBuf>,

    /// Stop after this time (`5s`, `2m`)
    #[arg(long, value_name = "TIME", value_parser = parse_duration, conflicts_with = "from")]
    pub duration: Option<Duration>,

    #[arg(long, short = 'j', help = JSON, long_help = JSON_LONG)]
    pub json: bool,

    /// Print the hits of each hook
    #[arg(long, short)]
    pub verbose: bool,

    /// For tests, in debug builds: an error of the layout of requests, in bytes
    #[cfg_attr(
        debug_assertions,
        arg(long, value_name = "BYTES", default_value = "0", hide = true,
            value_parser = number(0..=u32::MAX))
    )]
    #[cfg_attr(not(debug_assertions), arg(skip))]
    pub test_shift: u32,
}

/// `host list`.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = ONLY_EXAMPLES)]
#[command(after_long_help = LIST_EXAMPLES)]
pub struct HostListArgs {
    #[arg(long, short = 'j', help = JSON, long_help = JSON_LONG)]
    pub json: bool,
}

/// `host trace`.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = ONLY_EXAMPLES)]
#[command(after_long_help = TRACE_EXAMPLES)]
pub struct HostTraceArgs {
    #[command(flatten)]
    pub target: TargetArgs,

    /// Record to this file, and print no commands
    ///
    /// Only you can read it.
    #[arg(long, short, value_name = "FILE", conflicts_with = "from")]
    pub output: Option<PathBuf>,

    /// Replace the file of -o if it exists
    #[arg(long, requires = "output")]
    pub force: bool,
}

/// `host latency`.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = ONLY_EXAMPLES)]
#[command(after_long_help = LATENCY_EXAMPLES)]
pub struct HostLatencyArgs {
    #[command(flatten)]
    pub target: TargetArgs,

    /// When to use colour
    #[arg(long, value_name = "WHEN", default_value = "auto")]
    pub color: ColorArg,
}

/// `host annotate`.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = ONLY_EXAMPLES)]
#[command(after_long_help = ANNOTATE_EXAMPLES)]
pub struct HostAnnotateArgs {
    /// The output of `spdk_trace -j`
    #[arg(value_name = "TRACE")]
    pub trace: PathBuf,

    /// A recording of the same requests on the host side, with their addresses
    #[arg(value_name = "FILE")]
    pub recording: Option<PathBuf>,

    #[arg(long, short = 'j', help = JSON, long_help = JSON_LONG)]
    pub json: bool,
}

/// `host spdk` and `host msgs`.
#[derive(Clone, Debug, clap::Args)]
pub struct HostSpdkArgs {
    /// The process of SPDK
    #[arg(long, value_name = "PID", value_parser = number(0..=u32::MAX))]
    pub pid: u32,

    /// Stop after this time (`5s`, `2m`)
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    pub duration: Option<Duration>,

    #[arg(long, short = 'j', help = JSON, long_help = JSON_LONG)]
    pub json: bool,
}
