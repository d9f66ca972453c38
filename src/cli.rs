// SPDX-License-Identifier: MIT OR Apache-2.0
//! The words of the command line, and nothing about what they mean.

use std::path::PathBuf;
use std::time::Duration;

use clap::Parser;
use clap::Subcommand;
use clap::ValueEnum;

use crate::units::parse_duration;

/// Looks inside the Linux NVMe driver: where each command's time goes, measured by eBPF.
#[derive(Debug, Parser)]
#[command(name = "nvme-deep", version, max_term_width = 100)]
#[command(
    after_help = "Run as root. CAP_BPF and CAP_PERFMON alone bring most of it; `doctor`, as that user, says what.\n\
    Exit codes: 0 done or told to stop, 1 failed while running, 2 wrong usage, 4 not allowed,\n\
    5 the kernel lacks what is needed, 6 no such NVMe device."
)]
pub struct Args {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Latency histograms and percentiles per controller, namespace and opcode
    Latency(LatencyArgs),
    /// Every command as it happens, decoded, with its outcome, stages and kernel stacks
    Trace(TraceArgs),
    /// Kernel stacks that commands come from: how many each, and how long these took
    Stacks(StacksArgs),
    /// What this machine, its controllers and its kernel offer, how each point would be had, and
    /// what you could change to get more. Works without root, too
    Doctor(DoctorArgs),
}

/// How finely to cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum StagesArg {
    /// queue, submit, device, complete
    Cheap,
    /// queue, setup, map, submit, device, irq, complete, end
    Fine,
}

/// When to colour.
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
    /// Each point in the best way that this kernel has
    Auto,
    /// Trampolines only: fentry, fexit, tp_btf. Needs the BTF of the driver
    Fentry,
    /// Raw tracepoints only. No doorbell, no interrupt
    Rawtp,
    /// kprobes and kretprobes only. Misses completions under load
    Kprobe,
    /// Classic tracepoints only: one interval, no stages. Misses completions under load
    Tracepoint,
}

/// `latency`.
#[derive(Clone, Debug, clap::Args)]
pub struct LatencyArgs {
    /// Split each command's life into stages: queue, submit, device, complete; or `=fine`: queue,
    /// setup, map, submit, device, irq, complete, end. Without it only the total is measured, from
    /// setup_out to complete, the cheapest way
    #[arg(long, value_name = "CUT", num_args = 0..=1, require_equals = true,
          default_missing_value = "cheap")]
    pub stages: Option<StagesArg>,

    /// Report every INTERVAL (`1`, `500ms`, `5s`); without it once, at the end
    #[arg(value_name = "INTERVAL", value_parser = parse_duration)]
    pub interval: Option<Duration>,

    /// Stop after COUNT reports
    #[arg(value_name = "COUNT", value_parser = clap::value_parser!(u64).range(1..))]
    pub count: Option<u64>,

    /// Stop after this time (`5s`, `2m`)
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    pub duration: Option<Duration>,

    /// Show each interval for itself, instead of everything since the start. The final report is
    /// always of the whole run
    #[arg(long, requires = "interval")]
    pub delta: bool,

    /// Add the histogram of each stage
    #[arg(long)]
    pub hist: bool,

    #[command(flatten)]
    #[allow(missing_docs, reason = "FilterArgs says it")]
    pub filter: FilterArgs,

    /// Show the table of nvme_latency for the total: one bucket below this many microseconds, then
    /// buckets that double. With --lat-shift alone: 20
    #[arg(long, alias = "lat_min_us", value_name = "US")]
    pub lat_min_us: Option<u64>,

    /// The first bucket of that table is 2^SHIFT microseconds wide. With --lat-min-us alone: 0
    #[arg(long, alias = "lat_shift", value_name = "SHIFT")]
    pub lat_shift: Option<u32>,

    /// A row per size class: up to 16 KiB, up to 64 KiB, above; by the namespace's own block size
    #[arg(long, alias = "split_size")]
    pub split_size: bool,

    /// One JSON object a line instead of text (schema in the README)
    #[arg(long, short = 'j')]
    pub json: bool,

    /// With --json: also an object for every single command, to check the books with. Costs far
    /// more than the histograms
    #[arg(long, requires = "json")]
    pub commands: bool,

    #[command(flatten)]
    #[allow(missing_docs, reason = "AttachArgs says it")]
    pub attach: AttachArgs,
}

/// Which commands. All that are given must hold for a command to count.
#[derive(Clone, Debug, Default, clap::Args)]
#[command(next_help_heading = "Filters (all of them must hold; checked in the kernel)")]
pub struct FilterArgs {
    /// Only these controllers (`nvme0` or `0`; several with commas)
    #[arg(long, alias = "ctrl_id", value_name = "CTRL", value_delimiter = ',')]
    pub ctrl: Vec<String>,

    /// Only commands with these namespace ids
    #[arg(long, value_name = "NSID", value_delimiter = ',')]
    pub nsid: Vec<u32>,

    /// Only these opcodes: names (`read`, `dsm`, `admin:identify`) or numbers (`0x02`, `io:0x02`)
    #[arg(long, value_name = "OPCODE", value_delimiter = ',')]
    pub opcode: Vec<String>,

    /// Only commands on these queues; 0 is the admin queue
    #[arg(long, value_name = "QID", value_delimiter = ',')]
    pub qid: Vec<u16>,

    /// Leave admin commands out
    #[arg(long)]
    pub no_admin: bool,

    /// Leave I/O commands out
    #[arg(long)]
    pub no_io: bool,

    /// Only commands that these processes hand to the driver. What blk-mq hands over later
    /// (scheduler, writeback, retries) comes from kernel threads
    #[arg(long, short, value_name = "PID", value_delimiter = ',')]
    pub pid: Vec<u32>,

    /// Only commands from threads of this name
    #[arg(long, value_name = "NAME")]
    pub comm: Option<String>,

    /// Only commands from processes in this cgroup (v2) or below: `/sys/fs/cgroup/...`
    #[arg(long, short, value_name = "PATH")]
    pub cgroup: Option<PathBuf>,

    /// Only commands that name a logical block of this range: `FIRST-LAST` or one number. Commands
    /// without a start LBA are left out
    #[arg(long, value_name = "RANGE")]
    pub lba: Option<String>,
}

/// How to attach, and how to talk.
#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "Attaching and output")]
pub struct AttachArgs {
    /// How to attach; anything but auto is for comparing ways, or where auto chooses badly
    #[arg(long, value_name = "WAY", default_value = "auto")]
    pub attach: AttachArg,

    /// BTF of the driver's modules, for kernels that have none of their own; raw, or an ELF file
    /// with a .BTF section. Refused where it does not fit
    #[arg(long, value_name = "FILE")]
    pub btf: Option<PathBuf>,

    /// Colour the text
    #[arg(long, value_name = "WHEN", default_value = "auto")]
    pub color: ColorArg,

    /// Say on stderr what is attached and why not; twice: libbpf's log too
    #[arg(long, short, action = clap::ArgAction::Count)]
    pub verbose: u8,

    /// For tests: these programs ignore every 97th of their events, as if the kernel skipped them
    #[arg(long, value_name = "PROGRAM,...", value_delimiter = ',', hide = true)]
    pub test_ignore: Vec<String>,

    /// For tests: do not look for commands whose set-up or completion was not observed
    #[arg(long, hide = true)]
    pub test_no_recovery: bool,
}

/// Where a stack is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum StackAtArg {
    /// Where the driver sets the command up: whose work it is
    Submit,
    /// Where the driver completes it: interrupt, softirq, poll or cancellation
    Complete,
}

/// How to write time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum TimeArg {
    /// CLOCK_MONOTONIC in nanoseconds, as bpf_ktime_get_ns and nvme_trace have it
    Mono,
    /// Seconds since the trace began
    Rel,
    /// Date and time, by the local time zone
    Wall,
}

/// In which order stacks are shown, and what weighs in flame graphs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum StacksByArg {
    /// Number of commands
    Count,
    /// Sum of their latencies
    Latency,
}

/// `trace`.
#[derive(Clone, Debug, clap::Args)]
pub struct TraceArgs {
    /// One line per command, when it completes, instead of one at Submit and one at Complete.
    /// Implied by --slow and --errors, which are known only then
    #[arg(long)]
    pub pair: bool,

    /// Add the stages of each command to its last line: queue, submit, device, complete; or
    /// `=fine`: queue, setup, map, submit, device, irq, complete, end
    #[arg(long, value_name = "CUT", num_args = 0..=1, require_equals = true,
          default_missing_value = "cheap")]
    pub stages: Option<StagesArg>,

    /// Add the kernel stack at submission, or with `=complete` at completion. A stack costs ten
    /// times what tracing the command costs: see --sample
    #[arg(long, value_name = "AT", num_args = 0..=1, require_equals = true,
          default_missing_value = "submit")]
    pub kstack: Option<StackAtArg>,

    /// Take the stack of one command in N only, chosen at random. Every command is still shown
    #[arg(long, value_name = "1/N", requires = "kstack")]
    pub sample: Option<String>,

    /// Show only commands that took at least this long from Submit to Complete (`1ms`, `200us`)
    #[arg(long, alias = "min-lat", value_name = "TIME", value_parser = parse_duration)]
    pub slow: Option<Duration>,

    /// Show only commands that ended with a status other than success
    #[arg(long)]
    pub errors: bool,

    /// Also show how far the controller has read the submission queue (nvme_sq), command by command
    #[arg(long)]
    pub sq: bool,

    /// Also show asynchronous events of the controllers
    #[arg(long)]
    pub aen: bool,

    /// Stop after COUNT commands have been shown to their end
    #[arg(long, short = 'n', value_name = "COUNT", value_parser = clap::value_parser!(u64).range(1..))]
    pub count: Option<u64>,

    /// Stop after this time (`5s`, `2m`)
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    pub duration: Option<Duration>,

    /// How to write time
    #[arg(long, value_name = "CLOCK", default_value = "mono")]
    pub time: TimeArg,

    /// Size of the ring between kernel and tool, rounded up to a power of two (`4M`, `64M`). What
    /// finds no room in it is lost, and counted [default: 16M; down to 4M where the controllers' tags
    /// need much memory]
    #[arg(long, value_name = "SIZE")]
    pub buffer: Option<String>,

    /// One JSON object a line instead of text (schema in the README)
    #[arg(long, short = 'j')]
    pub json: bool,

    #[command(flatten)]
    #[allow(missing_docs, reason = "FilterArgs says it")]
    pub filter: FilterArgs,

    #[command(flatten)]
    #[allow(missing_docs, reason = "AttachArgs says it")]
    pub attach: AttachArgs,
}

/// `stacks`.
#[derive(Clone, Debug, clap::Args)]
pub struct StacksArgs {
    /// Where the stack is taken
    #[arg(long, value_name = "POINT", default_value = "submit")]
    pub at: StackAtArg,

    /// Order of the list, and weight in --folded and --svg
    #[arg(long, value_name = "WHAT", default_value = "count")]
    pub by: StacksByArg,

    /// Look at one command in N only, chosen at random; counts are then of those
    #[arg(long, value_name = "1/N")]
    pub sample: Option<String>,

    /// Count only commands that took at least this long from Submit to Complete (`1ms`, `200us`)
    #[arg(long, alias = "min-lat", value_name = "TIME", value_parser = parse_duration)]
    pub slow: Option<Duration>,

    /// Count only commands that ended with a status other than success
    #[arg(long)]
    pub errors: bool,

    /// Show the first COUNT stacks only
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u64).range(1..))]
    pub top: Option<u64>,

    /// One line a stack, for flame graph tools: frames from the outermost to the driver's, with
    /// semicolons, and the weight
    #[arg(long, conflicts_with = "json")]
    pub folded: bool,

    /// Also draw a flame graph into this file
    #[arg(long, value_name = "FILE")]
    pub svg: Option<PathBuf>,

    /// Stop after this time (`5s`, `2m`)
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    pub duration: Option<Duration>,

    /// One JSON object a line instead of text (schema in the README)
    #[arg(long, short = 'j')]
    pub json: bool,

    #[command(flatten)]
    #[allow(missing_docs, reason = "FilterArgs says it")]
    pub filter: FilterArgs,

    #[command(flatten)]
    #[allow(missing_docs, reason = "AttachArgs says it")]
    pub attach: AttachArgs,
}

/// `doctor`.
#[derive(Clone, Debug, clap::Args)]
pub struct DoctorArgs {
    /// One JSON object instead of text (schema in the README)
    #[arg(long, short = 'j')]
    pub json: bool,

    /// Ask each live PCI controller with one Identify command whether it offers shadow doorbells.
    /// A controller that hangs may keep that waiting for the admin timeout (60 s)
    #[arg(long)]
    pub identify: bool,

    /// Plan for this way to attach
    #[arg(long, value_name = "WAY", default_value = "auto")]
    pub attach: AttachArg,

    /// BTF of the driver's modules, as for latency
    #[arg(long, value_name = "FILE")]
    pub btf: Option<PathBuf>,

    /// Colour the text
    #[arg(long, value_name = "WHEN", default_value = "auto")]
    pub color: ColorArg,
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
    fn stages_takes_its_value_by_equals_only_so_that_the_interval_can_follow() {
        let args = Args::try_parse_from(["nvme-deep", "latency", "--stages", "1", "3"]).unwrap();
        let Command::Latency(latency) = args.command else {
            panic!("not latency");
        };
        assert_eq!(latency.stages, Some(StagesArg::Cheap));
        assert_eq!(latency.interval, Some(Duration::from_secs(1)));
        assert_eq!(latency.count, Some(3));
    }
}
