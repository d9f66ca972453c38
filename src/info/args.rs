// SPDX-License-Identifier: MIT OR Apache-2.0
//! `info`.

use std::path::PathBuf;

use crate::run::args::common::{ColorArg, JSON, JSON_LONG};
use crate::run::args::examples;

const EXAMPLES: &str = "\
Examples:
  nvme-deep info run.nvd
      What is in a recording, and which questions it answers";

/// `info`.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = examples::ONLY_EXAMPLES)]
#[command(after_long_help = EXAMPLES)]
pub struct InfoArgs {
    /// Recordings (see `record`)
    #[arg(value_name = "FILE", required = true)]
    pub files: Vec<PathBuf>,

    #[arg(long, short = 'j', help = JSON, long_help = JSON_LONG)]
    pub json: bool,

    /// When to use colour
    #[arg(long, hide_short_help = true, value_name = "WHEN", default_value = "auto")]
    pub color: ColorArg,
}
