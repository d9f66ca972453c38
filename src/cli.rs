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
