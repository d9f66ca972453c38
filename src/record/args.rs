// SPDX-License-Identifier: MIT OR Apache-2.0
//! `record`.

use std::path::PathBuf;
use std::time::Duration;

use crate::model::stage::StageSet;
use crate::recording::Keep;
use crate::settings::{Detail, EventStacks, Events, Mode, RingSize, Settings};
use crate::units::{parse_duration, parse_latency, parse_size};
use anyhow::Result;

use crate::run::args::common::{
    Checked, ExecArgs, RunTime, SessionArgs, SessionOptions, WITH_FILTERS, count,
};

const EXAMPLES: &str = "\
Examples:
  nvme-deep record --duration 60s
      Record for a minute what all other commands except `stacks` need
  nvme-deep record -o stuck.nvd --ring 15m --trigger slow=50ms,reset
      Keep the last 15 minutes, and write them when a command is slow or a controller is reset
  nvme-deep record -o /var/spool/nvme --ring 1h --trigger reset --keep 20
      Run on as a flight recorder: a file for each trigger, at most 20
  nvme-deep record -o job.nvd --exec -- fio job.fio
      Record while a program runs";

/// Smallest useful file.
const MIN_SIZE: u64 = 1 << 20;

/// The time that `--trigger` keeps without `--ring`.
const RING_TIME: Duration = Duration::from_secs(15 * 60);

/// Default size of a ring in memory.
const RING_BYTES: u64 = 64 << 20;

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
                Self::Slow(parse_latency(time).map_err(|e| format!("`{text}`: {e}"))?)
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
    let large = Some(parse_size(text)?).filter(|bytes| *bytes >= MIN_SIZE);
    large.ok_or_else(|| format!("`{text}` is too small for a recording: give at least 1M"))
}

/// `record`.
#[derive(Clone, Debug, clap::Args)]
#[command(mut_arg("since", |arg| arg.hide(true)), mut_arg("until", |arg| arg.hide(true)))]
#[command(after_help = WITH_FILTERS)]
#[command(after_long_help = EXAMPLES)]
pub struct RecordArgs {
    /// The file to write; `-` for stdout [default: nvme-HOST-DATE-TIME.nvd]
    ///
    /// Only you can read it, even if you used sudo. Until the end of the run its name ends in `.partial`.
    /// With --redact the default has no HOST.
    #[arg(long, short, value_name = "FILE")]
    pub output: Option<PathBuf>,

    /// Replace the file if it exists
    ///
    /// Or what an interrupted run has left.
    #[arg(long)]
    pub force: bool,

    /// What to record of each command
    ///
    /// full: all points, waits before the request, conditions, submitters and cgroups. What this kernel
    /// does not show is left out. The others record their points only, and cost less.
    #[arg(long, value_name = "SET", num_args = 0..=1, require_equals = true, default_value = "full",
          default_missing_value = "full")]
    pub stages: StageSet,

    #[command(flatten)]
    pub stacks: EventStacks,

    #[command(flatten)]
    pub run: RunTime,

    /// Stop when the file has this size (`500M`, `1G`)
    #[arg(long, value_name = "SIZE", value_parser = max_size)]
    pub max_size: Option<u64>,

    /// Keep the last TIME (`15m`) until a trigger fires
    ///
    /// In memory, at most --max-size [default with --ring: 64M]. The file is written when a trigger fires, or at
    /// the end.
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    pub ring: Option<Duration>,

    /// Events that write the ring to the file [default with --trigger: --ring 15m]
    ///
    /// `slow=50ms` (a command that took at least this long), `timeout`, `reset` (of a controller),
    /// `error` (a status other than success).
    #[arg(long, value_name = "WHAT", value_delimiter = ',', value_parser = Trigger::parse)]
    pub trigger: Vec<Trigger>,

    /// Keep running after a trigger; the newest N files stay in directory -o
    ///
    /// The directory must exist. Each trigger makes a file with all of the ring and what follows in --after.
    /// Older files of this machine in the directory are deleted.
    #[arg(long, value_name = "N", value_parser = count(), requires_all = ["trigger", "output"],
          conflicts_with_all = ["force", "exec"])]
    pub keep: Option<u64>,

    /// After a trigger, record this long, then end
    #[arg(long, hide_short_help = true, value_name = "TIME", value_parser = parse_duration, default_value = "10s",
          requires = "trigger")]
    pub after: Duration,

    /// Do not record names and times of day
    ///
    /// Of the machine, processes and cgroups; models of controllers are left out too.
    #[arg(long)]
    pub redact: bool,

    #[command(flatten)]
    pub ring_size: RingSize,

    #[command(flatten)]
    pub exec: ExecArgs,

    #[command(flatten)]
    pub session: SessionArgs,
}

/// The options of the command, checked.
pub type RecordOptions = Checked<RecordArgs>;

impl SessionOptions for RecordArgs {
    fn settings(&self) -> Result<Settings> {
        let all = match self.stages {
            StageSet::Full => Detail::all(),
            // a ring costs little, and no later look at who it was is possible
            _ if self.ring().is_some() => {
                Detail { cgroups: true, if_possible: true, ..Detail::default() }
            }
            _ => Detail::default(),
        };
        let detail = Detail { stacks: self.stacks, without_timers: self.ring().is_some(), ..all };
        let events = Events { detail, ring_size: self.ring_size, ..Events::default() };
        self.session.settings(false, Mode::Events(events), self.stages)
    }
}

impl RecordArgs {
    /// The part of the run that is kept in memory, with `--ring` or `--trigger`.
    pub fn ring(&self) -> Option<Keep> {
        let time = self.ring.or((!self.trigger.is_empty()).then_some(RING_TIME))?;
        Some(Keep { time, bytes: self.max_size.unwrap_or(RING_BYTES) })
    }

    /// Whether a file of this size ends the run.
    pub fn is_full(&self, bytes: u64) -> bool {
        self.ring().is_none() && self.max_size.is_some_and(|most| bytes >= most)
    }
}
