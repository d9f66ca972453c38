// SPDX-License-Identifier: MIT OR Apache-2.0
//! The command line of `pattern` as typed.

use std::path::PathBuf;
use std::time::Duration;

use nvme_deep::units::parse_duration;

use super::args::AttachArgs;
use super::args::FilterArgs;
use super::record::BufferArgs;
use super::record::FromArgs;

/// `pattern`.
#[derive(Clone, Debug, clap::Args)]
pub struct PatternArgs {
    /// Report every INTERVAL (`1`, `500ms`, `5s`); without it, once at the end
    #[arg(value_name = "INTERVAL", value_parser = parse_duration)]
    pub interval: Option<Duration>,

    /// Stop after COUNT reports
    #[arg(value_name = "COUNT", value_parser = clap::value_parser!(u64).range(1..))]
    pub count: Option<u64>,

    /// Stop after this time (`5s`, `2m`)
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    pub duration: Option<Duration>,

    /// Report each interval separately, instead of everything since the start. The final report
    /// always covers the whole run
    #[arg(long, requires = "interval")]
    pub delta: bool,

    /// Write all buckets of the histograms, a line each
    #[arg(long)]
    pub hist: bool,

    /// Also write the final report as a picture to this file (SVG)
    #[arg(long, value_name = "OUT")]
    pub svg: Option<PathBuf>,

    /// Replace OUT if it exists
    #[arg(long, requires = "svg")]
    pub force: bool,

    /// One JSON object per line instead of text (schema: docs/json.md)
    #[arg(long, short = 'j')]
    pub json: bool,

    #[command(flatten)]
    #[allow(missing_docs, reason = "FilterArgs says it")]
    pub filter: FilterArgs,

    #[command(flatten)]
    #[allow(missing_docs, reason = "BufferArgs says it")]
    pub buffer: BufferArgs,

    #[command(flatten)]
    #[allow(missing_docs, reason = "FromArgs says it")]
    pub from: FromArgs,

    #[command(flatten)]
    #[allow(missing_docs, reason = "AttachArgs says it")]
    pub attach: AttachArgs,
}
