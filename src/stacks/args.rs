// SPDX-License-Identifier: MIT OR Apache-2.0
//! `stacks`.

use std::path::{Path, PathBuf};

use crate::model::report::stacks::Weight;
use crate::model::stage::StageSet;
use crate::settings::{Mode, Outcome, Settings, StackSample};
use anyhow::Result;

use crate::run::args::common::{
    Checked, ExecArgs, FromArgs, JSON, JSON_LONG, RunTime, SessionArgs, SessionOptions,
    WITH_FILTERS, count, ending_of, refuse_two_on_stdout,
};
use crate::run::exit::usage;

const EXAMPLES: &str = "\
Examples:
  nvme-deep stacks --duration 10s
      The kernel stacks that submit commands, by number of commands
  nvme-deep stacks --weight latency -o out.svg
      A flame graph, by sum of latencies
  nvme-deep stacks --at complete
      How completions are found: interrupt, poll, cancellation";

/// What the stacks of a recording can be told apart by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum StackBy {
    /// The process that called the driver, at the root of each path
    Process,
}

/// `stacks`.
#[derive(Clone, Debug, clap::Args)]
#[command(override_usage = "nvme-deep stacks [OPTIONS] [FILE]... [--exec -- COMMAND...]")]
#[command(after_help = WITH_FILTERS)]
#[command(after_long_help = EXAMPLES)]
pub struct StacksArgs {
    #[command(flatten)]
    pub stack: StackSample,

    /// Order, and weight in flame graphs
    #[arg(long, value_name = "WHAT", default_value = "count")]
    pub weight: Weight,

    /// Separate stacks by
    #[arg(long, value_name = "KEY")]
    pub by: Option<StackBy>,

    #[command(flatten)]
    pub outcome: Outcome,

    /// Show the first COUNT stacks only
    #[arg(long, short = 'n', value_name = "COUNT", value_parser = count())]
    pub top: Option<u64>,

    /// One line per stack, for flame graph tools
    ///
    /// Frames from the outermost to the driver's, separated by semicolons, and the weight.
    #[arg(long, conflicts_with = "json", hide_short_help = true)]
    pub folded: bool,

    /// A line for each frame, with the place of its call
    #[arg(long, conflicts_with_all = ["json", "folded"])]
    pub full: bool,

    /// Also write a flame graph (SVG), or lines to X.folded
    ///
    /// A name that ends in `.folded` gets the lines of --folded. `-`: the flame graph goes to stdout, instead of the list.
    #[arg(long, short, value_name = "FILE")]
    pub output: Option<PathBuf>,

    /// Replace the file of -o if it exists
    #[arg(long, requires = "output", hide_short_help = true)]
    pub force: bool,

    #[command(flatten)]
    pub run: RunTime,

    #[arg(long, short = 'j', help = JSON, long_help = JSON_LONG)]
    pub json: bool,

    #[command(flatten)]
    pub from: FromArgs,

    #[command(flatten)]
    pub exec: ExecArgs,

    #[command(flatten)]
    pub session: SessionArgs,
}

/// The options of the command, checked.
pub type StacksOptions = Checked<StacksArgs>;

impl SessionOptions for StacksArgs {
    fn settings(&self) -> Result<Settings> {
        refuse_two_on_stdout(self.output.as_deref(), self.has_lines())?;
        self.output.as_deref().map(|path| ending_of(path, &["svg", "folded"])).transpose()?;
        if self.folded || self.output.is_some() {
            self.from.refuse_several("--folded and -o show")?;
        }
        let is_recorded = !self.from.is_empty();
        if self.by.is_some() && !is_recorded {
            return Err(usage(
                "--by takes a recording: use `record --kstack`, then `stacks FILE --by process`",
            ));
        }
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

    /// Whether a flame graph is drawn. It shows processes, whatever the other output shows.
    pub fn draws(&self) -> bool {
        let ending = self.output.as_deref().map(Path::extension);
        ending.is_some_and(|ending| ending.is_none_or(|ending| ending != "folded"))
    }
}
