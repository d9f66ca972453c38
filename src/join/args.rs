// SPDX-License-Identifier: MIT OR Apache-2.0
//! `join`.

use std::path::PathBuf;

use clap::ValueEnum;

use crate::join::view::JoinClock;
use crate::run::args::common::{ColorArg, JSON, JSON_LONG};
use crate::run::args::examples;
use crate::run::args::value::number;

const EXAMPLES: &str = "\
Examples:
  nvme-deep join guest.nvd host.nvd
      Where the time of each command went: driver, target, between them
  nvme-deep join guest.nvd host.nvd --format perfetto -o both.pftrace
      Both sides on one time line";

/// Formats of a time line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum TimelineArg {
    /// For ui.perfetto.dev, on the guest's clock
    Perfetto,
}

/// `join`.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = examples::ONLY_EXAMPLES)]
#[command(after_long_help = EXAMPLES)]
pub struct JoinArgs {
    /// The recording of the driver (`record`)
    #[arg(value_name = "GUEST")]
    pub guest: PathBuf,

    /// The recording of the host side (`host trace -o`, `import -o`)
    #[arg(value_name = "HOST")]
    pub host: PathBuf,

    /// How to compare the clocks
    ///
    /// [default: same if both recordings are of one boot, else pairs]
    #[arg(long, value_name = "METHOD")]
    pub clock: Option<JoinClock>,

    /// Controllers of guest and host: `nvme2=nvmet:1`
    ///
    /// Needed where several are possible.
    #[arg(long, value_name = "CTRL=NAME", value_delimiter = ',')]
    pub ctrl: Vec<String>,

    /// Write both sides on one time line, not the report
    #[arg(long, value_name = "FORMAT", requires = "output")]
    pub format: Option<TimelineArg>,

    /// The file of --format
    ///
    /// It is readable by its owner only.
    #[arg(long, short, value_name = "OUT", requires = "format", conflicts_with = "json")]
    pub output: Option<PathBuf>,

    /// Replace OUT if it exists
    #[arg(long, requires = "output")]
    pub force: bool,

    /// Show this many of the slowest commands singly
    #[arg(long, short = 'n', value_name = "COUNT", default_value = "3", value_parser = number(0..=usize::MAX))]
    pub slowest: usize,

    #[arg(long, short = 'j', help = JSON, long_help = JSON_LONG)]
    pub json: bool,

    /// When to use colour
    #[arg(long, value_name = "WHEN", default_value = "auto")]
    pub color: ColorArg,
}
