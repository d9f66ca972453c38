// SPDX-License-Identifier: MIT OR Apache-2.0
//! The command line of `pattern` as typed.

use super::args::AttachArgs;
use super::args::FilterArgs;
use super::examples;
use super::record::BufferArgs;
use super::record::FromArgs;
use super::schedule::ScheduleArgs;
use std::path::PathBuf;

/// `pattern`.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = examples::WITH_FILTERS)]
#[command(after_long_help = examples::PATTERN)]
pub struct PatternArgs {
    #[command(flatten)]
    #[allow(missing_docs, reason = "ScheduleArgs says it")]
    pub schedule: ScheduleArgs,

    /// Write all buckets of the histograms, a line each
    #[arg(long)]
    pub hist: bool,

    /// Also write the final report as a picture (SVG)
    ///
    /// `-`: only the picture, to stdout.
    #[arg(long, value_name = "OUT")]
    pub svg: Option<PathBuf>,

    /// Replace OUT if it exists
    #[arg(long, requires = "svg")]
    pub force: bool,

    /// One JSON object per line instead of text
    ///
    /// The schema is in docs/json.md.
    #[arg(long, short = 'j')]
    pub json: bool,

    #[command(flatten)]
    #[allow(missing_docs, reason = "BufferArgs says it")]
    pub buffer: BufferArgs,

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
