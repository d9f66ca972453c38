// SPDX-License-Identifier: MIT OR Apache-2.0
//! `trace`.

use std::path::PathBuf;

use crate::model::stage::StageSet;
use crate::settings::{Events, LIVE, Mode, Settings};
use anyhow::Result;
use clap::ValueEnum;

use crate::run::args::common::{
    Checked, ExecArgs, FromArgs, JSON, JSON_LONG, RunTime, SessionArgs, SessionOptions, is_stdout,
};
use crate::run::args::examples;
use crate::run::args::value::count;
use crate::run::exit::usage;

const EXAMPLES: &str = "\
Examples:
  nvme-deep trace --pair --stages
      One line per command, with its stages
  nvme-deep trace --slow 1ms --kstack
      Commands of at least 1 ms, and who submitted them
  nvme-deep trace --errors --tee errors.nvd
      Commands that fail, on the screen and to a file
  nvme-deep trace --from run.nvd --pair -n 20
      The first 20 commands of a recording";

/// How to write time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum TimeArg {
    /// CLOCK_MONOTONIC in nanoseconds, as in bpf_ktime_get_ns
    Mono,
    /// Seconds since the trace began
    Rel,
    /// Date and time in the local time zone
    Wall,
}

/// `trace`.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = examples::WITH_FILTERS)]
#[command(after_long_help = EXAMPLES)]
pub struct TraceArgs {
    /// Add the stages to the last line of each command
    ///
    /// Without a value, basic.
    #[arg(long, value_name = "SET", num_args = 0..=1, require_equals = true,
          default_value = "none", hide_default_value = true, default_missing_value = "basic")]
    pub stages: StageSet,

    #[command(flatten)]
    pub events: Events,

    /// Stop after COUNT completed commands
    #[arg(long, short = 'n', value_name = "COUNT", value_parser = count())]
    pub count: Option<u64>,

    #[command(flatten)]
    pub run: RunTime,

    /// How to write time
    #[arg(long, value_name = "CLOCK", default_value = "mono")]
    pub time: TimeArg,

    /// Also record what is shown, to this file
    ///
    /// With --from and the same options it is printed again.
    #[arg(long, value_name = "FILE", group = LIVE)]
    pub tee: Option<PathBuf>,

    /// Replace the file of --tee if it exists
    #[arg(long, requires = "tee", hide_short_help = true)]
    pub force: bool,

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
pub type TraceOptions = Checked<TraceArgs>;

impl SessionOptions for TraceArgs {
    fn settings(&self) -> Result<Settings> {
        if self.tee.as_deref().is_some_and(is_stdout) {
            return Err(usage(
                "stdout has the lines of `trace`, so --tee can't be `-`: give a file, or use \
                 `record -o -`",
            ));
        }
        let pairs = self.events.pairs || self.events.outcome.is_some();
        let events = Mode::Events(Events { pairs, ..self.events });
        self.session.settings(!self.from.is_empty(), events, self.stages)
    }
}

#[cfg(test)]
mod tests {
    use crate::model::stack::StackAt;
    use crate::settings::StackSample;
    use clap::Parser;

    use super::*;
    use crate::cli::{Args, Command};

    fn settings(words: &str) -> Result<Settings> {
        let words = ["nvme-deep", "trace"].into_iter().chain(words.split_whitespace());
        match Args::try_parse_from(words)?.command {
            Command::Trace(args) => args.settings(),
            other => panic!("{other:?}"),
        }
    }

    fn events(words: &str) -> Events {
        *settings(words).unwrap().events().unwrap()
    }

    #[test]
    fn what_is_known_at_the_end_only_makes_pairs() {
        assert!(!events("").pairs);
        for words in ["--pair", "--slow 1ms", "--min-lat 1ms", "--errors"] {
            assert!(events(words).pairs, "{words}");
        }
    }

    #[test]
    fn sizes_become_powers_of_two() {
        assert_eq!(events("").ring_size.bytes, None);
        assert_eq!(events("--buffer 3M").ring_size.bytes, Some(4 << 20));
        assert_eq!(events("--buffer 65536").ring_size.bytes, Some(65536));
        assert_eq!(events("--buffer 1GiB").ring_size.bytes, Some(1 << 30));
    }

    #[test]
    fn stacks_and_their_share() {
        let of = |at, period| Some(StackSample { at, period });
        let stack = |words| settings(words).unwrap().stack();
        assert_eq!(stack(""), None);
        assert_eq!(stack("--kstack"), of(StackAt::Submit, 1));
        assert_eq!(stack("--kstack=complete --sample 1/64"), of(StackAt::Complete, 64));
        assert!(settings("--sample 1/2").is_err(), "of what?");
    }

    #[test]
    fn nonsense_is_refused() {
        for words in [
            "--kstack --sample 64",
            "--kstack --sample 1/0",
            "--buffer 1K",
            "--buffer 2G",
            "--buffer 16X",
            "--buffer M",
            "--buffer 99999999999G",
            "--lba 9-1",
            "--no-admin --no-io",
        ] {
            assert!(settings(words).is_err(), "{words}");
        }
    }
}
