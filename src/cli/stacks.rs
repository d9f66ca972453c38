// SPDX-License-Identifier: MIT OR Apache-2.0
//! The command line of `stacks` as typed.

use std::path::PathBuf;
use std::time::Duration;

use nvme_deep::units::parse_duration;

use super::args::AttachArgs;
use super::args::ExecArgs;
use super::args::FilterArgs;
use super::args::OutcomeArgs;
use super::args::StackAtArg;
use super::args::StacksByArg;
use super::examples;
use super::record::FromArgs;
use super::value::count;

/// `stacks`.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = examples::WITH_FILTERS)]
#[command(after_long_help = examples::STACKS)]
pub struct StacksArgs {
    /// Where the stack is taken
    #[arg(long, value_name = "POINT", default_value = "submit")]
    pub at: StackAtArg,

    /// Order of the list, and weight in --folded and --svg
    #[arg(long, value_name = "WHAT", default_value = "count")]
    pub by: StacksByArg,

    /// Count one command in N only, chosen at random
    #[arg(long, value_name = "1/N")]
    pub sample: Option<String>,

    #[command(flatten)]
    #[allow(missing_docs, reason = "OutcomeArgs says it")]
    pub outcome: OutcomeArgs,

    /// Show the first COUNT stacks only
    #[arg(long, value_name = "COUNT", value_parser = count())]
    pub top: Option<u64>,

    /// One line per stack, for flame graph tools
    ///
    /// Frames from the outermost to the driver's, separated by semicolons, and the weight.
    #[arg(long, conflicts_with = "json")]
    pub folded: bool,

    /// Write a flame graph (SVG) to this file
    ///
    /// `-`: to stdout, instead of the list.
    #[arg(long, value_name = "FILE")]
    pub svg: Option<PathBuf>,

    /// Replace the file of --svg if it exists
    #[arg(long, requires = "svg", hide_short_help = true)]
    pub force: bool,

    /// Stop after this time (`5s`, `2m`)
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    pub duration: Option<Duration>,

    /// One JSON object per line instead of text
    ///
    /// The schema is in docs/json.md.
    #[arg(long, short = 'j')]
    pub json: bool,

    #[command(flatten)]
    #[allow(missing_docs, reason = "ExecArgs says it")]
    pub exec: ExecArgs,

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
