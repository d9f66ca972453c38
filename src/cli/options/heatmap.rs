// SPDX-License-Identifier: MIT OR Apache-2.0
//! Options of `heatmap`, checked.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::Error;
use anyhow::Result;
use nvme_deep::model::stage::StageSet;
use nvme_deep::render::picture::Scheme;
use nvme_deep::report::heatmap::Interval;
use nvme_deep::report::heatmap::Quantity;
use nvme_deep::session::settings::Events;
use nvme_deep::session::settings::Mode;
use nvme_deep::session::settings::Outcome;
use nvme_deep::session::settings::Settings;

use super::filter::refuse_for_recordings;
use super::usage;
use crate::cli::args::ExecArgs;
use crate::cli::args::OutcomeArgs;
use crate::cli::heatmap::HeatmapArgs;
use crate::cli::heatmap::PictureArgs;
use crate::cli::heatmap::QuantityArg;
use crate::cli::heatmap::ThemeArg;
use crate::cli::record::FromArgs;

/// Formats of pictures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PictureFormat {
    /// SVG.
    Svg,
    /// PNG.
    Png,
}

/// The file of a picture.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PictureFile {
    /// Its path.
    pub path: PathBuf,
    /// Its format.
    pub format: PictureFormat,
    /// Replace it if it exists.
    pub force: bool,
    /// Its colours.
    pub scheme: Scheme,
}

/// Options of `heatmap`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeatmapOptions {
    /// Settings of the session.
    pub settings: Settings,
    /// What the vertical axis shows.
    pub quantity: Quantity,
    /// The file to write.
    pub picture: PictureFile,
    /// Length of the run.
    pub duration: Option<Duration>,
    /// Read this recording instead of tracing.
    pub from: Option<PathBuf>,
}

fn quantity(y: QuantityArg, stage: Option<&str>) -> Result<Quantity> {
    let other = match y {
        QuantityArg::Latency => {
            let interval = Interval::parse(stage.unwrap_or("total"));
            return interval
                .map(Quantity::Latency)
                .map_err(|why| usage(why.to_string()));
        }
        QuantityArg::Lba => Quantity::Lba,
        QuantityArg::Size => Quantity::Size,
        QuantityArg::Depth => Quantity::Depth,
    };
    match stage {
        None => Ok(other),
        Some(_) => Err(usage(
            "--stage is for `--y latency`: leave one of the two out",
        )),
    }
}

/// The file of a picture; clap asks for one of the two.
fn picture(args: PictureArgs, force: bool, theme: ThemeArg) -> Result<PictureFile> {
    let PictureArgs { svg, png } = args;
    let svg = svg.map(|path| (path, PictureFormat::Svg));
    let file = svg.or(png.map(|path| (path, PictureFormat::Png)));
    let (path, format) = file.ok_or_else(|| usage("give a file: --svg OUT or --png OUT"))?;
    Ok(PictureFile {
        path,
        format,
        force,
        scheme: match theme {
            ThemeArg::Auto => Scheme::Auto,
            ThemeArg::Light => Scheme::Light,
            ThemeArg::Dark => Scheme::Dark,
        },
    })
}

impl TryFrom<HeatmapArgs> for HeatmapOptions {
    type Error = Error;

    fn try_from(args: HeatmapArgs) -> Result<Self> {
        let HeatmapArgs {
            y,
            stage,
            picture: file,
            force,
            theme,
            duration,
            outcome: OutcomeArgs { slow, errors },
            filter,
            buffer,
            from: FromArgs { mut from },
            attach,
        } = args;
        if !from.is_empty() {
            refuse_for_recordings(&filter, &ExecArgs::default())?;
        }
        let quantity = quantity(y, stage.as_deref())?;
        if quantity == Quantity::Depth && (slow.is_some() || errors) {
            return Err(usage(
                "`--y depth` counts all commands in flight: leave --slow and --errors out",
            ));
        }
        if from.len() > 1 {
            return Err(usage(
                "a heat map shows one recording: give one file to --from, and run it again for each",
            ));
        }
        let live_depth = quantity == Quantity::Depth && from.is_empty();
        Ok(Self {
            settings: Settings {
                filter: filter.try_into()?,
                mode: Mode::Events(Events {
                    pairs: !live_depth,
                    outcome: Outcome { slow, errors },
                    ring_bytes: buffer.bytes()?,
                    ..Events::default()
                }),
                attaching: attach.into(),
                ..Settings::of(match quantity {
                    Quantity::Latency(interval) => interval.stage_set,
                    _ => StageSet::Total,
                })
            },
            quantity,
            picture: picture(file, force, theme)?,
            duration,
            from: from.pop(),
        })
    }
}
