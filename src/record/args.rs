// SPDX-License-Identifier: MIT OR Apache-2.0
//! `record`.

use std::path::PathBuf;
use std::time::Duration;

use crate::model::stage::StageSet;
use crate::recording::Keep;
use crate::settings::{Events, Mode, Settings};
use crate::units::parse_duration;
use anyhow::Result;
use clap::ValueEnum;

use crate::run::args::common::{ExecArgs, StackAtArg, WhoArgs, ring_bytes, share};
use crate::run::args::examples;
use crate::run::args::session::{Checked, SessionArgs, SessionOptions};
use crate::run::args::value::size;

const EXAMPLES: &str = "\
Examples:
  nvme-deep record -o run.nvd --stages=full --context --duration 60s
      Record for a minute what `diagnose` and `diff` need
  nvme-deep record -o stuck.nvd --ring 15m --trigger slow=50ms,reset
      Keep the last 15 minutes, and write them when a command is slow or a controller is reset
  nvme-deep record -o job.nvd --exec -- fio job.fio
      Record while a program runs";

/// Smallest useful file.
const MIN_SIZE: u64 = 1 << 20;

/// Default size of a ring in memory.
const RING_BYTES: u64 = 64 << 20;

/// Stage sets of a recording.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum RecordStagesArg {
    /// queue, submit, device, complete
    #[value(alias = "cheap")]
    Basic,
    /// queue, setup, map, submit, device, irq, complete, end
    Fine,
    /// the same, and before them throttle, block, freeze, zone, iocost, wbt, tag
    Full,
    /// only the latency from setup_out to complete
    None,
}

/// What makes a ring be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trigger {
    /// A command that took at least this long.
    Slow(Duration),
    /// A timeout of the block layer.
    Timeout,
    /// A reset of a controller.
    Reset,
    /// A command with a status other than success.
    Error,
}

impl Trigger {
    fn parse(text: &str) -> Result<Self, String> {
        Ok(match text.split_once('=') {
            Some(("slow", time)) => {
                Self::Slow(parse_duration(time).map_err(|e| format!("`{text}`: {e}"))?)
            }
            None if text == "timeout" => Self::Timeout,
            None if text == "reset" => Self::Reset,
            None if text == "error" => Self::Error,
            _ => {
                return Err(format!(
                    "`{text}` is not a trigger: give slow=TIME, timeout, reset or error"
                ));
            }
        })
    }
}

fn max_size(text: &str) -> Result<u64, String> {
    let large = Some(size(text)?).filter(|bytes| *bytes >= MIN_SIZE);
    large.ok_or_else(|| format!("`{text}` is too small for a recording: give at least 1M"))
}

/// `record`.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = examples::WITH_FILTERS)]
#[command(after_long_help = EXAMPLES)]
pub struct RecordArgs {
    /// The file to write; `-` for stdout
    ///
    /// It is readable by its owner only. Until the end of the run its name ends in `.partial`.
    #[arg(long, short, value_name = "FILE")]
    pub output: PathBuf,

    /// Replace the file if it exists
    ///
    /// Or what an interrupted run has left.
    #[arg(long)]
    pub force: bool,

    /// The points to record of each command
    #[arg(long, value_name = "SET", default_value = "basic")]
    pub stages: RecordStagesArg,

    /// Also record the kernel stack
    ///
    /// Without a value, at submission. A stack costs several thousand instructions: see --sample.
    #[arg(long, value_name = "AT", num_args = 0..=1, require_equals = true,
          default_missing_value = "submit")]
    pub kstack: Option<StackAtArg>,

    /// Take the stack of one command in N only
    ///
    /// Chosen at random. All commands are recorded.
    #[arg(long, hide_short_help = true, value_name = "1/N", requires = "kstack", value_parser = share)]
    pub sample: Option<u32>,

    /// Also record what `diagnose` needs
    ///
    /// The conditions of each command (CPU idle or in a soft interrupt, doorbell written or not), waits
    /// before the request, splits, bounce buffers, and the settings of the machine. Costs some 750
    /// instructions per command more.
    #[arg(long)]
    pub context: bool,

    #[command(flatten)]
    pub who: WhoArgs,

    /// Stop after this time (`5s`, `2m`)
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    pub duration: Option<Duration>,

    /// Stop when the file has this size (`500M`, `1G`)
    #[arg(long, value_name = "SIZE", value_parser = max_size)]
    pub max_size: Option<u64>,

    /// Keep the last TIME (`15m`) until a trigger fires
    ///
    /// In memory, at most --max-size [default with --ring: 64M]. The file is written when a trigger fires, or at
    /// the end.
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    pub ring: Option<Duration>,

    /// Events that write the ring to the file
    ///
    /// `slow=50ms` (a command that took at least this long), `timeout`, `reset` (of a controller),
    /// `error` (a status other than success).
    #[arg(long, value_name = "WHAT", value_delimiter = ',', requires = "ring", value_parser = Trigger::parse)]
    pub trigger: Vec<Trigger>,

    /// After a trigger, record this long, then end
    #[arg(long, hide_short_help = true, value_name = "TIME", value_parser = parse_duration, default_value = "10s",
          requires = "trigger")]
    pub after: Duration,

    /// Do not compress
    ///
    /// Takes less CPU time, and about twice the space.
    #[arg(long)]
    pub no_compress: bool,

    /// Do not record names of the machine and of processes
    ///
    /// Nor those of its controllers.
    #[arg(long)]
    pub redact: bool,

    /// Size of the ring buffers, as for `trace`
    #[arg(long, hide_short_help = true, value_name = "SIZE", value_parser = ring_bytes)]
    pub buffer: Option<u32>,

    #[command(flatten)]
    pub exec: ExecArgs,

    #[command(flatten)]
    pub session: SessionArgs,
}

/// The options of the command, checked.
pub type RecordOptions = Checked<RecordArgs>;

impl SessionOptions for RecordArgs {
    fn settings(&self) -> Result<Settings> {
        let events = Events {
            stack: self.kstack.map(|at| at.sample(self.sample)),
            context: self.context,
            who: self.who.who(),
            ring_bytes: self.buffer,
            ..Events::pairs()
        };
        let stages = match self.stages {
            RecordStagesArg::None => StageSet::Total,
            RecordStagesArg::Basic => StageSet::Basic,
            RecordStagesArg::Fine => StageSet::Fine,
            RecordStagesArg::Full => StageSet::Full,
        };
        self.session.settings(Mode::Events(events), stages)
    }
}

impl RecordArgs {
    /// The part of the run that is kept in memory, with `--ring`.
    pub fn keep(&self) -> Option<Keep> {
        self.ring.map(|time| Keep { time, bytes: self.max_size.unwrap_or(RING_BYTES) })
    }

    /// Whether a file of this size ends the run.
    pub fn is_full(&self, bytes: u64) -> bool {
        self.ring.is_none() && self.max_size.is_some_and(|most| bytes >= most)
    }
}
