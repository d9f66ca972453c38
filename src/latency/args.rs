// SPDX-License-Identifier: MIT OR Apache-2.0
//! `latency`.

use crate::model::group::By;
use crate::model::nvme_latency::LatBuckets;
use crate::model::stage::StageSet;
use crate::settings::{ExtraEvents, Histograms, LIVE, Mode, Settings};
use anyhow::Result;

use crate::run::args::common::{
    Checked, ExecArgs, FromArgs, GroupArgs, JSON, JSON_LONG, Schedule, SessionArgs, SessionOptions,
    Singles, WITH_FILTERS, number,
};
use crate::run::exit::usage;

const EXAMPLES: &str = "\
Examples:
  nvme-deep latency 1 --stages
      A report every second, with stages
  nvme-deep latency --stages=fine --disk nvme0n1 --exec -- fio job.fio
      The parts of the stages of one disk while a program runs
  nvme-deep latency run.nvd --opcode read
      The reads of a recording";

/// `latency`.
#[derive(Clone, Debug, clap::Args)]
#[command(
    override_usage = "nvme-deep latency [OPTIONS] [FILE]... [INTERVAL] [COUNT] [-- COMMAND...]"
)]
#[command(after_help = WITH_FILTERS)]
#[command(after_long_help = EXAMPLES)]
pub struct LatencyArgs {
    /// Split each command's life into stages
    ///
    /// Without a value, basic. Without this option a live run measures only one interval, `driver`: from
    /// the driver's setup of the command to its completion. By default a recording's stages are summed into
    /// the basic groups.
    #[arg(long, value_name = "SET", num_args = 0..=1, require_equals = true,
          default_missing_value = "basic")]
    pub stages: Option<StageSet>,

    #[command(flatten)]
    pub schedule: Schedule,

    /// Add the histograms of stages and total
    #[arg(long)]
    pub hist: bool,

    /// Add a table of the totals: one bucket below this many microseconds, then buckets that double
    /// in width [default with --lat-shift: 20]
    ///
    /// For this table the kernel reports every single command, which costs as much as `trace`.
    #[arg(long, hide_short_help = true, alias = "lat_min_us", value_name = "US",
          value_parser = number(0..=u64::MAX))]
    pub lat_min_us: Option<u64>,

    /// Width of the first bucket of that table, 2^SHIFT microseconds [default with --lat-min-us: 0]
    #[arg(long, hide_short_help = true, alias = "lat_shift", value_name = "SHIFT",
          value_parser = number(0..=u32::MAX))]
    pub lat_shift: Option<u32>,

    #[command(flatten)]
    pub group: GroupArgs,

    #[arg(long, short = 'j', help = JSON, long_help = JSON_LONG)]
    pub json: bool,

    /// With --json: also one object per command, to check the counts. Costs far more than the
    /// histograms. Not with --from: `trace --json --from` prints the commands of a recording
    #[arg(long, requires = "json", conflicts_with = "by", group = LIVE, hide_short_help = true)]
    pub commands: bool,

    #[command(flatten)]
    pub from: FromArgs,

    #[command(flatten)]
    pub exec: ExecArgs,

    #[command(flatten)]
    pub session: SessionArgs,
}

/// The options of the command, checked.
pub type LatencyOptions = Checked<LatencyArgs>;

impl SessionOptions for LatencyArgs {
    fn settings(&self) -> Result<Settings> {
        let is_recorded = !self.from.is_empty();
        let lat = self.lat_buckets()?;
        let singles = match (is_recorded, lat) {
            (true, _) => Some(Singles::Recording),
            (false, Some(_)) => Some(Singles::Table),
            (false, None) => None,
        };
        let by = self.group.keys.each(singles)?;
        if !is_recorded && by.contains(&By::Flags) && by.contains(&By::Priority) {
            return Err(usage(
                "--by flags and --by priority do not go together: the kernel counts by priority, and flags come from \
                 single commands; leave one out",
            ));
        }
        let histograms = Histograms {
            by,
            lat,
            submitters: false,
            extra: match self.commands {
                true => ExtraEvents::Commands,
                false => ExtraEvents::Nothing,
            },
        };
        let mode = Mode::Histograms(histograms);
        let settings = self.session.settings(is_recorded, mode, self.stages.unwrap_or_default())?;
        Ok(settings.with_recorded_stages(is_recorded && self.stages.is_none()))
    }
}

impl LatencyArgs {
    fn lat_buckets(&self) -> Result<Option<LatBuckets>> {
        if self.lat_min_us.is_none() && self.lat_shift.is_none() {
            return Ok(None);
        }
        let min_us = self.lat_min_us.unwrap_or(20);
        let min_us = u32::try_from(min_us)
            .map_err(|_| usage(format!("--lat-min-us {min_us} is over an hour: give fewer")))?;
        let buckets = LatBuckets { min_us, shift: self.lat_shift.unwrap_or(0) };
        buckets.validate().map_err(usage)?;
        Ok(Some(buckets))
    }
}

#[cfg(test)]
mod tests {
    use crate::cli::Command;
    use crate::cli::tests::parsed;
    use crate::run::args::common::SessionOptions;

    #[test]
    fn the_latency_table_has_the_defaults_of_nvme_latency() {
        for (words, want) in
            [("", None), ("--lat-shift 2", Some((20, 2))), ("--lat-min-us 50", Some((50, 0)))]
        {
            let command = parsed(&format!("latency {words}")).unwrap();
            let Command::Latency(args) = command else { panic!("{command:?}") };
            let lat = args.settings().unwrap().lat();
            assert_eq!(lat.map(|lat| (lat.min_us, lat.shift)), want, "{words}");
        }
    }
}
