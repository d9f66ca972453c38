// SPDX-License-Identifier: MIT OR Apache-2.0
//! `stacks`.

use std::path::PathBuf;

use crate::model::stage::StageSet;
use crate::settings::{Mode, Outcome, Settings, StackSample};
use crate::stacks::report::Weight;
use anyhow::Result;

use crate::run::args::common::{
    Checked, ExecArgs, FromArgs, JSON, JSON_LONG, RunTime, SessionArgs, SessionOptions,
    refuse_two_on_stdout,
};
use crate::run::args::examples;
use crate::run::args::value::number;

const EXAMPLES: &str = "\
Examples:
  nvme-deep stacks --duration 10s
      The kernel stacks that submit commands, by number of commands
  nvme-deep stacks --by latency --svg out.svg
      A flame graph, by sum of latencies
  nvme-deep stacks --at complete
      How completions are found: interrupt, poll, cancellation";

/// `stacks`.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = examples::WITH_FILTERS)]
#[command(after_long_help = EXAMPLES)]
pub struct StacksArgs {
    #[command(flatten)]
    pub stack: StackSample,

    /// Order of the list, and weight in --folded and --svg
    #[arg(long, value_name = "WHAT", default_value = "count")]
    pub by: Weight,

    #[command(flatten)]
    pub outcome: Outcome,

    /// Show the first COUNT stacks only
    #[arg(long, value_name = "COUNT", value_parser = number(1..=usize::MAX))]
    pub top: Option<usize>,

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

    #[command(flatten)]
    pub run: RunTime,

    #[arg(long, short = 'j', help = JSON, long_help = JSON_LONG)]
    pub json: bool,

    #[command(flatten)]
    pub exec: ExecArgs,

    #[command(flatten)]
    pub from: FromArgs,

    #[command(flatten)]
    pub session: SessionArgs,
}

/// The options of the command, checked.
pub type StacksOptions = Checked<StacksArgs>;

impl SessionOptions for StacksArgs {
    fn settings(&self) -> Result<Settings> {
        refuse_two_on_stdout(self.svg.as_deref(), self.has_lines())?;
        if self.folded || self.svg.is_some() {
            self.from.refuse_several("--folded and --svg show")?;
        }
        let is_recorded = !self.from.is_empty();
        // a command can be slow because it waits in a queue
        let stage_set = match self.outcome.slow {
            Some(_) if !is_recorded => StageSet::Basic,
            _ => StageSet::Total,
        };
        self.session.settings(is_recorded, Mode::Stacks(self.stack, self.outcome), stage_set)
    }
}

impl StacksArgs {
    /// Whether stdout has lines for programs.
    pub const fn has_lines(&self) -> bool {
        self.json || self.folded
    }
}
