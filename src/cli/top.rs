// SPDX-License-Identifier: MIT OR Apache-2.0
//! The command line of `top` as typed.

use std::time::Duration;

use nvme_deep::units::parse_duration;

use super::args::AttachArgs;
use super::args::FilterArgs;
use super::args::StagesArg;
use super::examples;
use super::record::FromArgs;

/// `top`.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = examples::WITH_FILTERS)]
#[command(after_long_help = examples::TOP)]
pub struct TopArgs {
    /// Length of an interval (`1`, `500ms`, `5s`)
    #[arg(value_name = "INTERVAL", value_parser = parse_duration, default_value = "1s")]
    pub interval: Duration,

    /// The stages of the bars
    ///
    /// Recordings without stages have only the total.
    #[arg(long, value_name = "SET", num_args = 0..=1, require_equals = true,
          default_missing_value = "basic")]
    pub stages: Option<StagesArg>,

    /// Stop after this time (`5s`, `2m`)
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    pub duration: Option<Duration>,

    /// For tests, in debug builds: panic when the first interval is on the screen
    #[cfg_attr(debug_assertions, arg(long, hide = true))]
    #[cfg_attr(not(debug_assertions), arg(skip))]
    pub test_panic: bool,

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
