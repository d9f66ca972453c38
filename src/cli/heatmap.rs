// SPDX-License-Identifier: MIT OR Apache-2.0
//! The command line of `heatmap` as typed.

use std::path::PathBuf;
use std::time::Duration;

use clap::ValueEnum;
use nvme_deep::units::parse_duration;

use super::args::AttachArgs;
use super::args::FilterArgs;
use super::args::OutcomeArgs;
use super::examples;
use super::record::BufferArgs;
use super::record::FromArgs;

/// What the vertical axis shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum QuantityArg {
    /// The duration of --stage, at the completion
    Latency,
    /// The first logical block, at the submission
    Lba,
    /// Bytes of data, at the submission
    Size,
    /// The commands in flight, at the submission of each
    Depth,
}

/// Colours of a picture.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ThemeArg {
    /// SVG: as the viewer prefers; PNG: light
    Auto,
    /// Dark text on a light page
    Light,
    /// Light text on a dark page
    Dark,
}

/// The file of a picture.
#[derive(Clone, Debug, clap::Args)]
#[group(required = true, multiple = false)]
pub struct PictureArgs {
    /// Write an SVG file; `-`: to stdout
    ///
    /// A pointer on a cell shows its numbers.
    #[arg(long, value_name = "OUT")]
    pub svg: Option<PathBuf>,

    /// Write a PNG file; `-`: to stdout
    #[arg(long, value_name = "OUT")]
    pub png: Option<PathBuf>,
}

/// `heatmap`.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = examples::WITH_FILTERS)]
#[command(after_long_help = examples::HEATMAP)]
pub struct HeatmapArgs {
    /// What the vertical axis shows
    #[arg(long, value_name = "WHAT", default_value = "latency")]
    pub y: QuantityArg,

    /// The duration that is shown [default: total]
    ///
    /// total (setup_out to complete), queue, submit, device, complete; of the fine stages setup, map,
    /// irq, end, fine:device and so on; or joined stages (submit+device).
    #[arg(long, value_name = "STAGE")]
    pub stage: Option<String>,

    #[command(flatten)]
    #[allow(missing_docs, reason = "PictureArgs says it")]
    pub picture: PictureArgs,

    /// Replace OUT if it exists
    #[arg(long)]
    pub force: bool,

    /// The colours
    #[arg(long, value_name = "THEME", default_value = "auto")]
    pub theme: ThemeArg,

    /// Stop after this time (`5s`, `2m`)
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    pub duration: Option<Duration>,

    #[command(flatten)]
    #[allow(missing_docs, reason = "OutcomeArgs says it")]
    pub outcome: OutcomeArgs,

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
