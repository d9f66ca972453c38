// SPDX-License-Identifier: MIT OR Apache-2.0
//! Options that several commands have. What a session acts on is declared in `crate::settings`.

use super::filter::FilterArgs;
use crate::model::group::{By, ByWord};
use crate::model::report::groups::Sort;
use crate::model::report::latency::times;
use crate::model::stage::StageSet;
use crate::model::text::printable;
use crate::run::exit::usage;
pub use crate::run::outfile::is_stdout;
use crate::settings::{Attaching, LIVE, Mode, Settings};
use crate::units::parse_duration;
use anyhow::Result;
use clap::builder::ValueParser;
use clap::{ArgGroup, ValueEnum};
use std::env;
use std::ffi::{OsStr, OsString};
use std::fmt::Display;
use std::io::{IsTerminal, stdout};
use std::ops::{Deref, RangeInclusive};
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

/// A program to run.
#[derive(Clone, Debug, clap::Args)]
pub struct ExecArgs {
    /// Trace while COMMAND runs, then end with its exit code
    ///
    /// As in `--exec -- COMMAND ARGUMENT...`. The commands of all processes are traced.
    #[arg(long, requires = "program", group = LIVE)]
    pub exec: bool,

    /// The command of --exec and its arguments
    #[arg(last = true, value_name = "COMMAND", requires = "exec", group = LIVE)]
    pub program: Vec<OsString>,
}

/// Recordings to read.
#[derive(Clone, Debug, clap::Args)]
pub struct FromArgs {
    /// Recordings to read instead of tracing (see `record`)
    ///
    /// Needs no root. Several are reported one after another; a picture shows one.
    #[arg(value_name = "FILE", value_parser = no_file)]
    pub words: Vec<PathBuf>,

    /// The same as FILE
    #[arg(id = "from", long = "from", value_name = "FILE", conflicts_with = LIVE)]
    #[arg(hide_short_help = true)]
    pub files: Vec<PathBuf>,
}

/// A file among the arguments has become `--from=FILE` (`super::command_line`): other words are none.
fn no_file(_word: &str) -> Result<PathBuf, &'static str> {
    Err("there is no such file")
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
                "{why} one recording: give one file, and run it again for each"
            )));
        }
        Ok(())
    }
}

/// The help of `--json` where a line has an object.
pub const JSON: &str = "One JSON object per line instead of text";
/// The same in full.
pub const JSON_LONG: &str =
    "One JSON object per line instead of text\n\nThe schema is in docs/reference/json.md.";

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

/// Refuses a picture on stdout beside lines for programs.
pub(crate) fn refuse_two_on_stdout(svg: Option<&Path>, lines: bool) -> Result<()> {
    if lines && svg.is_some_and(is_stdout) {
        return Err(usage(
            "stdout can't have both the lines and the picture: give -o a file, or leave it out",
        ));
    }
    Ok(())
}

/// The file that recordings are turned into.
#[derive(Clone, Debug, clap::Args)]
pub struct OutArgs {
    /// The file to write; `-`: stdout
    ///
    /// Only you can read it.
    #[arg(long, short, value_name = "OUT")]
    pub output: PathBuf,

    /// Replace OUT if it exists
    #[arg(long)]
    pub force: bool,

    /// Leave out names
    ///
    /// Of the machine, controllers, processes, cgroups and the recordings. Times of day stay.
    #[arg(long)]
    pub redact: bool,
}

/// The properties by which commands are grouped.
#[derive(Clone, Debug, clap::Args)]
pub struct GroupKeys {
    /// Group commands by KEY[,KEY]: process, comm, cgroup, container, cpu, queue, size, priority,
    /// disk, opcode, flags
    ///
    /// Instead of rows per disk and opcode. `process`, `comm` (the name of the thread), `cgroup` and
    /// `container` name the task that submitted the bio if known, otherwise the task that called the driver,
    /// which may be a kernel thread; the report says which. For writeback the cgroup is the one that wrote.
    /// `size=16K,64K` makes three classes: up to 16K, up to 64K, and above.
    /// `flags` are FUA, readahead and limited retry; while tracing, only `latency` groups by them, and then
    /// costs as much as `trace`.
    /// Recordings have no priority.
    #[arg(long, value_name = "KEY", value_delimiter = ',')]
    pub by: Vec<ByWord>,
}

/// What makes groups of single commands.
#[derive(Clone, Copy, Debug)]
pub enum Singles {
    Recording,
    /// `--lat-min-us` and `--lat-shift`.
    Table,
}

impl GroupKeys {
    /// The properties, each once. `singles`: what makes the groups of single commands, if anything does.
    ///
    /// # Errors
    /// If single commands do not have one; one sentence.
    pub fn each(&self, singles: Option<Singles>) -> Result<Vec<By>> {
        let keys = ByWord::keys(&self.by).map_err(usage)?;
        if let (Some(by), Some(singles)) = (keys.iter().find(|by| !by.is_recorded()), singles) {
            let why = match singles {
                Singles::Recording => "works only while tracing: recordings do not have it",
                Singles::Table => "does not work with --lat-min-us and --lat-shift",
            };
            return Err(usage(format!("--by {by} {why}")));
        }
        Ok(keys)
    }
}

/// The ending of a file of `-o`, which chooses its format; empty: stdout. `endings`: those that a command has.
///
/// # Errors
/// If it has another one; one sentence.
pub fn ending_of<'e>(path: &Path, endings: &[&'e str]) -> Result<&'e str> {
    let ending = path.extension().and_then(OsStr::to_str);
    let known = endings.iter().find(|known| ending == Some(known));
    match known {
        Some(known) => Ok(known),
        None if is_stdout(path) => Ok(""),
        None => {
            let all: Vec<_> = endings.iter().map(|ending| format!(".{ending}")).collect();
            let (path, all) = (printable(path), all.join(" or "));
            Err(usage(format!("-o {path}: give a name that ends in {all}")))
        }
    }
}

/// Grouping, for reports.
#[derive(Clone, Debug, clap::Args)]
pub struct GroupArgs {
    #[command(flatten)]
    pub keys: GroupKeys,

    /// Sort groups by
    #[arg(
        long,
        hide_short_help = true,
        value_name = "ORDER",
        default_value = "share",
        requires = "by"
    )]
    pub sort: Sort,

    /// Show this many groups, in text
    #[arg(long, short = 'n', hide_short_help = true, value_name = "N", default_value = "20", requires = "by",
          value_parser = count())]
    pub top: u64,
}

/// When commands with several reports write them.
#[derive(Clone, Copy, Debug, Default, clap::Args)]
pub struct Schedule {
    /// Also report every INTERVAL (`1`, `500ms`, `5s`)
    #[arg(value_name = "INTERVAL", value_parser = interval(
        Duration::from_millis(10), "would only measure the report itself: give at least 10ms"))]
    pub interval: Option<Duration>,

    /// Stop after COUNT reports
    #[arg(value_name = "COUNT", value_parser = count())]
    pub count: Option<u64>,

    #[command(flatten)]
    pub run: RunTime,

    /// Report each interval separately
    ///
    /// Instead of everything since the start. The final report always covers the whole run.
    #[arg(long, requires = "interval")]
    pub delta: bool,
}

/// When a live run stops.
#[derive(Clone, Copy, Debug, Default, clap::Args)]
pub struct RunTime {
    /// Stop after this time (`5s`, `2m`)
    #[arg(long, value_name = "TIME", value_parser = parse_duration, group = LIVE)]
    pub duration: Option<Duration>,
}

impl Schedule {
    /// When the next report is due after this many, and after intervals that were left out, since the
    /// first interval began. `None`: only the final one is left, which counts as one of COUNT without
    /// `--delta`.
    pub fn due(&self, written: u64, skipped: u64) -> Option<Duration> {
        let least = u64::from(!self.delta);
        let interims = self.count.map_or(u64::MAX, |n| n - least);
        let step = self.interval.filter(|_| written < interims)?;
        Some(times(step, skipped.saturating_add(written + 1)))
    }

    /// Length of the run; `None`: until it is stopped.
    pub fn end(&self) -> Option<Duration> {
        let counted = self.interval.zip(self.count);
        let counted = counted.map(|(step, n)| times(step, n));
        self.run.duration.into_iter().chain(counted).min()
    }
}

/// Filters, attaching and messages. Every command that traces the driver has them.
#[derive(Clone, Debug, clap::Args)]
#[command(group = ArgGroup::new(LIVE).multiple(true))]
pub struct SessionArgs {
    #[command(flatten)]
    pub filter: FilterArgs,

    #[command(flatten)]
    pub attaching: Attaching,

    /// When to use colour
    #[arg(
        long,
        hide_short_help = true,
        value_name = "WHEN",
        default_value = "auto",
        help_heading = "Attaching and output"
    )]
    pub color: ColorArg,
}

impl SessionArgs {
    /// The settings of a session that measures this, or of a run that reads recordings.
    pub(crate) fn settings(
        &self,
        is_recorded: bool,
        mode: Mode,
        stage_set: StageSet,
    ) -> Result<Settings> {
        let filter = self.filter.filter(is_recorded)?;
        let attaching = self.attaching.clone();
        let window = self.filter.part();
        let settings =
            Settings { stage_set, recorded_stages: false, filter, mode, window, attaching };
        let refuse = |what| usage(format!("{what} with --stages=full: use --stages=fine"));
        if stage_set == StageSet::Full && !is_recorded && !settings.kernel_groups().is_empty() {
            return Err(refuse("while tracing, --by does not work"));
        }
        if stage_set == StageSet::Full && settings.reports_submitters() {
            return Err(refuse("submitters are not observed"));
        }
        Ok(settings)
    }

    /// Whether to print details.
    pub const fn is_verbose(&self) -> bool {
        self.attaching.verbose > 0
    }
}

/// The options of a command that has a session.
pub trait SessionOptions: Sized {
    /// The settings of the session.
    ///
    /// # Errors
    /// If options exclude each other, or ask for what this machine does not have; one sentence.
    fn settings(&self) -> Result<Settings>;

    /// The options with their settings.
    ///
    /// # Errors
    /// Those of the settings.
    fn checked(self) -> Result<Checked<Self>> {
        let settings = self.settings()?;
        Ok(Checked { settings, options: self })
    }
}

/// The options of a command, and the settings of the session that they ask for.
#[derive(Clone, Debug)]
pub struct Checked<O> {
    /// Settings of the session.
    pub settings: Settings,
    options: O,
}

impl<O> Deref for Checked<O> {
    type Target = O;

    fn deref(&self) -> &O {
        &self.options
    }
}

/// Parses a whole decimal number in a range.
fn number_in<T>(text: &str, range: &RangeInclusive<T>) -> Result<T, String>
where
    T: FromStr + PartialOrd + Display,
{
    let number = text.parse().ok().filter(|n| range.contains(n));
    number.ok_or_else(|| {
        let (first, last) = (range.start(), range.end());
        format!("expected a whole number from {first} to {last}")
    })
}

/// A whole decimal number in this range.
pub fn number<T>(range: RangeInclusive<T>) -> ValueParser
where
    T: FromStr + PartialOrd + Display + Clone + Send + Sync + 'static,
{
    ValueParser::new(move |text: &str| number_in(text, &range))
}

/// A number of things to wait for or to show: at least one.
pub fn count() -> ValueParser {
    ValueParser::new(|text: &str| {
        let number = text.parse().ok().filter(|n: &u64| *n > 0);
        number.ok_or("expected a whole number of at least 1")
    })
}

/// An interval that is not shorter than this. `why`: what a shorter one is, and what to give.
pub fn interval(least: Duration, why: &'static str) -> ValueParser {
    ValueParser::new(move |text: &str| {
        if text.starts_with("/dev/") {
            return Err(format!("a disk is an option: --disk {text}"));
        }
        if !text.starts_with(|first: char| first.is_ascii_digit() || first == '.') {
            return Err(format!(
                "there is no file `{text}`, and an interval is a time (`1`, `500ms`)"
            ));
        }
        let interval = parse_duration(text).map_err(|error| error.to_string())?;
        match interval < least {
            true => Err(format!("an interval of {interval:?} {why}")),
            false => Ok(interval),
        }
    })
}

/// The end of `-h` of commands that trace the driver.
pub const WITH_FILTERS: &str =
    "Filters (--disk, --opcode, --process, ...), more options, examples: --help.";
/// The end of `-h` of other commands.
pub const ONLY_EXAMPLES: &str = "More options and examples: --help.";

pub const PROGRAM: &str = "\
Examples:
  nvme-deep latency 1 --stages
      Latency of each namespace, opcode and stage, every second
  nvme-deep record -o slow.nvd --duration 60s
      Record what happens, to look at it later and elsewhere
  nvme-deep diagnose slow.nvd
      Why the commands of that recording are slow

Tracing needs root; reading recordings does not. With CAP_BPF and CAP_PERFMON only, less is \
available: run `doctor` as that user.

Exit codes: 0 done or stopped, 1 failed while running, 2 wrong usage, 3 `--check` found a change \
or a cause, 4 not permitted, 5 the kernel lacks what is needed, 6 no such NVMe device, 130 ended at \
once by a second signal.";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::Args;
    use crate::run::args::command_line::with_files;
    use crate::run::exit::tests::MEANINGS;
    use clap::{Command, CommandFactory, Parser};
    use std::ffi::OsString;

    const S: Duration = Duration::from_secs(1);

    #[test]
    fn the_shorter_of_duration_and_count_ends_the_run() {
        for (count, duration, end) in [
            (Some(3), Some(2 * S), Some(2 * S)),
            (Some(3), Some(5 * S), Some(3 * S)),
            (None, Some(5 * S), Some(5 * S)),
            (None, None, None),
        ] {
            let run = RunTime { duration };
            let schedule = Schedule { interval: Some(S), count, run, delta: false };
            assert_eq!(schedule.end(), end);
        }
    }

    /// The examples of a command and of its subcommands are accepted.
    fn check(command: &Command, name: &str) {
        let help = command.get_after_long_help().map(ToString::to_string).unwrap_or_default();
        let mut lines = help.lines();
        let mut count = 0;
        while let Some(line) = lines.find(|line| line.starts_with("  nvme-deep ")) {
            let line = line.trim_start();
            assert!(line.starts_with(name), "{name}: {line}");
            assert!(lines.next().is_some_and(|what| !what.trim().is_empty()), "{line}");
            let words = line.split(' ').map(OsString::from).collect();
            if let Err(refused) = Args::try_parse_from(with_files(words, &Args::command())) {
                panic!("{line}: {refused}");
            }
            count += 1;
        }
        assert!(count > 0, "{name} has no examples");
        for sub in command.get_subcommands().filter(|c| !c.is_hide_set()) {
            check(sub, &format!("{name} {}", sub.get_name()));
        }
    }

    #[test]
    fn the_help_has_every_exit_code_and_examples_which_are_accepted() {
        let (_, codes) = PROGRAM.split_once("Exit codes: ").unwrap();
        let codes = codes.split([' ', '\n']);
        let codes: Vec<u8> = codes.filter_map(|word| word.parse().ok()).collect();
        assert_eq!(codes, MEANINGS.map(|(code, _)| code));
        check(&Args::command(), "nvme-deep");
    }
}
