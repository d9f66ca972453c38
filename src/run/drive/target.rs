// SPDX-License-Identifier: MIT OR Apache-2.0
//! A target as the input of a run: one of this machine, or what was recorded of one.

use std::mem::replace;
use std::path::Path;
use std::time::Duration;

use crate::error::Kind;
use crate::machine::clock::monotonic_ns;
use crate::model::host::HostEvent;
use crate::model::ledger::{HostLedger, Shown};
use crate::model::target::{HostController, TargetInfo};
use crate::model::text::printable;
use crate::recording::HostRecording;
use crate::source::HostSource;
use crate::view::header::Header;
use anyhow::Result;

use super::names::Names;
use super::turns::{AT_ONCE, stop_receiver, until_stop};
use super::{Consumer, End, Feed, Item, Make, Moment, Start, Turn};
use crate::run::exit::Failure;

/// A target of this machine.
pub struct LiveTarget {
    /// The target, with everything attached.
    pub source: Box<dyn HostSource>,
    /// When the run ends, unless a signal or the end of the target ends it first.
    pub duration: Option<Duration>,
}

/// What was recorded of a target, or imported.
pub struct TargetRecording<'r> {
    /// The whole recording.
    pub recording: HostRecording,
    /// Its file; `None` for an import.
    pub path: Option<&'r Path>,
}

/// The end of a run of a target.
pub struct TargetEnd<'e> {
    /// The target.
    pub info: &'e TargetInfo,
    /// All its controllers.
    pub controllers: &'e [HostController],
    /// The ledger; `None` for a recording without an end.
    pub ledger: Option<&'e HostLedger>,
}

impl<'s> Start<'s> {
    /// The begin of a run of a target.
    fn of_target(begin_ns: u64, target: &'s TargetInfo) -> Self {
        Self {
            begin_ns,
            from: Duration::ZERO,
            session: None,
            recording: None,
            target: Some(target),
            header: Header::default(),
        }
    }
}

impl<'e> End<'e> {
    /// The end of a run of a target.
    fn of_target(took: Duration, target: TargetEnd<'e>) -> Self {
        let mut end = End::at(took, Names::recorded());
        end.target = Some(target);
        end
    }
}

/// Passes the items of a target on.
struct Feeder<C> {
    consumer: C,
    names: Names,
    /// Number of controllers that the consumer has.
    known: usize,
    /// The first error of the consumer, after which it gets nothing.
    done: Result<()>,
}

impl<C: Consumer> Feeder<C> {
    fn new(consumer: C) -> Self {
        Self { consumer, names: Names::recorded(), known: 0, done: Ok(()) }
    }

    fn item(&mut self, item: &Item<'_>) {
        if self.done.is_ok() {
            let names = &mut self.names;
            self.done = self.consumer.item(item, &mut Feed { names, later: 0 });
        }
    }

    fn event(&mut self, event: &HostEvent, controllers: &[HostController]) {
        if self.known < controllers.len() {
            self.known = controllers.len();
            self.item(&Item::TargetControllers(controllers));
        }
        self.item(&Item::Target(event));
    }

    fn take_error(&mut self) -> Result<()> {
        replace(&mut self.done, Ok(()))
    }
}

impl LiveTarget {
    pub(super) fn drive<C: Consumer>(self, make: &mut Make<'_, C>) -> Result<()> {
        let Self { mut source, duration } = self;
        let stop = stop_receiver()?;
        let begin_ns = monotonic_ns();
        let mut feeder = Feeder::new(make(&Start::of_target(begin_ns, source.target()))?);
        until_stop(&stop, duration, &mut |tick| {
            let more = source.take(false, &mut |event, all| feeder.event(event, all))?;
            feeder.take_error()?;
            let moment = Moment {
                now: tick.now,
                is_second: tick.rescanned,
                session: None,
                shown: Shown::default(),
            };
            Ok(match (feeder.consumer.tick(&moment)?, source.alive(), more) {
                (Turn::Items, Ok(()), true) => AT_ONCE,
                (Turn::Items, Ok(()), false) => Turn::Items,
                (Turn::Items, Err(_), _) => Turn::Done,
                (other, ..) => other,
            })
        })?;
        let took = Duration::from_nanos(monotonic_ns().saturating_sub(begin_ns));
        let alive = source.alive();
        let ledger = source.end(&mut |event, all| feeder.event(event, all))?;
        feeder.take_error()?;
        let end = TargetEnd {
            info: source.target(),
            controllers: source.controllers(),
            ledger: Some(&ledger),
        };
        let own = feeder.consumer.finish(End::of_target(took, end))?;
        alive?;
        own
    }
}

impl TargetRecording<'_> {
    pub(super) fn drive<C: Consumer>(self, make: &mut Make<'_, C>) -> Result<()> {
        let Self { recording, path } = self;
        let begin_ns = recording.info.begin_ns;
        let mut feeder = Feeder::new(make(&Start::of_target(begin_ns, &recording.target))?);
        feeder.known = recording.controllers.len();
        feeder.item(&Item::TargetControllers(&recording.controllers));
        for event in &recording.events {
            feeder.event(event, &recording.controllers);
            feeder.take_error()?;
        }
        let end = TargetEnd {
            info: &recording.target,
            controllers: &recording.controllers,
            ledger: recording.ledger.as_ref(),
        };
        let own = feeder.consumer.finish(End::of_target(Duration::ZERO, end))?;
        path.map_or(Ok(()), |path| check_target_end(&recording, path))?;
        own
    }
}

/// An error if a recording is damaged or has no end. To be called after the output.
///
/// # Errors
/// If it is; one sentence.
pub fn check_target_end(recording: &HostRecording, path: &Path) -> Result<()> {
    let Some(how) = recording.ending().flaw() else {
        return Ok(());
    };
    let text = format!(
        "{} {how}. The {} events before that are shown",
        printable(path),
        recording.events.len()
    );
    Err(Failure::error(Kind::Run, text))
}
