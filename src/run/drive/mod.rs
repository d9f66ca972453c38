// SPDX-License-Identifier: MIT OR Apache-2.0
//! The event loop of all commands:
//!
//! ```text
//! input.each(&mut |run| {
//!     loop {
//!         match run.next()? {
//!             Step::Event(seen) => ...,    // a command, or something else that happened
//!             Step::Fact(fact) => ...,     // what applies to the events after it
//!             Step::Tick(tick) => ...,     // flush, report, run.wake_at(...)
//!             Step::Ended => break,
//!         }
//!     }
//!     let end = run.end()?;                // the ledger
//!     ...
//! })
//! ```
//!
//! A run is a session of this machine (live.rs) or a recording (file.rs). `host` has a loop of its own.
//! Signals, the duration and waiting are in turns.rs, `--exec` in exec.rs, the checks
//! once a second and the verdict on them in health.rs.

pub use self::file::{FileReader, Form, again, count, open_all};
pub use self::ledger::{CountedBy, ledger, say_own_share};
use self::live::LiveRun;
pub use self::live::{Live, SUMS_ARE_SLOW};
pub use self::names::Names;
use self::turns::{Turns, Wake};
use crate::error::{Failure, Kind};
use crate::model::event::Event;
use crate::model::ledger::{Ledger, Shown};
use crate::model::report::submissions::{Longest, Submissions, TaskKind};
use crate::model::snapshot::Snapshot;
use crate::recording::Fact;
use crate::run::eprint_note;
use crate::run::start::LiveStacks;
use crate::session::Session;
use crate::settings::Settings;
use crate::view::header::Header;
use anyhow::Result;
use std::sync::mpsc::Receiver;
use std::time::Duration;

pub mod exec;
mod file;
mod ledger;
mod live;
pub mod names;
pub mod turns;

/// Where runs come from.
pub enum Input<'i> {
    /// This machine.
    Live(Box<Live<'i>>),
    /// Files, one after the other. With `stop`, a signal or a key ends the reading.
    Files { files: Vec<FileReader>, form: Form, stop: Option<&'i Receiver<Wake>> },
}

/// What comes next in a run.
pub enum Step<'s> {
    /// An event.
    Event(Seen<'s>),
    /// What applies to the events after it.
    Fact(Fact),
    /// There is nothing more at the moment. The time for output.
    Tick(Tick),
    /// The run is over.
    Ended,
}

/// An event.
pub struct Seen<'s> {
    /// The event.
    pub event: &'s Event,
    /// Whether the settings select it. Those of this machine are selected.
    pub is_selected: bool,
    /// The names of the disks.
    pub names: &'s mut Names,
    /// Commands of a recording after its last ledger, before this event.
    pub later: u64,
}

/// A moment between two events.
#[derive(Clone, Copy, Debug)]
pub struct Tick {
    /// Time since the start of the run.
    pub now: Duration,
    /// At the start, and about once a second: the machine has been checked. Never in a recording.
    pub is_second: bool,
}

/// The end of a run.
pub struct End {
    /// The ledger. Default, if a recording was not read to its end.
    pub ledger: Ledger,
    /// The sums of a session that has any.
    pub sums: Snapshot,
    /// Length of the run.
    pub took: Duration,
    /// The time that the events cover: less, if a ring dropped older ones.
    pub covers: Duration,
}

/// What a command asks of its run at a tick.
#[derive(Default)]
struct Wish {
    /// The next tick comes at this time, or earlier. A recording is not read on before.
    wake_at: Option<Duration>,
    /// End the run.
    stop: bool,
}

/// The next step without what it lends.
enum Ready {
    Event {
        is_selected: bool,
        later: u64,
    },
    Fact(Fact),
    Tick(Tick),
    /// The end of a block of a recording: time for a tick.
    BlockEnd,
    Ended,
}

enum Source<'r> {
    Live(Box<LiveRun<'r>>),
    File(Box<FileRun<'r>>),
}

/// A run: of this machine, or recorded.
pub struct Run<'r> {
    source: Source<'r>,
    names: Names,
    /// What is known of the header of the report: more at the end.
    pub header: Header,
    /// What has come. A command that shows less sets it before the ledger is made.
    pub shown: Shown,
    wish: Wish,
}

impl Run<'_> {
    /// The next step.
    ///
    /// # Errors
    /// If the kernel or the file cannot be read.
    pub fn next(&mut self) -> Result<Step<'_>> {
        let Self { source, names, shown, wish, .. } = self;
        let ready = match source {
            Source::Live(live) => live.advance(names, shown, wish)?,
            Source::File(file) => file.advance(names, shown, wish)?,
        };
        let (is_selected, later) = match ready {
            Ready::Event { is_selected, later } => (is_selected, later),
            Ready::Fact(fact) => return Ok(Step::Fact(fact)),
            Ready::Tick(tick) => return Ok(Step::Tick(tick)),
            Ready::BlockEnd | Ready::Ended => return Ok(Step::Ended),
        };
        let event = match source {
            Source::Live(live) => live.event(),
            Source::File(file) => file.reader.event(),
        };
        Ok(Step::Event(Seen { event, is_selected, names, later }))
    }

    /// At a tick: asks for the next one at this time since the start, or earlier.
    pub fn wake_at(&mut self, at: impl Into<Option<Duration>>) {
        self.wish.wake_at = at.into();
    }

    /// Ends the run. What has happened until now still comes.
    pub const fn stop(&mut self) {
        self.wish.stop = true;
    }

    /// Whether a signal or the command has ended the reading of a recording.
    pub const fn is_stopped(&self) -> bool {
        matches!(&self.source, Source::File(file) if file.is_stopped)
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
            Source::File(file) => Some(file.reader),
        }
    }

    /// CLOCK_MONOTONIC nanoseconds at which the run began.
    pub fn begin_ns(&self) -> u64 {
        match &self.source {
            Source::Live(live) => live.begin_ns,
            Source::File(file) => file.reader.info().begin_ns,
        }
    }

    /// The names of the disks.
    pub const fn names(&mut self) -> &mut Names {
        &mut self.names
    }

    /// The ledger of a session up to now, for a command that shows events.
    ///
    /// # Errors
    /// If the counters cannot be read, or the types do not fit the kernel.
    pub fn ledger(&self) -> Result<Ledger> {
        let of = |session| ledger(session, CountedBy::Events(&self.shown), None);
        self.session().map_or_else(|| Ok(Ledger::default()), of)
    }

    /// The end of the run, after [`Step::Ended`]. Completes the header.
    ///
    /// # Errors
    /// If the kernel cannot be read, or a recording has no ledger.
    pub fn end(&mut self) -> Result<End> {
        let (end, commands) = match &mut self.source {
            Source::Live(live) => live.end(&self.shown)?,
            Source::File(file) => file.end()?,
        };
        self.header.end(end.covers, commands.unwrap_or(end.ledger.matched), &end.ledger);
        Ok(end)
    }

    /// The same for a command that shows events: the ledger says how many.
    ///
    /// # Errors
    /// As [`Run::end`].
    pub fn end_of_shown(&mut self) -> Result<End> {
        let mut end = self.end()?;
        if let (Source::File(file), Some(trace)) = (&self.source, &mut end.ledger.trace) {
            trace.show(&self.shown, file.reader.unselected);
        }
        Ok(end)
    }

    /// Whether the run of this machine is complete, or the recording is whole.
    fn check(self) -> Result<()> {
        match self.source {
            Source::Live(live) => live.check(),
            Source::File(file) => file.reader.check_complete(),
        }
    }
}

/// A recording that is read, with ticks between its blocks.
struct FileRun<'r> {
    reader: &'r mut FileReader,
    /// With signals and keys.
    turns: Option<Turns<'r>>,
    /// The last step was a tick.
    ticked: bool,
    is_at_end: bool,
    /// A signal or the command has ended the reading.
    is_stopped: bool,
}

impl FileRun<'_> {
    fn advance(&mut self, names: &mut Names, shown: &mut Shown, wish: &mut Wish) -> Result<Ready> {
        if self.ticked {
            let wake_at = wish.wake_at.take();
            let turns = self.turns.as_mut();
            let goes_on = turns.is_none_or(|turns| turns.wait(wake_at.unwrap_or_default()));
            if wish.stop || !goes_on {
                (self.is_stopped, self.is_at_end) = (true, true);
                return Ok(Ready::Ended);
            }
            self.ticked = wake_at.is_some() && self.turns.is_some();
            if self.is_at_end && !self.ticked {
                return Ok(Ready::Ended);
            }
        } else if self.is_at_end {
            // the command goes on after the end
            self.ticked = true;
        } else {
            match self.reader.advance(names, shown)? {
                Ready::BlockEnd => self.ticked = true,
                ready => {
                    self.is_at_end = matches!(ready, Ready::Ended);
                    return Ok(ready);
                }
            }
        }
        if !self.ticked {
            return self.advance(names, shown, wish);
        }
        let now = self.turns.as_ref().map_or(Duration::ZERO, Turns::elapsed);
        Ok(Ready::Tick(Tick { now, is_second: false }))
    }

    /// The end, and the number of commands that are selected.
    fn end(&mut self) -> Result<(End, Option<u64>)> {
        let (ledger, took) = match self.is_stopped {
            true => <_>::default(),
            false => self.reader.end()?,
        };
        let covers = self.reader.covers();
        let end = End { ledger, sums: Snapshot::default(), took, covers };
        Ok((end, Some(self.reader.selected)))
    }
}

impl<'i> Input<'i> {
    /// This machine.
    pub fn live(live: Live<'i>) -> Self {
        Self::Live(Box::new(live))
    }

    /// Files, one after the other.
    pub const fn files(files: Vec<FileReader>, form: Form) -> Self {
        Self::Files { files, form, stop: None }
    }

    /// Calls `read` for each run, which reads it to its end and writes the result. If there are several
    /// recordings, what is wrong with one is reported, and the others are read.
    ///
    /// # Errors
    /// Those of `read`. Programs that no longer receive events, or a recording without an end; one
    /// sentence each, with the exit code of its kind. Nothing stays attached.
    pub fn each(self, read: &mut dyn FnMut(&mut Run<'_>) -> Result<()>) -> Result<()> {
        let (files, form, stop) = match self {
            Self::Live(mut live) => {
                let stacks = live.stacks.take();
                let mut run = Run::live(&live, stacks)?;
                read(&mut run)?;
                return run.check();
            }
            Self::Files { files, form, stop } => (files, form, stop),
        };
        let (all, mut incomplete) = (files.len(), 0);
        for mut reader in files {
            let mut run = Run::of_file(&mut reader, stop);
            let mut done = run.begin_file(&form, all > 1);
            if done.is_ok() {
                done = read(&mut run);
            }
            let Source::File(file) = &run.source else {
                return done;
            };
            let cannot_be_read = file.reader.has_failed;
            if done.is_ok() {
                done = file.reader.check_complete();
            } else if !cannot_be_read {
                return done;
            }
            match done {
                Ok(()) if file.is_stopped => break,
                Ok(()) => {}
                Err(error) if all == 1 => return Err(error),
                Err(error) => {
                    eprint_note(&format!("{error:#}"));
                    incomplete += 1;
                }
            }
        }
        if incomplete > 0 {
            let text = "recordings could not be read to the end: see above";
            return Err(Failure::error(Kind::Run, format!("{incomplete} of {all} {text}")));
        }
        Ok(())
    }
}

impl<'r> Run<'r> {
    fn live(live: &'r Live<'_>, stacks: Option<LiveStacks>) -> Result<Self> {
        let (source, header) = LiveRun::attach(live, stacks)?;
        Ok(Self {
            source: Source::Live(Box::new(source)),
            names: Names::of(live.ready.system.clone()),
            header,
            shown: Shown::default(),
            wish: Wish::default(),
        })
    }

    fn of_file(reader: &'r mut FileReader, stop: Option<&'r Receiver<Wake>>) -> Self {
        let turns = stop.map(|stop| Turns::begin(stop, None));
        let (ticked, is_at_end, is_stopped) = (false, false, false);
        let file = FileRun { reader, turns, ticked, is_at_end, is_stopped };
        Self {
            source: Source::File(Box::new(file)),
            names: Names::recorded(),
            header: Header::default(),
            shown: Shown::default(),
            wish: Wish::default(),
        }
    }

    /// Reads a recording outside of an [`Input`]: for a first pass, or by a command
    /// that reads several into one result. The command itself checks whether it is whole.
    pub fn of(reader: &'r mut FileReader) -> Self {
        Self::of_file(reader, None)
    }

    /// Says which of several recordings is shown.
    fn begin_file(&mut self, form: &Form, is_one_of_several: bool) -> Result<()> {
        if let Source::File(file) = &mut self.source {
            self.header = file.reader.header();
            if is_one_of_several {
                file.reader.head(&self.header, form)?;
            }
            if form.writes_at_end {
                file.reader.show_progress();
            }
        }
        Ok(())
    }
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
    let mut first = again(reader, settings, option)?;
    let mut first = Run::of(&mut first);
    loop {
        match first.next()? {
            Step::Event(Seen { event, is_selected: true, names, .. }) => {
                let (_, set) = names.of_command(event.what.id());
                longest.add(event, set);
            }
            Step::Ended => return Ok(Submissions::of_pairs(longest)),
            _ => {}
        }
    }
}
