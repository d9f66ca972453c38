// SPDX-License-Identifier: MIT OR Apache-2.0
//! `top`.

use std::time::Duration;

use crate::model::group::By;
use crate::model::stage::StageSet;
use crate::settings::{ExtraEvents, Histograms, LIVE, Mode, Settings};
use anyhow::Result;

use crate::run::args::common::{
    Checked, FromArgs, GroupKeys, RunTime, SessionArgs, SessionOptions, Singles, WITH_FILTERS,
    interval,
};
use crate::run::exit::usage;

const EXAMPLES: &str = "\
Examples:
  nvme-deep top
      Every second
  nvme-deep top 500ms --stages=fine --ctrl nvme1
      Twice a second, one controller, with the parts of stages
  nvme-deep top --by container,opcode
      A row per container and opcode; the key b: per container, per opcode
  nvme-deep top run.nvd
      Plays a recording; the key ? shows how to step through it";

/// `top`.
#[derive(Clone, Debug, clap::Args)]
#[command(override_usage = "nvme-deep top [OPTIONS] [FILE]... [INTERVAL]")]
#[command(after_help = WITH_FILTERS)]
#[command(after_long_help = EXAMPLES)]
pub struct TopArgs {
    /// Length of an interval (`1`, `500ms`, `5s`)
    #[arg(value_name = "INTERVAL", default_value = "1s", value_parser = interval(
        Duration::from_millis(100), "is too short for a screen: give at least 100ms"))]
    pub interval: Duration,

    /// Which stages to show [default: basic]
    ///
    /// `none` is cheaper, and measures only the time in the driver. By default a recording's stages are
    /// summed into the basic groups.
    #[arg(long, value_name = "SET", num_args = 0..=1, require_equals = true,
          default_missing_value = "basic")]
    pub stages: Option<StageSet>,

    #[command(flatten)]
    pub keys: GroupKeys,

    /// Show the submitters of the slowest commands
    ///
    /// The task that submitted the bio, which is not the one that calls the driver if blk-mq or device mapper
    /// dispatches it later. With --from they are shown anyway, if the recording has them.
    #[arg(long, conflicts_with = "by", group = LIVE)]
    pub submitters: bool,

    #[command(flatten)]
    pub run: RunTime,

    /// For tests, in debug builds: panic when the first interval is on the screen
    #[cfg_attr(debug_assertions, arg(long, hide = true))]
    #[cfg_attr(not(debug_assertions), arg(skip))]
    pub test_panic: bool,

    #[command(flatten)]
    pub from: FromArgs,

    #[command(flatten)]
    pub session: SessionArgs,
}

/// The options of the command, checked.
pub type TopOptions = Checked<TopArgs>;

impl SessionOptions for TopArgs {
    fn settings(&self) -> Result<Settings> {
        let is_recorded = !self.from.is_empty();
        let by = self.keys.each(is_recorded.then_some(Singles::Recording))?;
        if by.contains(&By::Flags) && !is_recorded {
            return Err(usage("--by flags works with `latency`, and with recordings"));
        }
        let histograms = Histograms {
            // the programs for groups have no such counters
            extra: match by.is_empty() {
                true => ExtraEvents::TopCounters,
                false => ExtraEvents::Nothing,
            },
            by,
            submitters: self.submitters,
            ..Histograms::default()
        };
        let stages = self.stages.unwrap_or(StageSet::Basic);
        let settings = self.session.settings(is_recorded, Mode::Histograms(histograms), stages)?;
        Ok(settings.with_recorded_stages(is_recorded && self.stages.is_none()))
    }
}
