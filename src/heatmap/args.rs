// SPDX-License-Identifier: MIT OR Apache-2.0
//! `heatmap`, and the files of pictures.

use std::path::PathBuf;

use crate::heatmap::grid::{Interval, Quantity};
use crate::model::stage::StageSet;
use crate::settings::{Events, Mode, Outcome, RingSize, Settings};
use crate::view::picture::Scheme;
use anyhow::Result;
use clap::ValueEnum;

use crate::run::args::common::{
    Checked, FromArgs, PictureFile, PictureFormat, RunTime, SessionArgs, SessionOptions,
};
use crate::run::args::examples;
use crate::run::exit::usage;

const EXAMPLES: &str = "\
Examples:
  nvme-deep heatmap --from run.nvd --stage device --svg device.svg
      The device stage over time
  nvme-deep heatmap --from run.nvd --y lba --ctrl nvme0 --nsid 1 --png lba.png
      Where on the disk the commands are
  nvme-deep heatmap --y depth --duration 10s --svg depth.svg
      Commands in flight, live";

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

/// The file of the picture.
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
#[command(after_long_help = EXAMPLES)]
pub struct HeatmapArgs {
    /// What the vertical axis shows
    #[arg(long, value_name = "WHAT", default_value = "latency")]
    pub y: QuantityArg,

    /// The duration that is shown [default: total; of a recording without stages, driver]
    ///
    /// total (first to last observed point), driver (setup_out to complete); before, queue, submit, device,
    /// complete, end; a part (throttle, block, freeze, zone, iocost, wbt, tag, queue.wait, queue.setup,
    /// submit.map, submit.ring, device.run, device.irq); or neighbours joined by + (submit+device). A live
    /// run observes what the duration needs: driver is the cheapest, and only before and its parts need
    /// --stages=full.
    #[arg(long, value_name = "STAGE", value_parser = Interval::parse)]
    pub stage: Option<Interval>,

    #[command(flatten)]
    pub picture: PictureArgs,

    /// Replace OUT if it exists
    #[arg(long)]
    pub force: bool,

    /// The colours
    #[arg(long, value_name = "THEME", default_value = "auto")]
    pub theme: Scheme,

    #[command(flatten)]
    pub run: RunTime,

    #[command(flatten)]
    pub outcome: Outcome,

    #[command(flatten)]
    pub ring_size: RingSize,

    #[command(flatten)]
    pub from: FromArgs,

    #[command(flatten)]
    pub session: SessionArgs,
}

/// The options of the command, checked.
pub type HeatmapOptions = Checked<HeatmapArgs>;

impl SessionOptions for HeatmapArgs {
    fn settings(&self) -> Result<Settings> {
        let quantity = self.quantity(StageSet::Basic);
        if self.stage.is_some() && self.y != QuantityArg::Latency {
            return Err(usage("--stage is for `--y latency`: leave one of the two out"));
        }
        if quantity == Quantity::Depth && self.outcome.is_some() {
            return Err(usage(
                "`--y depth` counts all commands in flight: leave --slow and --errors out",
            ));
        }
        self.from.refuse_several("a heat map shows")?;
        let events = Events {
            // the depth is counted at submissions; a recording may have one event per command
            submits: quantity == Quantity::Depth && self.from.is_empty(),
            outcome: self.outcome,
            ring_size: self.ring_size,
            ..Events::default()
        };
        let stages = match quantity {
            Quantity::Latency(interval) => interval.needs(),
            _ => StageSet::Total,
        };
        let is_recorded = !self.from.is_empty();
        let settings = self.session.settings(is_recorded, Mode::Events(events), stages)?;
        let is_open = self.stage.is_none() && self.y == QuantityArg::Latency;
        Ok(settings.with_recorded_stages(is_recorded && is_open))
    }
}

impl HeatmapArgs {
    /// What the vertical axis shows, if these stages are observed.
    pub fn quantity(&self, stages: StageSet) -> Quantity {
        let whole = if stages == StageSet::Total { Interval::DRIVER } else { Interval::TOTAL };
        match self.y {
            QuantityArg::Latency => Quantity::Latency(self.stage.unwrap_or(whole)),
            QuantityArg::Lba => Quantity::Lba,
            QuantityArg::Size => Quantity::Size,
            QuantityArg::Depth => Quantity::Depth,
        }
    }

    /// The file of the picture; clap asks for one of the two.
    ///
    /// # Errors
    /// If there is none.
    pub fn picture_file(&self) -> Result<PictureFile> {
        let PictureArgs { svg, png } = self.picture.clone();
        let svg = svg.map(|path| (path, PictureFormat::Svg));
        let file = svg.or(png.map(|path| (path, PictureFormat::Png)));
        let (path, format) = file.ok_or_else(|| usage("give a file: --svg OUT or --png OUT"))?;
        Ok(PictureFile { path, format, force: self.force, scheme: self.theme })
    }
}
