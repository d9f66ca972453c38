// SPDX-License-Identifier: MIT OR Apache-2.0
//! The command line of `export` as typed.

use std::path::PathBuf;
use std::time::Duration;

use clap::ValueEnum;
use nvme_deep::units::parse_duration;

use super::args::FilterArgs;
use super::args::OutcomeArgs;
use super::examples;

/// Formats.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum FormatArg {
    /// A timeline for ui.perfetto.dev
    Perfetto,
    /// A line per command
    Csv,
    /// The lines of `trace --json --pair`
    Ndjson,
    /// Histograms per interval, as an HdrHistogram log
    Hlog,
    /// A row per command, in columns, for DuckDB, Spark, pandas
    Parquet,
}

/// `export`. Filters that recordings do not have are refused, and not in the help.
#[derive(Clone, Debug, clap::Args)]
#[command(
    mut_arg("disk", |arg| arg.hide(true)),
    mut_arg("cgroup", |arg| arg.hide(true)),
    mut_arg("container", |arg| arg.hide(true))
)]
#[command(after_help = examples::WITH_FILTERS)]
#[command(after_long_help = examples::EXPORT)]
pub struct ExportArgs {
    /// The recordings (see `record`). Perfetto and hlog take one
    #[arg(value_name = "FILE", required = true)]
    pub files: Vec<PathBuf>,

    /// The format to write
    #[arg(long, value_name = "FORMAT")]
    pub format: FormatArg,

    /// The file to write; `-` for stdout
    ///
    /// It is readable by its owner only.
    #[arg(long, short, value_name = "OUT")]
    pub output: PathBuf,

    /// Replace OUT if it exists
    #[arg(long)]
    pub force: bool,

    /// Leave out names of the machine, controllers, processes
    ///
    /// And of the recordings.
    #[arg(long)]
    pub redact: bool,

    /// Length of the intervals of hlog and perfetto
    ///
    /// Those of hlog [default: 1s], and of the completion rates of perfetto [default: 100ms].
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    pub interval: Option<Duration>,

    #[command(flatten)]
    #[allow(missing_docs, reason = "OutcomeArgs says it")]
    pub outcome: OutcomeArgs,

    #[command(flatten)]
    #[allow(missing_docs, reason = "FilterArgs says it")]
    pub filter: FilterArgs,
}
