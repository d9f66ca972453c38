// SPDX-License-Identifier: MIT OR Apache-2.0
//! A session of this machine as the input of a run.

use std::ffi::OsString;
use std::mem::ManuallyDrop;
use std::time::Duration;

use crate::machine::clock::{monotonic_ns, wall_offset_ns};
use crate::machine::watch::Modules;
use crate::machine::{System, own_tgid};
use crate::model::ledger::{EventClass, Shown};
use crate::session::Session;
use crate::settings::Settings;
use crate::source::{EventStream, Read, Source};
use crate::view::header::Header;
use anyhow::Result;

use super::drops::{Drops, Reader};
use super::exec::{Program, until_end};
use super::health::HealthCheck;
use super::ledger::{ledger_of, ledger_of_trace};
use super::names::Names;
use super::turns::Run;
use super::{Consumer, End, Feed, Item, Make, Moment, Start, Turn};
use crate::run::start::{Preflight, require_status};
use crate::run::symbols::LiveStacks;

/// Interval between drains of the ring. At a million commands per second, about 4 MB of events
/// arrive in this time. A smaller ring is drained more often.
const DRAIN: Duration = Duration::from_millis(20);
const ROOM_FOR_DRAIN: u32 = 4 << 20;
const SHORTEST_DRAIN: Duration = Duration::from_millis(1);

/// Time between two drains of a ring of this size.
fn drain_pause(ring_bytes: u32) -> Duration {
    let share = f64::from(ring_bytes) / f64::from(ROOM_FOR_DRAIN);
    DRAIN.mul_f64(share.min(1.0)).max(SHORTEST_DRAIN)
}

/// A run on this machine.
pub struct Live<'l> {
    /// The machine.
    pub ready: Preflight,
    /// What to trace.
    pub settings: &'l Settings,
    /// When the run ends, unless a signal ends it first.
    pub duration: Option<Duration>,
    /// A program whose end is the end of the run.
    pub exec: &'l [OsString],
    /// How the run ends without these two, for the first line.
    pub until: &'l str,
    /// What takes the events.
    pub reader: Reader,
    /// The stacks of single commands, if they are taken.
    pub stacks: Option<LiveStacks>,
    /// The kernel's interrupt entry code, for stacks.
    pub irq_entry: Option<(u64, u64)>,
}

/// Creates the consumer, unless the settings ask for what can't be read: it may begin a file.
fn begin<C>(
    settings: &Settings,
    can_read_status: bool,
    make: &mut dyn FnMut() -> Result<C>,
) -> Result<C> {
    require_status(settings, can_read_status)?;
    make()
}

/// Passes the items of a session on.
pub struct Feeder<C> {
    /// What takes them.
    pub consumer: C,
    header: Header,
    names: Names,
    stacks: Option<LiveStacks>,
    shown: Shown,
    /// This process.
    own: Option<u32>,
}

impl<C: Consumer> Feeder<C> {
    /// Feeds this consumer.
    pub fn new(consumer: C, names: Names, stacks: Option<LiveStacks>) -> Self {
        let header = Header::default();
        Self { consumer, header, names, stacks, shown: Shown::default(), own: own_tgid() }
    }

    fn item(&mut self, item: &Item<'_>) -> Result<()> {
        let names = &mut self.names;
        self.consumer.item(item, &mut Feed { names, later: 0 })
    }

    fn shown(&mut self) -> &mut Shown {
        match self.consumer.shown() {
            Some(shown) => shown,
            None => &mut self.shown,
        }
    }

    #[inline]
    fn changes(&mut self) -> Result<()> {
        if self.names.take_changed() {
            return self.controllers();
        }
        Ok(())
    }

    // out of line: the controllers rarely change
    #[inline(never)]
    fn controllers(&mut self) -> Result<()> {
        let all = self.names.controllers().to_vec();
        self.item(&Item::Controllers(all))
    }

    fn activity(&mut self, source: &dyn Source) -> Result<()> {
        match source.activity()? {
            Some(activity) => self.item(&Item::Activity(activity)),
            None => Ok(()),
        }
    }

    /// At the begin, and each second.
    fn second(&mut self, at: Duration, source: &dyn Source) -> Result<()> {
        self.names.allow_rescan();
        self.item(&Item::Clock(wall_offset_ns()))?;
        self.activity(source)?;
        if self.consumer.wants_ledgers() {
            let ledger = ledger_of_trace(source, self.shown(), None)?;
            self.item(&Item::Ledger(at, &ledger))?;
        }
        Ok(())
    }

    fn begin(&mut self, settings: &Settings, system: &System, source: &dyn Source) -> Result<()> {
        if settings.counts() {
            return Ok(());
        }
        self.changes()?;
        if settings.context() {
            self.item(&Item::Machine(Box::new(system.info(false))))?;
        }
        self.second(Duration::ZERO, source)
    }

    fn read(&mut self, read: Read<'_>, source: &dyn Source) -> Result<()> {
        let Some(event) = read else {
            self.shown().undecodable += 1;
            return self.item(&Item::Undecodable);
        };
        if self.stacks.is_some() {
            for id in event.what.stacks() {
                let stacks = self.stacks.as_mut();
                if let Some(frames) = stacks.and_then(|stacks| stacks.learn(id, source)) {
                    self.item(&Item::Stack(id, frames))?;
                }
            }
        }
        // a lookup of an unknown disk reads the names again
        self.names.of_command(event.what.id());
        self.changes()?;
        // it owns nothing, so there is nothing to drop
        self.item(&ManuallyDrop::new(Item::Event(event)))?;
        if C::SHOWS && self.consumer.shown().is_none() {
            self.shown.add(EventClass::of(&event.what));
            self.shown.add_own(&event.what, self.own);
        }
        Ok(())
    }

    /// Passes on the events that are complete. Returns true if there may be more.
    ///
    /// # Errors
    /// If they cannot be read; those of the consumer.
    pub fn drain(&mut self, events: &mut dyn EventStream, source: &dyn Source) -> Result<bool> {
        self.take(false, events, source)
    }

    fn take(
        &mut self,
        all: bool,
        events: &mut dyn EventStream,
        source: &dyn Source,
    ) -> Result<bool> {
        let mut done = Ok(());
        let more = events.take(all, &mut |read| {
            if done.is_ok() {
                done = self.read(read, source);
            }
        })?;
        done?;
        Ok(more)
    }

    /// Passes on what is left after the end of the run, in CLOCK_MONOTONIC nanoseconds.
    ///
    /// # Errors
    /// As before.
    pub fn drain_rest(
        &mut self,
        events: &mut dyn EventStream,
        source: &dyn Source,
        end_ns: u64,
    ) -> Result<()> {
        self.take(true, events, source)?;
        self.shown().out_of_order = events.late();
        if C::SHOWS {
            for event in source.unfinished(end_ns.max(events.last_ns()))? {
                self.read(Some(&event), source)?;
            }
        }
        self.consumer.flush();
        self.activity(source)
    }

    fn tick(&mut self, now: Duration, is_second: bool, session: &Session) -> Result<Turn> {
        self.consumer.flush();
        let moment = Moment { now, is_second, session: Some(session), shown: *self.shown() };
        self.consumer.tick(&moment)
    }

    /// Hands the end over. The inner error counts less than one of the run.
    fn finish(
        mut self,
        settings: &Settings,
        took: Duration,
        session: &Session,
    ) -> Result<Result<()>> {
        let scan = Some(session.scan()?);
        let mut end = End::at(took, self.names);
        end.session = Some(session);
        if settings.counts() {
            end.sums = session.snapshot()?;
            end.ledger = ledger_of(session, &end.sums, scan)?;
        } else {
            let shown = *self.consumer.shown().unwrap_or(&mut self.shown);
            end.ledger = ledger_of_trace(session, &shown, scan)?;
            end.shown = shown;
        }
        end.header = self.header;
        end.header.end(took, end.ledger.matched, &end.ledger);
        self.consumer.finish(end)
    }
}

impl<'l> Live<'l> {
    /// A run of events that are summed up, without a program.
    pub const fn new(ready: Preflight, settings: &'l Settings, duration: Option<Duration>) -> Self {
        Self {
            ready,
            settings,
            duration,
            exec: &[],
            until: "; Ctrl-C ends it",
            reader: Reader::Sums,
            stacks: None,
            irq_entry: None,
        }
    }

    pub(super) fn drive<C: Consumer>(self, make: &mut Make<'_, C>) -> Result<()> {
        let Self { ready, settings, .. } = self;
        let until = until_end(self.exec, self.duration.is_some(), self.until);
        let irq_entry = self.stacks.as_ref().and_then(LiveStacks::irq_entry);
        let modules = Modules::of(&ready.system);
        let mut session = ready.attach(settings, &until, irq_entry.or(self.irq_entry))?;
        let with_events = settings.has_events();
        let mut health = HealthCheck::of(modules, &session, ready.system.clone());
        let mut events = session.events()?;
        let pause = match with_events {
            true => drain_pause(session.rings().bytes),
            false => Duration::MAX,
        };
        let (host, kernel) = ready.system.host_and_kernel();
        let begin_ns = Some(wall_offset_ns().saturating_add_unsigned(monotonic_ns()));
        let who = settings.asks_who().then(|| session.origin().who());
        let header = Header { host, kernel, begin_ns, who, ..Header::default() };
        let consumer = begin(settings, session.can_read_status(), &mut || {
            make(&Start {
                begin_ns: monotonic_ns(),
                from: Duration::ZERO,
                session: Some(&session),
                recording: None,
                header: header.clone(),
            })
        })?;
        let drops = with_events.then(|| Drops::watch(&session, settings, self.reader));
        let drops = drops.transpose()?;
        let names = Names::of(ready.system.clone());
        let mut feeder = Feeder::new(consumer, names, self.stacks);
        feeder.header = header;
        feeder.begin(settings, &ready.system, &session)?;
        let program = Program::start(self.exec, &ready.waker)?;
        let run = Run::begin(&ready.stop, self.duration);
        let ended = run.turns(&mut session, &mut health, &mut |session, tick| {
            if tick.rescanned {
                feeder.second(tick.now, session)?;
            }
            let more = feeder.drain(&mut events, session)?;
            let again = match more {
                true => tick.now,
                false => run.elapsed().saturating_add(pause),
            };
            Ok(match feeder.tick(run.elapsed(), tick.rescanned, session)? {
                Turn::Items => Turn::Until(again),
                Turn::Until(next) => Turn::Until(next.min(again)),
                Turn::Done => Turn::Done,
            })
        });
        let took = run.elapsed();
        health.final_check(&session)?;
        // commands continue while the hooks are detached: their events are still in the ring
        let end_ns = monotonic_ns();
        let closed = session.end();
        drops.into_iter().for_each(Drops::stop);
        ended?;
        closed?;
        feeder.drain_rest(&mut events, &session, end_ns)?;
        let own = feeder.finish(settings, took, &session)?;
        health.verdict()?;
        program.end()?;
        own
    }
}

#[cfg(test)]
mod tests {
    use crate::error::Kind;
    use clap::Parser;

    use super::*;
    use crate::cli::{Args, Command};
    use crate::run::args::common::SessionOptions;
    use crate::run::exit::kind_of;

    fn command(words: &str) -> Command {
        let words = ["nvme-deep"].into_iter().chain(words.split(' '));
        Args::try_parse_from(words).unwrap().command
    }

    #[test]
    fn no_file_is_begun_for_a_run_that_cannot_be() {
        let Command::Trace(args) = command("trace --errors --tee run.nvd") else {
            panic!("not trace");
        };
        let settings = args.settings().unwrap();
        let mut begun = 0;
        let mut make = || {
            begun += 1;
            Ok(())
        };
        let refused = begin(&settings, false, &mut make).unwrap_err();
        assert_eq!(kind_of(&refused), Kind::Kernel);
        begin(&settings, true, &mut make).unwrap();
        assert_eq!(begun, 1);
    }

    #[test]
    fn each_run_with_events_is_watched_for_lost_ones() {
        for (words, want) in [
            ("latency", false),
            ("latency --json --commands", true),
            ("latency --lat-shift 2", true),
        ] {
            let Command::Latency(args) = command(words) else {
                panic!("not latency");
            };
            let settings = args.settings().unwrap();
            assert_eq!(settings.has_events(), want, "{words}");
        }
    }
}
