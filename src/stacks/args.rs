// SPDX-License-Identifier: MIT OR Apache-2.0
//! `stacks`.

use std::path::PathBuf;
use std::time::Duration;

use crate::model::stage::StageSet;
use crate::settings::{Mode, Settings, StackSample};
use crate::stacks::report::Weight;
use crate::units::parse_duration;
use anyhow::Result;
use clap::ValueEnum;

use crate::run::args::common::{
    ExecArgs, FromArgs, JSON, JSON_LONG, OutcomeArgs, StackAtArg, refuse_two_on_stdout, share,
};
use crate::run::args::examples;
use crate::run::args::session::{Checked, SessionArgs, SessionOptions};
use crate::run::args::value::number;

const EXAMPLES: &str = "\
Examples:
  nvme-deep stacks --duration 10s
      The kernel stacks that submit commands, by number of commands
  nvme-deep stacks --by latency --svg out.svg
      A flame graph, by sum of latencies
  nvme-deep stacks --at complete
      How completions are found: interrupt, poll, cancellation";

/// Order of stacks, and weight in flame graphs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum StacksByArg {
    /// Number of commands
    Count,
    /// Sum of their latencies
    Latency,
}

/// `stacks`.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = examples::WITH_FILTERS)]
#[command(after_long_help = EXAMPLES)]
pub struct StacksArgs {
    /// Where the stack is taken
    #[arg(long, value_name = "POINT", default_value = "submit")]
    pub at: StackAtArg,

    /// Order of the list, and weight in --folded and --svg
    #[arg(long, value_name = "WHAT", default_value = "count")]
    pub by: StacksByArg,

    /// Count one command in N only, chosen at random
    #[arg(long, value_name = "1/N", value_parser = share)]
    pub sample: Option<u32>,

    #[command(flatten)]
    pub outcome: OutcomeArgs,

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

    /// Stop after this time (`5s`, `2m`)
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    pub duration: Option<Duration>,

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
        self.exec.check(&self.from)?;
        let mode = Mode::Stacks(self.stacks(), self.outcome.chosen());
        self.session.settings_of(&self.from, mode, StageSet::Total)
    }
}

impl StacksArgs {
    /// The stacks that are taken.
    pub fn stacks(&self) -> StackSample {
        self.at.sample(self.sample)
    }

    /// Order of the list, and weight in graphs.
    pub const fn weight(&self) -> Weight {
        match self.by {
            StacksByArg::Count => Weight::Count,
            StacksByArg::Latency => Weight::Latency,
        }
    }

    /// Whether stdout has lines for programs.
    const fn has_lines(&self) -> bool {
        self.json || self.folded
    }

    /// Whether to colour the text.
    pub fn color(&self) -> bool {
        self.session.attach.color.on_stdout(self.has_lines())
    }
}
