// SPDX-License-Identifier: MIT OR Apache-2.0
//! The command line of `serve` as typed.

use std::path::PathBuf;
use std::time::Duration;

use nvme_deep::units::parse_duration;

use super::args::AttachArgs;
use super::args::FilterArgs;
use super::args::StagesArg;
use super::examples;

/// `serve`.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = examples::WITH_FILTERS)]
#[command(after_long_help = examples::SERVE)]
pub struct ServeArgs {
    /// Serve http://ADDRESS/metrics [default: 127.0.0.1:9998]
    ///
    /// Without encryption and passwords: an address other than a loopback address is open to the
    /// network.
    #[arg(long, value_name = "ADDRESS:PORT", conflicts_with = "textfile")]
    pub listen: Option<String>,

    /// Write the metrics to this file instead
    ///
    /// For node_exporter's textfile collector. An existing FILE is replaced, and removed at the end.
    /// Its name must end in `.prom`.
    #[arg(long, value_name = "FILE")]
    pub textfile: Option<PathBuf>,

    /// How often to write the file
    #[arg(long, value_name = "TIME", value_parser = parse_duration, default_value = "15s",
          requires = "textfile")]
    pub interval: Duration,

    /// Add histograms of the stages
    ///
    /// Without a value, basic.
    #[arg(long, value_name = "SET", num_args = 0..=1, require_equals = true,
          default_missing_value = "basic")]
    pub stages: Option<StagesArg>,

    #[command(flatten)]
    #[allow(missing_docs, reason = "FilterArgs says it")]
    pub filter: FilterArgs,

    #[command(flatten)]
    #[allow(missing_docs, reason = "AttachArgs says it")]
    pub attach: AttachArgs,
}
