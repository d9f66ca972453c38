// SPDX-License-Identifier: MIT OR Apache-2.0
//! `trace`.

use std::path::PathBuf;

use crate::model::stage::StageSet;
use crate::settings::{Events, LIVE, Mode, Settings};
use crate::view::trace::Columns;
use anyhow::Result;
use clap::ValueEnum;

use crate::run::args::common::{
    Checked, ExecArgs, FromArgs, JSON, JSON_LONG, RunTime, SessionArgs, SessionOptions,
    WITH_FILTERS, count, is_stdout, number,
};
use crate::run::exit::usage;

const EXAMPLES: &str = "\
Examples:
  nvme-deep trace
      A line per command
  nvme-deep trace --slow 1ms --kstack
      Commands of at least 1 ms, and the kernel stacks that submitted them
  nvme-deep trace --errors --tee errors.nvd
      Commands that fail, on the screen and to a file
  nvme-deep trace run.nvd --slowest 20
      The 20 slowest commands of a recording
  nvme-deep trace run.nvd --long
      Every field of each command";

/// Most commands of --slowest: they are kept in memory.
const MOST_SLOWEST: usize = 10_000;

/// How to write time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum TimeArg {
    /// CLOCK_MONOTONIC in nanoseconds, as in bpf_ktime_get_ns
    Mono,
    /// Seconds since the trace began
    Rel,
    /// Local time
    Wall,
}

/// `trace`.
#[derive(Clone, Debug, clap::Args)]
#[command(override_usage = "nvme-deep trace [OPTIONS] [FILE]... [--exec -- COMMAND...]")]
#[command(after_help = WITH_FILTERS)]
#[command(after_long_help = EXAMPLES)]
pub struct TraceArgs {
    /// The stages of each command [default: basic; none is cheaper]
    ///
    /// By default a recording's stages are summed into the basic groups.
    #[arg(long, value_name = "SET", num_args = 0..=1, require_equals = true,
          default_missing_value = "basic")]
    pub stages: Option<StageSet>,

    #[command(flatten)]
    pub events: Events,

    /// All fields of each command, as key=value
    ///
    /// With --kstack, a line for each function of the stack.
    #[arg(long, short = 'l')]
    pub long: bool,

    /// Show these columns (`time,disk,op,total`)
    ///
    /// Others: event, ctrl, nsid, qid, cid and more; `--columns x` lists all.
    #[arg(long, value_name = "COLUMNS", value_parser = Columns::parse,
          conflicts_with_all = ["long", "json", "submits"])]
    pub columns: Option<Columns>,

    /// At the end, show the N slowest commands only
    ///
    /// By the time from the first to the last observed point, slowest first; at most 10000.
    #[arg(long, value_name = "N", value_parser = number(1..=MOST_SLOWEST),
          conflicts_with_all = ["submits", "count", "tee"])]
    pub slowest: Option<usize>,

    /// Stop after N completed commands
    #[arg(long, short = 'n', value_name = "N", value_parser = count())]
    pub count: Option<u64>,

    #[command(flatten)]
    pub run: RunTime,

    /// How to write the time of completion [default: wall; in JSON mono]
    ///
    /// JSON has mono besides.
    #[arg(long, hide_short_help = true, value_name = "CLOCK")]
    pub time: Option<TimeArg>,

    /// Also record what is shown, to this file
    ///
    /// Replay it with `trace FILE` and the same options.
    #[arg(long, value_name = "FILE", group = LIVE)]
    pub tee: Option<PathBuf>,

    /// Replace the file of --tee if it exists
    #[arg(long, requires = "tee", hide_short_help = true)]
    pub force: bool,

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
pub type TraceOptions = Checked<TraceArgs>;

impl SessionOptions for TraceArgs {
    fn settings(&self) -> Result<Settings> {
        if self.tee.as_deref().is_some_and(is_stdout) {
            return Err(usage(
                "stdout has the lines of `trace`, so --tee can't be `-`: give a file, or use \
                 `record -o -`",
            ));
        }
        let (is_recorded, mode) = (!self.from.is_empty(), Mode::Events(self.events));
        let stage_set = self.stages.unwrap_or(StageSet::Basic);
        let settings = self.session.settings(is_recorded, mode, stage_set)?;
        Ok(settings.with_recorded_stages(is_recorded && self.stages.is_none()))
    }
}

impl TraceArgs {
    /// Long lines: asked for, or two events per command, which columns cannot show.
    pub const fn is_long(&self) -> bool {
        self.long || self.events.submits
    }

    /// How to write time.
    pub fn clock(&self) -> TimeArg {
        self.time.unwrap_or(if self.json { TimeArg::Mono } else { TimeArg::Wall })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::Command;
    use crate::cli::tests::parsed;

    fn settings(words: &str) -> Result<Settings> {
        match parsed(&format!("trace {words}"))? {
            Command::Trace(args) => args.settings(),
            other => panic!("{other:?}"),
        }
    }

    fn events(words: &str) -> Events {
        *settings(words).unwrap().events().unwrap()
    }

    #[test]
    fn a_command_has_one_event_unless_two_are_asked_for() {
        assert!(!events("").submits);
        assert!(events("--events").submits);
        // what is known at the end only cannot choose submissions
        for words in ["--slow 1ms", "--min-lat 1ms", "--errors", "--slowest 5", "--columns op"] {
            assert!(!events(words).submits, "{words}");
            assert!(settings(&format!("--events {words}")).is_err(), "{words}");
        }
    }

    #[test]
    fn nonsense_is_refused() {
        let nonsense = "--kstack --sample 64|--kstack --sample 1/0|--buffer 1K|--buffer 2G|\
                        --buffer 16X|--buffer M|--buffer 99999999999G|--lba 9-1|--slowest 0|\
                        --slowest 10001|--slowest 5 -n 5|--slowest 5 --tee file|--slow 1|\
                        --slow -1ms|--columns op,latency";
        for words in nonsense.split('|') {
            assert!(settings(words).is_err(), "{words}");
        }
        // sizes become powers of two
        for (words, bytes) in [
            ("", None),
            ("--buffer 3M", Some(4 << 20)),
            ("--buffer 65536", Some(65536)),
            ("--buffer 1GiB", Some(1 << 30)),
        ] {
            assert_eq!(events(words).ring_size.bytes, bytes, "{words}");
        }
    }
}
