// SPDX-License-Identifier: MIT OR Apache-2.0
//! The command line of `diff` as typed.

use std::ffi::OsString;

use super::args::ColorArg;
use super::examples;

/// `diff`.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = examples::ONLY_EXAMPLES)]
#[command(after_long_help = examples::DIFF)]
pub struct DiffArgs {
    /// The recording before the change (see `record`)
    ///
    /// Or several, separated by commas. A name that contains a comma is taken whole if there is such a
    /// file.
    #[arg(value_name = "A")]
    pub a: OsString,

    /// The recording after the change, or several
    #[arg(value_name = "B")]
    pub b: OsString,

    /// Compare these controllers only
    ///
    /// `nvme0=nvme1` compares nvme0 of A with nvme1 of B.
    #[arg(long, value_name = "CTRL[=CTRL]", value_delimiter = ',')]
    pub ctrl: Vec<String>,

    /// Report no change smaller than this
    ///
    /// A part of the row and of the total. Less than 2 % is refused: the intervals come from
    /// histograms with buckets of 0.8 %.
    #[arg(long, value_name = "PERCENT", default_value = "2%")]
    pub min_change: String,

    /// End with exit code 3 if something changed
    ///
    /// With 1 if there were too few commands for any comparison.
    #[arg(long)]
    pub check: bool,

    /// One JSON object per line instead of text
    ///
    /// The schema is in docs/json.md.
    #[arg(long, short = 'j')]
    pub json: bool,

    /// Show all rows
    ///
    /// Also those within noise, and those with too few commands.
    #[arg(long, short)]
    pub verbose: bool,

    /// When to use colour
    #[arg(long, value_name = "WHEN", default_value = "auto")]
    pub color: ColorArg,
}
