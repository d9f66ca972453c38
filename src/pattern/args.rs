// SPDX-License-Identifier: MIT OR Apache-2.0
//! `pattern`.

use std::path::PathBuf;

use crate::model::report::submissions::TaskKind;
use crate::model::stage::StageSet;
use crate::settings::{Detail, Events, Mode, RingSize, Settings};
use crate::view::picture::Scheme;
use anyhow::Result;

use crate::run::args::common::{
    Checked, FromArgs, JSON, JSON_LONG, PictureFile, PictureFormat, Schedule, SessionArgs,
    SessionOptions, ending_of, refuse_two_on_stdout,
};
use crate::run::args::examples;

const EXAMPLES: &str = "\
Examples:
  nvme-deep pattern --duration 10s
      One report of 10 s
  nvme-deep pattern 1 --delta
      Each second by itself
  nvme-deep pattern run.nvd -o pattern.svg
      A recording, also as a picture";

/// `pattern`.
#[derive(Clone, Debug, clap::Args)]
#[command(override_usage = "nvme-deep pattern [OPTIONS] [FILE]... [INTERVAL] [COUNT]")]
#[command(after_help = examples::WITH_FILTERS)]
#[command(after_long_help = EXAMPLES)]
pub struct PatternArgs {
    #[command(flatten)]
    pub schedule: Schedule,

    /// Write all buckets of the histograms, a line each
    #[arg(long)]
    pub hist: bool,

    /// Also write the final report as a picture (SVG)
    ///
    /// `-`: only the picture, to stdout.
    #[arg(long = "output", short = 'o', alias = "svg", value_name = "FILE")]
    pub svg: Option<PathBuf>,

    /// Replace the file of -o if it exists
    #[arg(long, requires = "svg")]
    pub force: bool,

    /// A row per submitter, not per process that calls the driver
    ///
    /// The submitter is the task that submitted the bio. With an I/O scheduler or device mapper, a kernel thread
    /// often calls the driver for it.
    #[arg(long)]
    pub submitters: bool,

    #[arg(long, short = 'j', help = JSON, long_help = JSON_LONG)]
    pub json: bool,

    #[command(flatten)]
    pub ring_size: RingSize,

    #[command(flatten)]
    pub from: FromArgs,

    #[command(flatten)]
    pub session: SessionArgs,
}

/// The options of the command, checked.
pub type PatternOptions = Checked<PatternArgs>;

impl SessionOptions for PatternArgs {
    fn settings(&self) -> Result<Settings> {
        let lines = self.json || self.hist || self.schedule.interval.is_some();
        refuse_two_on_stdout(self.svg.as_deref(), lines)?;
        if let Some(path) = &self.svg {
            ending_of(path, &["svg"])?;
            self.from.refuse_several("-o shows")?;
        }
        let events = Events {
            // submissions come in the order of time; a recording may have one event per command
            submits: self.from.is_empty(),
            ring_size: self.ring_size,
            detail: Detail { submitters: self.submitters, ..Detail::default() },
            ..Events::default()
        };
        self.session.settings(!self.from.is_empty(), Mode::Events(events), StageSet::Total)
    }
}

impl PatternArgs {
    /// The file of the picture.
    pub fn picture_file(&self) -> Option<PictureFile> {
        self.svg.clone().map(|path| PictureFile {
            path,
            format: PictureFormat::Svg,
            force: self.force,
            scheme: Scheme::Auto,
        })
    }

    /// The task of each row.
    pub const fn task_kind(&self) -> TaskKind {
        match self.submitters {
            true => TaskKind::Submitter,
            false => TaskKind::Caller,
        }
    }
}
