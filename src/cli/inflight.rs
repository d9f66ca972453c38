// SPDX-License-Identifier: MIT OR Apache-2.0
//! The command line of `inflight` as typed.

use std::path::PathBuf;
use std::time::Duration;

use nvme_deep::nvme::subject::parse_nsid;
use nvme_deep::report::inflight::AgeLimit;
use nvme_deep::units::parse_duration;

use super::args::ColorArg;
use super::examples;
use super::value::count;
use super::value::number;

/// `inflight`.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = examples::ONLY_EXAMPLES)]
#[command(after_long_help = examples::INFLIGHT)]
pub struct InflightArgs {
    /// Look again every INTERVAL (`1`, `500ms`, `5s`); without it, once
    #[arg(value_name = "INTERVAL", value_parser = parse_duration)]
    pub interval: Option<Duration>,

    /// Stop after COUNT looks
    #[arg(value_name = "COUNT", value_parser = count())]
    pub count: Option<u64>,

    /// Give a verdict on commands of at least this age
    ///
    /// These are read twice, 30 ms apart. `10x`: ten times the p99 of commands with the same
    /// controller, namespace, opcode and size class; needs an INTERVAL, in which commands are traced.
    #[arg(long, value_name = "TIME|Nx", default_value = "100ms", value_parser = AgeLimit::parse)]
    pub age: AgeLimit,

    /// Add the kernel stack of each command; needs an INTERVAL
    ///
    /// The stack at its submission, its submitter, and the p99 of its kind.
    #[arg(long)]
    pub kstack: bool,

    /// Show only the commands of at least that age
    #[arg(long)]
    pub old: bool,

    /// Only this disk (`nvme0n1`)
    ///
    /// Or `/dev/nvme0n1`, or the one that has this file or directory (`/mnt/data`). All paths of a
    /// multipath disk.
    #[arg(long, value_name = "DISK", conflicts_with_all = ["ctrl", "nsid"])]
    pub disk: Option<String>,

    /// Only these controllers (`nvme0,nvme1`)
    #[arg(long, value_name = "CTRL", value_delimiter = ',')]
    pub ctrl: Vec<String>,

    /// Only these namespace ids: `1`, `0x1`; `all` is ffffffffh
    #[arg(long, value_name = "NSID", value_delimiter = ',', value_parser = parse_nsid)]
    pub nsid: Vec<u32>,

    /// Only commands on these queues; 0 is the admin queue
    #[arg(long, value_name = "QID", value_delimiter = ',', value_parser = number(0..=u16::MAX))]
    pub qid: Vec<u16>,

    /// One JSON object per look instead of text
    ///
    /// The schema is in docs/json.md.
    #[arg(long, short = 'j')]
    pub json: bool,

    /// BTF of the kernel with its modules, if it has none (5.10)
    #[arg(long, value_name = "FILE")]
    pub btf: Option<PathBuf>,

    /// When to use colour
    #[arg(long, value_name = "WHEN", default_value = "auto")]
    pub color: ColorArg,
}
