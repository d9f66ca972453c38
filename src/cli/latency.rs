// SPDX-License-Identifier: MIT OR Apache-2.0
//! The command line of `latency` as typed.

use super::args::AttachArgs;
use super::args::ExecArgs;
use super::args::FilterArgs;
use super::args::StagesArg;
use super::examples;
use super::record::FromArgs;
use super::schedule::ScheduleArgs;
use super::value::number;

/// `latency`.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = examples::WITH_FILTERS)]
#[command(after_long_help = examples::LATENCY)]
pub struct LatencyArgs {
    /// Split each command's life into stages
    ///
    /// Without a value, basic. Without this option only one interval is measured, setup_out to
    /// complete.
    #[arg(long, value_name = "SET", num_args = 0..=1, require_equals = true,
          default_missing_value = "basic")]
    pub stages: Option<StagesArg>,

    #[command(flatten)]
    #[allow(missing_docs, reason = "ScheduleArgs says it")]
    pub schedule: ScheduleArgs,

    /// Add the histograms of stages and total
    #[arg(long)]
    pub hist: bool,

    /// Add a table of the totals: one bucket below this many microseconds, then buckets that double
    /// in width [default with --lat-shift: 20]
    #[arg(long, hide_short_help = true, alias = "lat_min_us", value_name = "US", value_parser = number(0..=u64::MAX))]
    pub lat_min_us: Option<u64>,

    /// Width of the first bucket of that table, 2^SHIFT microseconds [default with --lat-min-us: 0]
    #[arg(long, hide_short_help = true, alias = "lat_shift", value_name = "SHIFT", value_parser = number(0..=u32::MAX))]
    pub lat_shift: Option<u32>,

    /// Separate rows for up to 16 KiB, up to 64 KiB, and above
    #[arg(long, alias = "split_size")]
    pub split_size: bool,

    /// One JSON object per line instead of text
    ///
    /// The schema is in docs/json.md.
    #[arg(long, short = 'j')]
    pub json: bool,

    /// With --json: also one object per command, to check the counts. Costs far more than the
    /// histograms
    #[arg(long, requires = "json", hide_short_help = true)]
    pub commands: bool,

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
