// SPDX-License-Identifier: MIT OR Apache-2.0
//! The only run of all commands.
//!
//! ```text
//!   session     (live.rs)     ─┐
//!                              ├─ items ─▶ drive() ─▶ Consumer { item, tick, finish }
//!   recordings  (recorded.rs) ─┘
//! ```
//!
//! Signals, duration and the time of the next tick are in turns.rs, `--exec` in exec.rs, the checks of
//! the machine and the verdict on them in health.rs, the warning about lost events in drops.rs, the
//! ledger in ledger.rs. A command is an [`Input`], a [`Consumer`] and a view.

mod census;
mod drops;
pub mod exec;
mod health;
mod ledger;
pub mod live;
pub mod names;
mod order;
mod recorded;
mod recorded_who;
pub mod replay;
pub mod turns;

use std::time::Duration;

use crate::model::activity::Activity;
use crate::model::controller::ControllerInfo;
use crate::model::event::{Event, StackId};
use crate::model::ledger::{Ledger, Shown};
use crate::model::machine::MachineInfo;
use crate::model::run::ClockReading;
use crate::model::snapshot::Snapshot;
use crate::model::stack::Frame;
use crate::recording::CgroupInfo;
pub use crate::session::{CostSample, Session};
use crate::settings::OriginDetail;
use crate::view::header::Header;
use anyhow::Result;

pub use self::drops::Reader;
pub use self::ledger::{ledger_of, say_own_share};
pub use self::live::Live;
pub use self::names::Names;
pub use self::order::submissions_of;
pub use self::recorded::{Form, Recordings, again, header_of, open_all, read, scan};
use self::replay::Replay;
pub use self::turns::Turn;

/// Where the items of a run come from.
pub enum Input<'i> {
    /// This machine.
    Live(Box<Live<'i>>),
    /// Files, one after the other.
    Recordings(Recordings<'i>),
}

impl<'i> Input<'i> {
    /// This machine.
    pub fn live(live: Live<'i>) -> Self {
        Self::Live(Box::new(live))
    }

    /// Files, one after the other. `is_silent`: nothing is written before the end of each.
    pub const fn recordings(replays: Vec<Replay>, form: Form, is_silent: bool) -> Self {
        Self::Recordings(Recordings { replays, form, is_silent, stop: None })
    }
}

/// A part of a run. Each applies to the events after it.
pub enum Item<'i> {
    /// An event that the settings select.
    Event(&'i Event),
    /// An event of a recording that they do not select.
    Unselected(&'i Event),
    /// A record of the ring that cannot be decoded.
    Undecodable,
    /// The frames of a stack, before the first event with it.
    Stack(StackId, Vec<Frame>),
    /// Cgroups of a recording, before the first event with them.
    Cgroups(Vec<CgroupInfo>),
    /// Wall clock minus CLOCK_MONOTONIC in nanoseconds: at the begin, and each second.
    Clock(i64),
    /// The controllers, when they change.
    Controllers(Vec<ControllerInfo>),
    /// What the machine did besides the commands: at the begin, each second, and at the end.
    Activity(Activity),
    /// The settings of the machine.
    Machine(Box<MachineInfo>),
    /// Readings of clocks that two machines can share.
    Readings(Vec<ClockReading>),
    /// The ledger at this time since the start: at the begin, and each second.
    Ledger(Duration, &'i Ledger),
    /// A recording is over: its length, the time that its events cover, and its ledger.
    Last(Duration, Duration, &'i Ledger),
}

/// What a consumer may use while it takes an item.
pub struct Feed<'f> {
    /// The names of the disks.
    pub names: &'f mut Names,
    /// Commands of a recording after its last ledger, before this item.
    pub later: u64,
}

/// The begin of a run.
pub struct Start<'s> {
    /// CLOCK_MONOTONIC nanoseconds.
    pub begin_ns: u64,
    /// Since then: where the part of a recording begins that is read.
    pub from: Duration,
    /// `None`: a recording is read.
    pub session: Option<&'s Session>,
    /// `None`: a session.
    pub recording: Option<&'s Replay>,
    /// What is known of the header of the report.
    pub header: Header,
}

impl Start<'_> {
    /// What the session observes of where commands come from; nothing for a recording.
    pub fn origin(&self) -> OriginDetail {
        self.session.map(Session::origin).unwrap_or_default()
    }
}

/// A moment of a run, between two items.
pub struct Moment<'m> {
    /// Time since the start of the run.
    pub now: Duration,
    /// The machine has been checked since the last call: about once a second.
    pub is_second: bool,
    /// `None`: a recording is read.
    pub session: Option<&'m Session>,
    /// What has been shown.
    pub shown: Shown,
}

impl Moment<'_> {
    /// The ledger up to now. `None`: a recording is read.
    ///
    /// # Errors
    /// If the counters cannot be read, or the types do not fit the kernel.
    pub fn ledger(&self) -> Result<Option<Ledger>> {
        let session = self.session;
        let ledger = |session| ledger::ledger_of_trace(session, &self.shown, None);
        session.map(|session| ledger(session)).transpose()
    }
}

/// The end of a run.
pub struct End<'e> {
    /// The ledger.
    pub ledger: Ledger,
    /// The sums of a session that has any.
    pub sums: Snapshot,
    /// Length of the run.
    pub took: Duration,
    /// The time that the events cover: less, if a ring dropped older ones.
    pub covers: Duration,
    /// What was shown.
    pub shown: Shown,
    /// The header of the report, complete.
    pub header: Header,
    /// Commands of a recording that the settings do not select.
    pub unselected: u64,
    /// The names of the disks at the end.
    pub names: Names,
    /// Of a recording: that it has no command that was asked for.
    pub unmatched: Option<String>,
    /// Whether nothing is missing at the end.
    pub is_whole: bool,
    /// `None`: a recording was read.
    pub session: Option<&'e Session>,
    /// `None`: a session.
    pub recording: Option<&'e Replay>,
}

impl End<'_> {
    /// The end of a run of this length.
    fn at(took: Duration, names: Names) -> Self {
        Self {
            ledger: Ledger::default(),
            sums: Snapshot::default(),
            took,
            covers: took,
            shown: Shown::default(),
            header: Header::default(),
            unselected: 0,
            names,
            unmatched: None,
            is_whole: true,
            session: None,
            recording: None,
        }
    }
}

/// What a command does with the items of a run.
pub trait Consumer: Sized {
    /// Whether it shows events, which the ledger then counts. Otherwise it sums them up by itself.
    const SHOWS: bool = true;

    /// Whether its text begins with the header. Otherwise each of several recordings gets one.
    const HEADS: bool = false;

    /// Takes an item. Items come in the order of time.
    ///
    /// # Errors
    /// Any error ends the run.
    fn item(&mut self, _item: &Item<'_>, _feed: &mut Feed<'_>) -> Result<()> {
        Ok(())
    }

    /// Called after items, and when it asked for it. Returns when to call it again.
    ///
    /// # Errors
    /// Any error ends the run.
    fn tick(&mut self, _moment: &Moment<'_>) -> Result<Turn> {
        Ok(Turn::Items)
    }

    /// Writes what it holds back: after the items of a turn, and before the last ledger is made.
    fn flush(&mut self) {}

    /// Whether it takes [`Item::Ledger`].
    fn wants_ledgers(&self) -> bool {
        false
    }

    /// What was shown, if it counts that by itself.
    fn shown(&mut self) -> Option<&mut Shown> {
        None
    }

    /// Writes the result. The inner error counts less than one of the run, such as a recording without
    /// an end. A consumer of several recordings has none for each.
    ///
    /// # Errors
    /// Errors of the output, which end the command.
    fn finish(self, _end: End<'_>) -> Result<Result<()>> {
        Ok(Ok(()))
    }
}

/// Creates the consumer of a run, or of each recording, when it begins.
pub type Make<'m, C> = dyn FnMut(&Start<'_>) -> Result<C> + 'm;

/// Runs a command to its end.
///
/// # Errors
/// One sentence each, with the exit code of its kind. Nothing stays attached.
pub fn drive<C: Consumer>(input: Input<'_>, make: &mut Make<'_, C>) -> Result<()> {
    match input {
        Input::Live(live) => live.drive(make),
        Input::Recordings(recordings) => recordings.drive(make),
    }
}
