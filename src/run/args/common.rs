// SPDX-License-Identifier: MIT OR Apache-2.0
//! The ring buffers of a run that traces.

use super::value::size;
use crate::model::stack::StackAt;
use crate::model::stage::StageSet;
use crate::run::exit::usage;
use crate::settings::Outcome;
use crate::settings::StackSample;
use crate::settings::Who;
use crate::units::parse_duration;
use crate::view::picture::Scheme;
use anyhow::Result;
use clap::ValueEnum;
use std::env;
use std::ffi::OsString;
use std::io::IsTerminal;
use std::io::stdout;
use std::path::Path;
use std::path::PathBuf;
use std::time::Duration;

/// Smallest ring. The kernel requires at least one page.
const MIN_BUFFER: u32 = 64 << 10;
/// Largest ring. The kernel uses two bits of a record's length as flags (BPF_RINGBUF_BUSY_BIT,
/// BPF_RINGBUF_DISCARD_BIT).
pub const MAX_BUFFER: u32 = 1 << 30;

/// The ring buffers.
#[derive(Clone, Copy, Debug, clap::Args)]
pub struct BufferArgs {
    /// Size of all ring buffers together (`4M`, `64M`)
    ///
    /// Rounded up to a power of two. Each group of 8 CPUs has its own. Events that find no room are lost
    /// and counted. [default: 16M, or 2M for each 8 CPUs if that is more; less if the controllers' tags
    /// need much memory]
    #[arg(id = "buffer", long = "buffer", hide_short_help = true, value_name = "SIZE",
          value_parser = ring_bytes, conflicts_with = "from")]
    pub bytes: Option<u32>,
}

/// The size of the ring buffers. Rounds up to a power of two.
pub(crate) fn ring_bytes(text: &str) -> Result<u32, String> {
    let bytes = u32::try_from(size(text)?).ok();
    bytes
        .filter(|bytes| (MIN_BUFFER..=MAX_BUFFER).contains(bytes))
        .map(u32::next_power_of_two)
        .ok_or_else(|| format!("`{text}` is out of range: give a size between 64K and 1G"))
}

/// A program to run.
#[derive(Clone, Debug, clap::Args)]
pub struct ExecArgs {
    /// Trace while COMMAND runs, then end with its exit code
    ///
    /// As in `--exec -- COMMAND ARGUMENT...`. The commands of all processes are traced.
    #[arg(long, requires = "program")]
    pub exec: bool,

    /// The command of --exec and its arguments
    #[arg(last = true, value_name = "COMMAND", requires = "exec")]
    pub program: Vec<OsString>,
}

impl ExecArgs {
    /// Refuses a program while recordings are read.
    pub(crate) fn check(&self, from: &FromArgs) -> Result<()> {
        if self.exec && !from.is_empty() {
            return Err(usage(
                "--exec traces while a program runs, and a recording is read: leave out --exec or \
                 --from",
            ));
        }
        Ok(())
    }
}

/// Recordings to read.
#[derive(Clone, Debug, clap::Args)]
pub struct FromArgs {
    /// Read recordings instead of tracing
    ///
    /// Made by `record`. Needs no root. Several are read one after the other; a picture shows one.
    #[arg(id = "from", long = "from", value_name = "FILE", num_args = 1..,
          conflicts_with_all = ["duration", "attach", "btf"])]
    // release builds do not have these, and the man pages ask for each
    #[cfg_attr(debug_assertions, arg(conflicts_with_all = ["test_ignore", "test_no_recovery"]))]
    pub files: Vec<PathBuf>,
}

impl FromArgs {
    /// Whether the run traces.
    pub fn is_empty(&self) -> bool {
        self.files.is_empty()
    }

    /// Refuses several recordings.
    pub(crate) fn refuse_several(&self, why: &str) -> Result<()> {
        if self.files.len() > 1 {
            return Err(usage(format!(
                "{why} one recording: give one file to --from, and run it again for each"
            )));
        }
        Ok(())
    }

    /// Refuses a time after the files: it was meant as INTERVAL or COUNT.
    pub(crate) fn refuse_times(&self) -> Result<()> {
        let texts = self.files.iter().skip(1).filter_map(|path| path.to_str());
        match texts.into_iter().find(|t| parse_duration(t).is_ok()) {
            None => Ok(()),
            Some(time) => Err(usage(format!(
                "`{time}` after --from is a file, not a time: give INTERVAL and COUNT before --from, \
                 or write `./{time}`"
            ))),
        }
    }
}

/// A choice by what became of a command.
#[derive(Clone, Copy, Debug, clap::Args)]
pub struct OutcomeArgs {
    /// Only commands that took at least this long (`1ms`)
    ///
    /// From Submit to Complete. Also commands whose latency is not known.
    #[arg(long, alias = "min-lat", value_name = "TIME", value_parser = parse_duration)]
    pub slow: Option<Duration>,

    /// Only commands with a status other than success
    #[arg(long)]
    pub errors: bool,
}

impl OutcomeArgs {
    /// Which commands a session chooses.
    pub const fn chosen(self) -> Outcome {
        Outcome { slow: self.slow, errors: self.errors }
    }

    /// Whether not all commands are chosen.
    pub const fn is_some(self) -> bool {
        self.slow.is_some() || self.errors
    }
}

/// The help of `--json` where a line has an object.
pub const JSON: &str = "One JSON object per line instead of text";
/// The same in full.
pub const JSON_LONG: &str =
    "One JSON object per line instead of text\n\nThe schema is in docs/json.md.";

/// When to use colour.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ColorArg {
    /// On a terminal, unless NO_COLOR is set
    Auto,
    /// Always
    Always,
    /// Never
    Never,
}

impl ColorArg {
    /// Whether to colour text on stdout. `plain`: it is for programs.
    pub fn on_stdout(self, plain: bool) -> bool {
        match self {
            _ if plain => false,
            Self::Always => true,
            Self::Never => false,
            Self::Auto => stdout().is_terminal() && env::var_os("NO_COLOR").is_none(),
        }
    }
}

/// Whether a path of an output means stdout.
pub fn is_stdout(path: &Path) -> bool {
    path.as_os_str() == "-"
}

/// Refuses a picture on stdout beside lines for programs.
pub(crate) fn refuse_two_on_stdout(svg: Option<&Path>, lines: bool) -> Result<()> {
    if lines && svg.is_some_and(is_stdout) {
        return Err(usage(
            "stdout can't have both the lines and the picture: give --svg a file, or leave it out",
        ));
    }
    Ok(())
}

/// The file of a picture.
#[derive(Clone, Debug, clap::Args)]
#[group(required = true, multiple = false)]
pub struct PictureArgs {
    /// Write an SVG file; `-`: to stdout
    ///
    /// A pointer on a cell shows its numbers.
    #[arg(long, value_name = "OUT")]
    pub svg: Option<PathBuf>,

    /// Write a PNG file; `-`: to stdout
    #[arg(long, value_name = "OUT")]
    pub png: Option<PathBuf>,
}

/// Formats of pictures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PictureFormat {
    /// SVG.
    Svg,
    /// PNG.
    Png,
}

/// The file of a picture.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PictureFile {
    /// Its path.
    pub path: PathBuf,
    /// Its format.
    pub format: PictureFormat,
    /// Replace it if it exists.
    pub force: bool,
    /// Its colours.
    pub scheme: Scheme,
}

/// Where a stack is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum StackAtArg {
    /// At submission: who submits
    Submit,
    /// At completion: interrupt, softirq, poll or cancellation
    Complete,
}

impl StackAtArg {
    /// Stacks taken there, of one command in this many; `None`: of each.
    pub fn sample(self, period: Option<u32>) -> StackSample {
        StackSample {
            at: match self {
                Self::Submit => StackAt::Submit,
                Self::Complete => StackAt::Complete,
            },
            period: period.unwrap_or(1),
        }
    }
}

/// Parses `1/64`.
pub(crate) fn share(text: &str) -> Result<u32, String> {
    let n = text.strip_prefix("1/").and_then(|n| n.parse().ok());
    n.filter(|&n| n > 0).ok_or_else(|| {
        format!(
            "`{text}` is not a share of the commands: give one in so many, as in `--sample 1/64`"
        )
    })
}

/// Stage sets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum StagesArg {
    /// queue, submit, device, complete
    #[value(alias = "cheap")]
    Basic,
    /// queue, setup, map, submit, device, irq, complete, end
    Fine,
    /// the same, and before them throttle, block, freeze, zone, iocost, wbt, tag
    Full,
}

impl StagesArg {
    /// What it stands for.
    pub const fn set(self) -> StageSet {
        match self {
            Self::Basic => StageSet::Basic,
            Self::Fine => StageSet::Fine,
            Self::Full => StageSet::Full,
        }
    }
}

/// The stage set of an option that may be left out.
pub fn set_or_total(stages: Option<StagesArg>) -> StageSet {
    stages.map_or(StageSet::Total, StagesArg::set)
}

/// Who caused each command.
#[derive(Clone, Copy, Debug, clap::Args)]
pub struct WhoArgs {
    /// Also observe the cgroup that caused each command
    ///
    /// For --by cgroup, --by container, --cgroup and --container of recordings. Recordings do so by
    /// themselves, and show what they have.
    #[arg(long, hide_short_help = true)]
    pub cgroups: bool,

    /// Also observe the submitter of each command: process, thread and cgroup
    ///
    /// The task that submitted the bio. The one that calls the driver may be a kernel thread, behind an
    /// I/O scheduler. For writeback the cgroup is that of the one that wrote. With --cgroups.
    #[arg(long, hide_short_help = true)]
    pub submitters: bool,
}

impl WhoArgs {
    /// What is observed.
    pub const fn who(self) -> Who {
        match (self.cgroups, self.submitters) {
            (_, true) => Who::Submitters,
            (true, false) => Who::Cgroups,
            (false, false) => Who::Nobody,
        }
    }
}
