// SPDX-License-Identifier: MIT OR Apache-2.0
//! `diagnose`.

use std::path::PathBuf;
use std::time::Duration;

use crate::model::stage::StageSet;
use crate::settings::{Detail, Events, LIVE, Mode, RingSize, Settings};
use crate::units::parse_duration;
use anyhow::Result;

use crate::run::args::common::{Checked, FromArgs, SessionArgs, SessionOptions};
use crate::run::args::examples;

const EXAMPLES: &str = "\
Examples:
  nvme-deep diagnose
      Observe for 10 s
  nvme-deep diagnose --duration 60s --expect 200us
      Observe for a minute; commands should take 200 us
  nvme-deep diagnose --from slow.nvd --baseline good.nvd
      A recording, compared with one of a better time";

/// How long to observe without `--duration`.
const DURATION: Duration = Duration::from_secs(10);

/// `diagnose`.
#[derive(Clone, Debug, clap::Args)]
#[command(override_usage = "nvme-deep diagnose [OPTIONS] [FILE]...")]
#[command(mut_arg("verbose", |arg| arg
    .help("All kinds of commands, and all rules with their reasons")
    .long_help("All kinds of commands, and all rules with their reasons. While tracing, also the hooks, the \
                reasons of fallbacks, the full ledger; -vv: libbpf's log too")))]
#[command(mut_arg("from", |arg| arg
    .help("Diagnose recordings instead of this machine")
    .long_help("Diagnose recordings instead of this machine\n\nMade by `record`. Needs no root. Several are read one after the other.")))]
#[command(after_help = examples::WITH_FILTERS)]
#[command(after_long_help = EXAMPLES)]
pub struct DiagnoseArgs {
    /// How long to observe (`10s`, `1m`) [default: 10s]
    #[arg(long, value_name = "TIME", value_parser = parse_duration, group = LIVE)]
    pub duration: Option<Duration>,

    /// Commands are slow if their median is above this time (`200us`)
    #[arg(long, value_name = "TIME", value_parser = parse_duration, conflicts_with = "baseline")]
    pub expect: Option<Duration>,

    /// Compare with this recording of the same load
    ///
    /// Commands are slow if their median is a fifth higher than in that recording.
    #[arg(long, value_name = "FILE")]
    pub baseline: Option<PathBuf>,

    /// Also read log pages of the controllers: SMART, EBS statistics
    ///
    /// Before and after. Sends Get Log Page and Identify commands to each; otherwise `diagnose` sends
    /// none.
    #[arg(long, group = LIVE)]
    pub log: bool,

    /// End with exit code 3 if a cause was found
    ///
    /// Or with 1 if no rule could be judged.
    #[arg(long)]
    pub check: bool,

    #[command(flatten)]
    pub from: FromArgs,

    #[command(flatten)]
    pub ring_size: RingSize,

    /// One JSON object instead of text
    ///
    /// The schema is in docs/reference/json.md.
    #[arg(long, short = 'j')]
    pub json: bool,

    #[command(flatten)]
    pub session: SessionArgs,
}

/// The options of the command, checked.
pub type DiagnoseOptions = Checked<DiagnoseArgs>;

impl SessionOptions for DiagnoseArgs {
    fn settings(&self) -> Result<Settings> {
        let events =
            Events { detail: Detail::all(), ring_size: self.ring_size, ..Events::default() };
        self.session.settings(!self.from.is_empty(), Mode::Events(events), StageSet::Full)
    }
}

impl DiagnoseArgs {
    /// Length of the run.
    pub fn duration(&self) -> Duration {
        self.duration.unwrap_or(DURATION)
    }
}
