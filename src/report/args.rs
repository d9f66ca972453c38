// SPDX-License-Identifier: MIT OR Apache-2.0
//! `report`.

use std::path::PathBuf;

use crate::model::stage::StageSet;
use crate::settings::{Events, Mode, Settings};
use anyhow::Result;

use crate::run::args::common::{Checked, SessionOptions, ending_of};
use crate::run::args::examples;
use crate::run::args::filter::FilterArgs;

const EXAMPLES: &str = "\
Examples:
  nvme-deep report slow.nvd -o slow.html
      All about a recording in one file
  nvme-deep report before.nvd after.nvd --redact -o ticket.html
      Two recordings, one below the other, without names";

/// `report`.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = examples::WITH_FILTERS)]
#[command(after_long_help = EXAMPLES)]
pub struct ReportArgs {
    /// The recordings (see `record`)
    #[arg(value_name = "FILE", required = true)]
    pub files: Vec<PathBuf>,

    /// The file to write: .html; `-` for stdout
    ///
    /// It is readable by its owner only. It needs no other file and no network.
    #[arg(long, short, value_name = "OUT")]
    pub output: PathBuf,

    /// Replace OUT if it exists
    #[arg(long)]
    pub force: bool,

    /// Leave out names
    ///
    /// Of the machine, controllers, processes, cgroups and the recordings.
    #[arg(long)]
    pub redact: bool,

    #[command(flatten)]
    pub filter: FilterArgs,
}

/// The options of the command, checked.
pub type ReportOptions = Checked<ReportArgs>;

impl SessionOptions for ReportArgs {
    fn settings(&self) -> Result<Settings> {
        ending_of(&self.output, &["html", "htm"])?;
        Ok(Settings {
            filter: self.filter.filter(true)?,
            window: self.filter.part(),
            ..Mode::Events(Events::default()).with(StageSet::Total)
        })
    }
}
