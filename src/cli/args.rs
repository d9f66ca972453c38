// SPDX-License-Identifier: MIT OR Apache-2.0
//! The command line as typed. What it means is in [`crate::options`].

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::Parser;
use clap::Subcommand;
use clap::ValueEnum;
use nvme_deep::nvme::subject::parse_nsid;
use nvme_deep::units::parse_duration;

use super::diagnose::DiagnoseArgs;
use super::diff::DiffArgs;
use super::doctor::DoctorArgs;
use super::examples;
use super::export::ExportArgs;
use super::heatmap::HeatmapArgs;
use super::host::HostArgs;
use super::host::JoinArgs;
use super::inflight::InflightArgs;
use super::latency::LatencyArgs;
use super::pattern::PatternArgs;
use super::record::BufferArgs;
use super::record::FromArgs;
use super::record::RecordArgs;
use super::serve::ServeArgs;
use super::stacks::StacksArgs;
use super::top::TopArgs;
use super::value::count;
use super::value::number;

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

/// Stage sets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum StagesArg {
    /// queue, submit, device, complete
    #[value(alias = "cheap")]
    Basic,
    /// queue, setup, map, submit, device, irq, complete, end
    Fine,
}

/// When to use colour.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ColorArg {
    /// On a terminal, unless NO_COLOR is set
    Auto,
    /// Always
    Always,
    /// Never
    Never,
}

/// How to attach.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum AttachArg {
    /// The most accurate method for each point
    Auto,
    /// Only fentry, fexit, tp_btf. Needs BTF of the driver
    Fentry,
    /// Only raw tracepoints. No doorbell, no interrupt
    Rawtp,
    /// Only kprobes and kretprobes. May miss events under load
    Kprobe,
    /// Only classic tracepoints: one interval, no stages. May miss completions under load
    Tracepoint,
}

/// A program to run.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct ExecArgs {
    /// Trace while COMMAND runs, then end with its exit code
    ///
    /// As in `--exec -- COMMAND ARGUMENT...`. The commands of all processes are traced.
    #[arg(long, requires = "program")]
    pub exec: bool,

    /// The command of --exec and its arguments
    #[arg(last = true, value_name = "COMMAND", requires = "exec")]
    pub program: Vec<OsString>,
}

/// Filters. A command must match all of them.
#[derive(Clone, Debug, Default, clap::Args)]
#[command(next_help_heading = "Filters (combined by AND)")]
pub struct FilterArgs {
    /// Only this disk or partition: `nvme0n1`, `/dev/nvme0n1p1`, or the one that has this file or
    /// directory (`/mnt/data`). All paths of a multipath disk. Only while tracing, not for recordings
    #[arg(long, hide_short_help = true, value_name = "DISK", conflicts_with_all = ["ctrl", "nsid", "lba"])]
    pub disk: Option<String>,

    /// Only these controllers (`nvme0` or `0`; separate several by commas)
    #[arg(
        long,
        alias = "ctrl_id",
        hide_short_help = true,
        value_name = "CTRL",
        value_delimiter = ','
    )]
    pub ctrl: Vec<String>,

    /// Only commands with these namespace ids: `1`, `0x1`; `all` is ffffffffh
    #[arg(long, hide_short_help = true, value_name = "NSID", value_delimiter = ',', value_parser = parse_nsid)]
    pub nsid: Vec<u32>,

    /// Only these opcodes: names (`read`, `dsm`, `admin:identify`) or numbers (`0x02`, `io:0x02`)
    #[arg(
        long,
        hide_short_help = true,
        value_name = "OPCODE",
        value_delimiter = ','
    )]
    pub opcode: Vec<String>,

    /// Only commands on these queues; 0 is the admin queue
    #[arg(long, hide_short_help = true, value_name = "QID", value_delimiter = ',', value_parser = number(0..=u16::MAX))]
    pub qid: Vec<u16>,

    /// Exclude admin commands
    #[arg(long, hide_short_help = true)]
    pub no_admin: bool,

    /// Exclude I/O commands
    #[arg(long, hide_short_help = true)]
    pub no_io: bool,

    /// Only commands that these processes submit to the driver. Requests that blk-mq dispatches
    /// later (scheduler, writeback, retries) are submitted by kernel threads, and do not match
    #[arg(long, short, hide_short_help = true, value_name = "PID", value_delimiter = ',', value_parser = number(0..=u32::MAX))]
    pub pid: Vec<u32>,

    /// Only commands from threads of this name
    #[arg(long, hide_short_help = true, value_name = "NAME")]
    pub comm: Option<String>,

    /// Only commands from processes in this cgroup (v2) or below it: `/sys/fs/cgroup/...`. Only while
    /// tracing, not for recordings
    #[arg(long, short, hide_short_help = true, value_name = "PATH")]
    pub cgroup: Option<PathBuf>,

    /// Only commands of this container: at least 8 digits of its ID (docker, podman, containerd,
    /// CRI-O), the UID of a Kubernetes pod, or the path of its cgroup (v2). By the cgroup that caused
    /// the I/O, also for writeback; for commands without one by the task that calls the driver. Only
    /// while tracing, not for recordings
    #[arg(
        long,
        hide_short_help = true,
        value_name = "ID",
        conflicts_with = "cgroup"
    )]
    pub container: Option<String>,

    /// Only commands that touch a logical block in this range: `FIRST-LAST` or one number. Commands
    /// without a start LBA are excluded
    #[arg(long, hide_short_help = true, value_name = "RANGE")]
    pub lba: Option<String>,
}

/// Attaching and messages.
#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "Attaching and output")]
pub struct AttachArgs {
    /// Attach method; change it only to compare methods, or if `auto` fails
    #[arg(
        long,
        hide_short_help = true,
        value_name = "METHOD",
        default_value = "auto"
    )]
    pub attach: AttachArg,

    /// BTF of the driver's modules, for kernels without module BTF: raw, or an ELF file with a .BTF
    /// section. Refused if it does not match the kernel
    #[arg(long, hide_short_help = true, value_name = "FILE")]
    pub btf: Option<PathBuf>,

    /// When to use colour
    #[arg(
        long,
        hide_short_help = true,
        value_name = "WHEN",
        default_value = "auto"
    )]
    pub color: ColorArg,

    /// Print the hooks, the reasons of fallbacks, the full ledger
    ///
    /// Also the cost of the tool's programs. -vv: libbpf's log too.
    #[arg(long, short, action = clap::ArgAction::Count)]
    pub verbose: u8,

    /// For tests, in debug builds: these programs ignore every 97th of their events, as if the kernel
    /// skipped them
    #[cfg_attr(
        debug_assertions,
        arg(long, value_name = "PROGRAM,...", value_delimiter = ',', hide = true)
    )]
    #[cfg_attr(not(debug_assertions), arg(skip))]
    pub test_ignore: Vec<String>,

    /// For tests, in debug builds: do not look for commands whose set-up or completion was not
    /// observed
    #[cfg_attr(debug_assertions, arg(long, hide = true))]
    #[cfg_attr(not(debug_assertions), arg(skip))]
    pub test_no_recovery: bool,
}

/// Where a stack is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum StackAtArg {
    /// At submission: who submits
    Submit,
    /// At completion: interrupt, softirq, poll or cancellation
    Complete,
}

/// How to write time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum TimeArg {
    /// CLOCK_MONOTONIC in nanoseconds, as in bpf_ktime_get_ns
    Mono,
    /// Seconds since the trace began
    Rel,
    /// Date and time in the local time zone
    Wall,
}

/// Order of stacks, and weight in flame graphs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum StacksByArg {
    /// Number of commands
    Count,
    /// Sum of their latencies
    Latency,
}

/// A choice by what became of a command.
#[derive(Clone, Debug, clap::Args)]
pub struct OutcomeArgs {
    /// Only commands that took at least this long (`1ms`)
    ///
    /// From Submit to Complete. Also commands whose latency is not known.
    #[arg(long, alias = "min-lat", value_name = "TIME", value_parser = parse_duration)]
    pub slow: Option<Duration>,

    /// Only commands with a status other than success
    #[arg(long)]
    pub errors: bool,
}

/// `trace`.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = examples::WITH_FILTERS)]
#[command(after_long_help = examples::TRACE)]
pub struct TraceArgs {
    /// One line per command, at its completion, instead of two
    ///
    /// Otherwise there is a line at Submit and one at Complete. Implied by --slow and --errors.
    #[arg(long)]
    pub pair: bool,

    /// Add the stages to the last line of each command
    ///
    /// Without a value, basic.
    #[arg(long, value_name = "SET", num_args = 0..=1, require_equals = true,
          default_missing_value = "basic")]
    pub stages: Option<StagesArg>,

    /// Add the kernel stack
    ///
    /// Without a value, at submission. A stack costs several thousand instructions: see --sample.
    #[arg(long, value_name = "AT", num_args = 0..=1, require_equals = true,
          default_missing_value = "submit")]
    pub kstack: Option<StackAtArg>,

    /// Take the stack of one command in N only
    ///
    /// Chosen at random. All commands are shown.
    #[arg(long, hide_short_help = true, value_name = "1/N", requires = "kstack")]
    pub sample: Option<String>,

    #[command(flatten)]
    #[allow(missing_docs, reason = "OutcomeArgs says it")]
    pub outcome: OutcomeArgs,

    /// Also show SQ head and tail at each completion (tracepoint nvme_sq)
    #[arg(long, hide_short_help = true)]
    pub sq: bool,

    /// Also show asynchronous events
    #[arg(long, hide_short_help = true)]
    pub aen: bool,

    /// Also observe the conditions of each command
    ///
    /// Whether the CPU of the interrupt was idle or in a soft interrupt, whether the doorbell was
    /// written. Shown in JSON, and recorded by --tee, with the waits and gaps of the machine.
    #[arg(long, conflicts_with = "from", hide_short_help = true)]
    pub context: bool,

    /// Stop after COUNT completed commands
    #[arg(long, short = 'n', value_name = "COUNT", value_parser = count())]
    pub count: Option<u64>,

    /// Stop after this time (`5s`, `2m`)
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    pub duration: Option<Duration>,

    /// How to write time
    #[arg(long, value_name = "CLOCK", default_value = "mono")]
    pub time: TimeArg,

    #[command(flatten)]
    #[allow(missing_docs, reason = "BufferArgs says it")]
    pub buffer: BufferArgs,

    /// Also record what is shown, to this file
    ///
    /// With --from and the same options it is printed again.
    #[arg(long, value_name = "FILE", conflicts_with = "from")]
    pub tee: Option<PathBuf>,

    /// Replace the file of --tee if it exists
    #[arg(long, requires = "tee", hide_short_help = true)]
    pub force: bool,

    /// One JSON object per line instead of text
    ///
    /// The schema is in docs/json.md.
    #[arg(long, short = 'j')]
    pub json: bool,

    #[command(flatten)]
    #[allow(missing_docs, reason = "ExecArgs says it")]
    pub exec: ExecArgs,

    #[command(flatten)]
    #[allow(missing_docs, reason = "FromArgs says it")]
    pub from: FromArgs,

    #[command(flatten)]
    #[allow(missing_docs, reason = "FilterArgs says it")]
    pub filter: FilterArgs,

    #[command(flatten)]
    #[allow(missing_docs, reason = "AttachArgs says it")]
    pub attach: AttachArgs,
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
    use super::*;
    use clap::CommandFactory;

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
