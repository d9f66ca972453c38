// SPDX-License-Identifier: MIT OR Apache-2.0
//! `export`.

use std::path::PathBuf;
use std::time::Duration;

use crate::model::stage::StageSet;
use crate::settings::{Events, Mode, Outcome, Settings};
use anyhow::Result;
use clap::ValueEnum;

use crate::run::args::common::{Checked, OutArgs, SessionOptions, WITH_FILTERS, interval};
use crate::run::args::filter::FilterArgs;
use crate::run::exit::usage;

const EXAMPLES: &str = "\
Examples:
  nvme-deep export run.nvd -o run.pftrace
      A time line for ui.perfetto.dev
  nvme-deep export a.nvd b.nvd --redact -o runs.parquet
      A row per command of two recordings, without names
  nvme-deep export run.nvd --format csv --slow 10ms -o -
      Slow commands as CSV, to stdout";

/// Formats.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// A timeline for ui.perfetto.dev
    Perfetto,
    /// A line per command
    Csv,
    /// A JSON object per command
    Ndjson,
    /// Histograms per interval, as an HdrHistogram log
    Hlog,
    /// A row per command, in columns, for DuckDB, Spark, pandas
    Parquet,
}

/// `export`.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = WITH_FILTERS)]
#[command(after_long_help = EXAMPLES)]
pub struct ExportArgs {
    /// The recordings (see `record`). Perfetto and hlog take one
    #[arg(value_name = "FILE", required = true)]
    pub files: Vec<PathBuf>,

    /// The format to write [default: by the ending of OUT]
    ///
    /// .pftrace, .csv, .ndjson, .hlog, .parquet.
    #[arg(long, value_name = "FORMAT")]
    pub format: Option<Format>,

    #[command(flatten)]
    pub out: OutArgs,

    /// Length of the intervals of hlog and perfetto
    ///
    /// For hlog [default: 1s], and for the completion rates of perfetto [default: 100ms].
    #[arg(long, value_name = "TIME", value_parser = interval(
        Duration::from_millis(1), "is too short: give at least 1ms"))]
    pub interval: Option<Duration>,

    #[command(flatten)]
    pub outcome: Outcome,

    #[command(flatten)]
    pub filter: FilterArgs,
}

/// The options of the command, checked.
pub type ExportOptions = Checked<ExportArgs>;

impl SessionOptions for ExportArgs {
    fn settings(&self) -> Result<Settings> {
        let format = self.format()?;
        if cfg!(not(feature = "parquet")) && format == Format::Parquet {
            return Err(usage(
                "this nvme-deep was built without Parquet: give another format, or build with the \
                 feature `parquet`",
            ));
        }
        let has_intervals = matches!(format, Format::Perfetto | Format::Hlog);
        if has_intervals && self.files.len() > 1 {
            return Err(usage(
                "the formats perfetto and hlog take one recording, because the clocks of several \
                 differ: export them one by one",
            ));
        }
        if self.interval.is_some() && !has_intervals {
            return Err(usage("--interval is for the formats hlog and perfetto: leave it out"));
        }
        let events = Events { outcome: self.outcome, ..Events::default() };
        Ok(Settings {
            filter: self.filter.filter(true)?,
            window: self.filter.part(),
            ..Mode::Events(events).with(StageSet::Total)
        })
    }
}

impl ExportArgs {
    /// The format.
    ///
    /// # Errors
    /// If neither --format nor the ending of OUT says which; one sentence.
    pub fn format(&self) -> Result<Format> {
        let ending = self.out.output.extension().and_then(|ending| ending.to_str());
        let by_ending = match ending {
            Some("pftrace" | "perfetto-trace") => Some(Format::Perfetto),
            Some("csv") => Some(Format::Csv),
            Some("ndjson" | "jsonl") => Some(Format::Ndjson),
            Some("hlog") => Some(Format::Hlog),
            Some("parquet") => Some(Format::Parquet),
            _ => None,
        };
        self.format.or(by_ending).ok_or_else(|| {
            usage(
                "give --format, or a file that ends in .parquet, .csv, .ndjson, .hlog or .pftrace",
            )
        })
    }

    /// Length of intervals.
    pub fn interval(&self) -> Duration {
        self.interval.unwrap_or(match self.format() {
            Ok(Format::Perfetto) => Duration::from_millis(100),
            _ => Duration::from_secs(1),
        })
    }
}
