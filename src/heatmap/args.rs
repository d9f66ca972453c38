// SPDX-License-Identifier: MIT OR Apache-2.0
//! `heatmap`.

use std::path::PathBuf;

use crate::model::stage::StageSet;
use crate::settings::{Events, Mode, Outcome, RingSize, Settings};
use crate::view::heatmap::grid::{Interval, Quantity};
use anyhow::Result;
use clap::ValueEnum;

use crate::run::args::common::{
    Checked, FromArgs, RunTime, SessionArgs, SessionOptions, WITH_FILTERS, ending_of, is_stdout,
};
use crate::run::exit::usage;

const EXAMPLES: &str = "\
Examples:
  nvme-deep heatmap run.nvd -o total.png -o total.svg
      The total latency over time
  nvme-deep heatmap run.nvd --stage device -o device.svg
      The device stage over time
  nvme-deep heatmap run.nvd --y lba --disk nvme0n1 -o lba.png
      Where on the disk the commands are
  nvme-deep heatmap --y inflight --duration 10s -o inflight.svg
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
    Inflight,
}

/// `heatmap`.
#[derive(Clone, Debug, clap::Args)]
#[command(override_usage = "nvme-deep heatmap [OPTIONS] -o OUT [FILE]")]
#[command(after_help = WITH_FILTERS)]
#[command(after_long_help = EXAMPLES)]
pub struct HeatmapArgs {
    /// What the vertical axis shows
    #[arg(long, value_name = "WHAT", default_value = "latency")]
    pub y: QuantityArg,

    /// The duration that is shown [default: total; of a recording without stages, driver]
    ///
    /// total (first to last observed point), driver (from the driver's setup of the command to complete); before, queue, submit, device,
    /// complete, end; a part (throttle, block, freeze, zone, iocost, wbt, tag, queue.wait, queue.setup,
    /// submit.map, submit.ring, device.run, device.irq); or neighbours joined by + (submit+device). A live
    /// run observes only what this duration needs: driver costs least, before and its parts cost most.
    #[arg(long, value_name = "STAGE", value_parser = Interval::parse)]
    pub stage: Option<Interval>,

    /// Write the picture to OUT: .svg or .png; can be given twice. `-`: SVG to stdout
    ///
    /// In SVG, a pointer on a cell shows its numbers.
    #[arg(long, short, value_name = "OUT", required = true)]
    pub output: Vec<PathBuf>,

    /// Replace OUT if it exists
    #[arg(long)]
    pub force: bool,

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
        for path in &self.output {
            ending_of(path, &["svg", "png"])?;
        }
        if self.output.iter().filter(|path| is_stdout(path)).count() > 1 {
            return Err(usage("stdout can't have two pictures: give one of them a file"));
        }
        let quantity = self.quantity(StageSet::Basic);
        if self.stage.is_some() && self.y != QuantityArg::Latency {
            return Err(usage("--stage is for `--y latency`: leave one of the two out"));
        }
        if quantity == Quantity::InFlight && self.outcome.is_some() {
            return Err(usage(
                "`--y inflight` counts all commands in flight: leave --slow and --errors out",
            ));
        }
        self.from.refuse_several("a heat map shows")?;
        let events = Events {
            // commands in flight are counted at submissions; a recording may have one event per command
            submits: quantity == Quantity::InFlight && self.from.is_empty(),
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
            QuantityArg::Inflight => Quantity::InFlight,
        }
    }
}
