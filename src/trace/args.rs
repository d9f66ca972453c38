// SPDX-License-Identifier: MIT OR Apache-2.0
//! `trace`.

use std::path::PathBuf;
use std::time::Duration;

use crate::settings::{Events, Mode, Settings};
use crate::units::parse_duration;
use anyhow::Result;
use clap::ValueEnum;

use crate::run::args::common::{
    BufferArgs, ExecArgs, FromArgs, JSON, JSON_LONG, OutcomeArgs, StackAtArg, StagesArg, WhoArgs,
    is_stdout, set_or_total, share,
};
use crate::run::args::examples;
use crate::run::args::session::{Checked, SessionArgs, SessionOptions};
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
    /// One line per command, at its completion, instead of two
    ///
    /// Otherwise there is a line at Submit and one at Complete. Implied by --slow and --errors.
    #[arg(long)]
    pub pair: bool,

    /// Add the stages to the last line of each command
    ///
    /// Without a value, basic.
    #[arg(long, value_name = "SET", num_args = 0..=1, require_equals = true,
          default_missing_value = "basic")]
    pub stages: Option<StagesArg>,

    /// Add the kernel stack
    ///
    /// Without a value, at submission. A stack costs several thousand instructions: see --sample.
    #[arg(long, value_name = "AT", num_args = 0..=1, require_equals = true,
          default_missing_value = "submit")]
    pub kstack: Option<StackAtArg>,

    /// Take the stack of one command in N only
    ///
    /// Chosen at random. All commands are shown.
    #[arg(long, hide_short_help = true, value_name = "1/N", requires = "kstack", value_parser = share)]
    pub sample: Option<u32>,

    #[command(flatten)]
    pub outcome: OutcomeArgs,

    /// Also show SQ head and tail at each completion (tracepoint nvme_sq)
    #[arg(long, hide_short_help = true)]
    pub sq: bool,

    /// Also show asynchronous events
    #[arg(long, hide_short_help = true)]
    pub aen: bool,

    /// Also observe the conditions of each command
    ///
    /// Whether the CPU of the interrupt was idle or in a soft interrupt, whether the doorbell was
    /// written. Shown in JSON, and recorded by --tee, with the waits and gaps of the machine.
    #[arg(long, conflicts_with = "from", hide_short_help = true)]
    pub context: bool,

    #[command(flatten)]
    pub who: WhoArgs,

    /// Stop after COUNT completed commands
    #[arg(long, short = 'n', value_name = "COUNT", value_parser = count())]
    pub count: Option<u64>,

    /// Stop after this time (`5s`, `2m`)
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    pub duration: Option<Duration>,

    /// How to write time
    #[arg(long, value_name = "CLOCK", default_value = "mono")]
    pub time: TimeArg,

    #[command(flatten)]
    pub buffer: BufferArgs,

    /// Also record what is shown, to this file
    ///
    /// With --from and the same options it is printed again.
    #[arg(long, value_name = "FILE", conflicts_with = "from")]
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
        self.exec.check(&self.from)?;
        if self.tee.as_deref().is_some_and(is_stdout) {
            return Err(usage(
                "stdout has the lines of `trace`, so --tee can't be `-`: give a file, or use \
                 `record -o -`",
            ));
        }
        let events = Events {
            pairs: self.pair || self.outcome.is_some(),
            stack: self.kstack.map(|at| at.sample(self.sample)),
            outcome: self.outcome.chosen(),
            sq: self.sq,
            aen: self.aen,
            context: self.context,
            who: self.who.who(),
            ring_bytes: self.buffer.bytes,
        };
        let stages = set_or_total(self.stages);
        self.session.settings_of(&self.from, Mode::Events(events), stages)
    }
}

impl TraceArgs {
    /// Whether to colour the text.
    pub fn color(&self) -> bool {
        self.session.attach.color.on_stdout(self.json)
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
        settings(words).unwrap().events().unwrap().clone()
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
        assert_eq!(events("").ring_bytes, None);
        assert_eq!(events("--buffer 3M").ring_bytes, Some(4 << 20));
        assert_eq!(events("--buffer 65536").ring_bytes, Some(65536));
        assert_eq!(events("--buffer 1GiB").ring_bytes, Some(1 << 30));
    }

    #[test]
    fn stacks_and_their_share() {
        let of = |at, period| Some(StackSample { at, period });
        assert_eq!(events("").stack, None);
        assert_eq!(events("--kstack").stack, of(StackAt::Submit, 1));
        let some = events("--kstack=complete --sample 1/64");
        assert_eq!(some.stack, of(StackAt::Complete, 64));
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
