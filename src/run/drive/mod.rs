// SPDX-License-Identifier: MIT OR Apache-2.0
//! The event loop of all commands:
//!
//! ```text
//! loop {
//!     match run.next()? {
//!         Step::Event { event, .. } => ...,  // a command, or something else that happened
//!         Step::Fact(fact) => ...,           // what applies to the events after it
//!         Step::Tick { now, .. } => ...,     // flush, report, run.wake_at(...)
//!         Step::Ended => break,
//!     }
//! }
//! let end = run.end()?;                      // the ledger
//! ```
//!
//! [`Live::run`] begins a run of this machine (live.rs), [`each`] one for each recording (file.rs). `host`
//! has a loop of its own. Signals, the duration, `--exec` and waiting are in turns.rs, the checks once a
//! second in live.rs.

pub use self::file::{FileReader, count, first_pass, open_all};
pub use self::live::{Live, SUMS_ARE_SLOW, ledger_of_rows};
use self::live::{LiveRun, ledger_of_events};
pub use self::names::Names;
use crate::error::{Failure, Kind};
use crate::model::event::Event;
use crate::model::ledger::{Ledger, Shown};
use crate::model::report::submissions::{Longest, Submissions, TaskKind};
use crate::recording::Fact;
use crate::run::eprint_note;
use crate::session::Session;
use crate::settings::Settings;
use crate::view::header::Header;
use anyhow::Result;
use std::time::Duration;

mod file;
mod live;
pub mod names;
pub mod turns;

/// What comes next in a run.
pub enum Step<'s> {
    /// An event.
    Event {
        event: &'s Event,
        /// Whether the settings select it. Always true on this machine: the programs filter.
        is_selected: bool,
        names: &'s mut Names,
        /// Commands of a recording after its last ledger, before this event.
        later: u64,
    },
    /// What applies to the events after it.
    Fact(Fact),
    /// There is nothing more at the moment. The time for output.
    Tick {
        /// Time since the start of the run. 0 in a recording.
        now: Duration,
        /// At the start, and about once a second: the machine has been checked. Never in a recording.
        is_second: bool,
    },
    /// The run is over.
    Ended,
}

/// The end of a run.
pub struct End {
    /// The ledger.
    pub ledger: Ledger,
    /// Length of the run.
    pub took: Duration,
    /// The time that the events cover: less, if a ring dropped older ones.
    pub covers: Duration,
}

enum Source<'r> {
    Live(Box<LiveRun<'r>>),
    File(&'r mut FileReader),
}

/// A run: of this machine, or recorded.
pub struct Run<'r> {
    source: Source<'r>,
    /// The names of disks and cgroups.
    pub names: Names,
    /// CLOCK_MONOTONIC nanoseconds at which it began.
    pub begin_ns: u64,
    /// What is known of the header of the report: more at the end.
    pub header: Header,
    /// What has come. A command that shows less sets it before the ledger is made.
    pub shown: Shown,
    /// The next tick comes at this time, or earlier.
    wake_at: Option<Duration>,
    is_stopped: bool,
}

impl Run<'_> {
    /// The next step.
    ///
    /// # Errors
    /// If the kernel or the file cannot be read.
    pub fn next(&mut self) -> Result<Step<'_>> {
        let Self { source, names, shown, wake_at, is_stopped, .. } = self;
        match source {
            Source::Live(live) => live.advance(names, shown, wake_at, *is_stopped),
            Source::File(file) => file.advance(names, shown),
        }
    }

    /// At a tick of this machine: asks for the next one at this time since the start, or earlier.
    pub fn wake_at(&mut self, at: impl Into<Option<Duration>>) {
        self.wake_at = at.into();
    }

    /// Ends the run of this machine: what has happened until now still comes. After this one, no other
    /// recording is read.
    pub const fn stop(&mut self) {
        self.is_stopped = true;
    }

    /// The session; `None`: a recording is read.
    pub fn session(&self) -> Option<&Session> {
        match &self.source {
            Source::Live(live) => Some(&live.session),
            Source::File(_) => None,
        }
    }

    /// The recording; `None`: a session.
    pub fn file(&self) -> Option<&FileReader> {
        match &self.source {
            Source::Live(_) => None,
            Source::File(file) => Some(file),
        }
    }

    /// The ledger of a session up to now, for a command that shows events.
    ///
    /// # Errors
    /// If the counters cannot be read, or the types do not fit the kernel.
    pub fn ledger(&self) -> Result<Ledger> {
        let of = |session| ledger_of_events(session, &self.shown, None);
        self.session().map_or_else(|| Ok(Ledger::default()), of)
    }

    /// The end of the run, after [`Step::Ended`]. Completes the header. Of a recording, the ledger says how
    /// many events are shown.
    ///
    /// # Errors
    /// If the kernel cannot be read, or a recording has no ledger.
    pub fn end(&mut self) -> Result<End> {
        let (end, commands) = match &mut self.source {
            Source::Live(live) => (live.end(&self.shown)?, None),
            Source::File(file) => (file.end(&self.shown)?, Some(file.selected)),
        };
        self.header.end(end.covers, commands.unwrap_or(end.ledger.matched), &end.ledger);
        Ok(end)
    }
}

impl<'r> Run<'r> {
    fn new(source: Source<'r>, names: Names, begin_ns: u64, header: Header) -> Self {
        let shown = Shown::default();
        Self { source, names, begin_ns, header, shown, wake_at: None, is_stopped: false }
    }

    /// Reads a recording outside of [`each`]: for a first pass, or by a command that reads several into one
    /// result. The command itself checks whether it is whole.
    pub fn of(reader: &'r mut FileReader) -> Self {
        let (begin_ns, header) = (reader.info().begin_ns, reader.header());
        Self::new(Source::File(reader), Names::default(), begin_ns, header)
    }
}

/// Calls `read` for each recording, which reads it to its end and writes the result. If there are several,
/// what is wrong with one is reported, and the others are read. `json`: the output is JSON. `streams`: `read`
/// writes while it reads.
///
/// # Errors
/// If `read` fails, or a recording has no end; one sentence each, with the exit code of its kind.
pub fn each(
    files: Vec<FileReader>,
    json: bool,
    streams: bool,
    read: &mut dyn FnMut(&mut Run<'_>) -> Result<()>,
) -> Result<()> {
    let (all, mut incomplete) = (files.len(), 0);
    for mut file in files {
        if all > 1 {
            file.head(json)?;
        }
        if streams {
            file.streams();
        }
        let mut run = Run::of(&mut file);
        let done = read(&mut run);
        let is_stopped = run.is_stopped;
        let done = match done {
            Err(_) if !file.has_failed => return done,
            done => done.and_then(|()| file.check_complete()),
        };
        if all == 1 {
            return done;
        }
        if let Err(error) = done {
            eprint_note(&format!("{error:#}"));
            incomplete += 1;
        }
        if is_stopped {
            break;
        }
    }
    if incomplete > 0 {
        let text = "recordings could not be read to the end: see above";
        return Err(Failure::error(Kind::Run, format!("{incomplete} of {all} {text}")));
    }
    Ok(())
}

/// What puts the submissions of a run into the order of time. With two events per command, this needs
/// no first pass; `option` needs it otherwise. Each has the task that `task_kind` selects.
///
/// # Errors
/// If a recording cannot be read, or is a pipe; one sentence.
pub fn submissions_of(
    run: &Run<'_>,
    settings: &Settings,
    task_kind: TaskKind,
    option: &str,
) -> Result<Submissions> {
    let Some(reader) = run.file().filter(|reader| reader.info().pairs) else {
        return Ok(Submissions::of_events(task_kind));
    };
    let mut longest = Longest::new(task_kind);
    first_pass(reader, settings, option, |event, names| {
        let (_, set) = names.of_command(event.what.id());
        longest.add(event, set);
    })?;
    Ok(Submissions::of_pairs(longest))
}
