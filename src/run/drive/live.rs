// SPDX-License-Identifier: MIT OR Apache-2.0
//! A run of this machine: attached, read until its end, detached, and read to the last event.

use super::exec::{Program, until_end};
use super::ledger::{CountedBy, check_fit, ledger};
use super::names::Names;
use super::turns::Turns;
use super::{End, Ready, Tick, Wish};
use crate::abi::NO_EVENT;
use crate::error::{Failure, Kind};
use crate::machine::clock::{monotonic_ns, wall_offset_ns};
use crate::machine::watch::{HookMonitor, Modules};
use crate::machine::{System, own_tgid};
use crate::model::event::Event;
use crate::model::ledger::{EventClass, Shown, TraceLedger};
use crate::model::machine::Pairing;
use crate::model::snapshot::Snapshot;
use crate::recording::{ClockOffset, Fact};
use crate::run::eprint_note;
use crate::run::start::{LiveStacks, Preflight, require_status};
use crate::session::{LiveEvents, Session};
use crate::settings::Settings;
use crate::view::header::Header;
use anyhow::Result;
use std::collections::VecDeque;
use std::ffi::OsString;
use std::mem::take;
use std::time::Duration;

/// Interval between drains of the ring. At a million commands per second, about 4 MB of events
/// arrive in this time. A smaller ring is drained more often.
const DRAIN: Duration = Duration::from_millis(20);
const ROOM_FOR_DRAIN: u32 = 4 << 20;
const SHORTEST_DRAIN: Duration = Duration::from_millis(1);
/// Interval between checks of the machine.
const SECOND: Duration = Duration::from_secs(1);

/// Time between two drains of a ring of this size.
fn drain_pause(ring_bytes: u32) -> Duration {
    let share = f64::from(ring_bytes) / f64::from(ROOM_FOR_DRAIN);
    DRAIN.mul_f64(share.min(1.0)).max(SHORTEST_DRAIN)
}

/// Why the ring of a run that sums events up was full, and what helps.
pub const SUMS_ARE_SLOW: &str =
    "the events are not counted fast enough: filters (--ctrl, --opcode) help";

/// How to run on this machine.
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
    /// Why the ring may be full, and which options of the command help.
    pub advice: &'static str,
    /// The stacks of single commands, if they are taken.
    pub stacks: Option<LiveStacks>,
    /// The kernel's interrupt entry code, for stacks.
    pub irq_entry: Option<(u64, u64)>,
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
            advice: SUMS_ARE_SLOW,
            stacks: None,
            irq_entry: None,
        }
    }
}

#[derive(Clone, Copy)]
enum State {
    /// Attached. The command may still be preparing its output.
    Attached,
    /// The events that have come are being passed on.
    Passing {
        is_second: bool,
    },
    /// There was a tick.
    Ticked,
    /// Detached. The last events are being passed on.
    Detached,
    /// The commands that are still in flight are being passed on.
    InFlight,
    Ended,
}

/// A run in progress.
pub(super) struct LiveRun<'l> {
    live: &'l Live<'l>,
    pub session: Session,
    events: LiveEvents,
    /// The last one.
    event: Event,
    /// Whether the facts that the event needs come first.
    is_held: bool,
    facts: VecDeque<Fact>,
    in_flight: Vec<Event>,
    stacks: Option<LiveStacks>,
    health: HealthCheck,
    /// Events that found no room in the ring, as far as that was reported.
    lost: u64,
    program: Option<Program>,
    turns: Turns<'l>,
    state: State,
    /// The next fetch, if nothing happens before.
    drain_at: Duration,
    pause: Duration,
    next_second: Duration,
    took: Duration,
    pub begin_ns: u64,
    /// CLOCK_MONOTONIC nanoseconds, as `begin_ns`.
    end_ns: u64,
    /// This process.
    own: Option<u32>,
}

impl<'l> LiveRun<'l> {
    /// Attaches. The run begins with the first step.
    pub fn attach(live: &'l Live<'_>, stacks: Option<LiveStacks>) -> Result<(Self, Header)> {
        let Live { ready, settings, .. } = live;
        let until = until_end(live.exec, live.duration.is_some(), live.until);
        let irq_entry = stacks.as_ref().and_then(LiveStacks::irq_entry);
        let modules = Modules::of(&ready.system);
        let session = ready.attach(settings, &until, irq_entry.or(live.irq_entry))?;
        require_status(settings, session.can_read_status())?;
        let health = HealthCheck::of(modules, &session, ready.system.clone());
        let (host, kernel) = ready.system.host_and_kernel();
        let begin_ns = Some(wall_offset_ns().saturating_add_unsigned(monotonic_ns()));
        let who = settings.asks_who().then(|| session.origin().who());
        let header = Header { host, kernel, begin_ns, who, ..Header::default() };
        let pause = match settings.has_events() {
            true => drain_pause(session.rings().bytes),
            false => Duration::MAX,
        };
        let run = Self {
            events: session.events()?,
            event: NO_EVENT,
            is_held: false,
            facts: VecDeque::new(),
            in_flight: Vec::new(),
            stacks,
            health,
            lost: 0,
            program: None,
            turns: Turns::begin(&ready.stop, live.duration),
            state: State::Attached,
            drain_at: Duration::ZERO,
            pause,
            next_second: SECOND,
            took: Duration::ZERO,
            begin_ns: monotonic_ns(),
            end_ns: 0,
            own: own_tgid(),
            live,
            session,
        };
        Ok((run, header))
    }

    /// The last event.
    pub const fn event(&self) -> &Event {
        &self.event
    }

    pub fn advance(
        &mut self,
        names: &mut Names,
        shown: &mut Shown,
        wish: &mut Wish,
    ) -> Result<Ready> {
        loop {
            if let Some(fact) = self.facts.pop_front() {
                return Ok(Ready::Fact(fact));
            }
            if take(&mut self.is_held) || self.next_event(names, shown) {
                // what it needs comes first
                self.is_held = !self.facts.is_empty();
                if self.is_held {
                    continue;
                }
                return Ok(Ready::Event { is_selected: true, later: 0 });
            }
            shown.out_of_order = self.events.late();
            match self.state {
                State::Attached => self.begin(names)?,
                State::Passing { is_second } => {
                    wish.wake_at = None;
                    self.state = State::Ticked;
                    return Ok(Ready::Tick(Tick { now: self.turns.now(), is_second }));
                }
                State::Ticked if wish.stop => self.detach()?,
                State::Ticked => self.turn(names, wish)?,
                State::Detached => {
                    self.state = State::InFlight;
                    if self.live.settings.events().is_some() {
                        let end_ns = self.events.last_ns().max(self.end_ns);
                        self.in_flight = self.session.unfinished(end_ns)?;
                        self.in_flight.reverse();
                    }
                }
                State::InFlight => {
                    self.activity()?;
                    self.state = State::Ended;
                }
                State::Ended => return Ok(Ready::Ended),
            }
        }
    }

    /// Takes the next event that has come, and queues the facts that it needs.
    fn next_event(&mut self, names: &mut Names, shown: &mut Shown) -> bool {
        loop {
            match self.events.next_event(&mut self.event) {
                Some(Ok(())) => break,
                Some(Err(_)) => shown.undecodable += 1,
                None => match self.in_flight.pop() {
                    Some(event) => {
                        self.event = event;
                        break;
                    }
                    None => return false,
                },
            }
        }
        let event = &self.event;
        if let Some(stacks) = &mut self.stacks {
            for id in event.what.stacks() {
                let frames = stacks.learn(id, &self.session);
                self.facts.extend(frames.map(|frames| Fact::Stacks(vec![(id, frames)])));
            }
        }
        // a lookup of an unknown disk reads the names again
        names.of_command(event.what.id());
        if names.take_changed() {
            self.facts.push_back(Fact::Controllers(names.controllers().to_vec()));
        }
        shown.add(EventClass::of(&event.what));
        shown.add_own(&event.what, self.own);
        true
    }

    fn begin(&mut self, names: &mut Names) -> Result<()> {
        let Live { ready, settings, .. } = self.live;
        if !settings.counts() {
            names.take_changed();
            self.facts.push_back(Fact::Controllers(names.controllers().to_vec()));
            if settings.context() {
                self.facts.push_back(Fact::Machine(Box::new(ready.system.info(false))));
            }
            self.second(names)?;
        }
        self.program = Some(Program::start(self.live.exec, &ready.waker)?);
        self.turns = Turns::begin(&ready.stop, self.live.duration);
        self.state = State::Passing { is_second: true };
        Ok(())
    }

    /// At the start, and each second.
    fn second(&mut self, names: &mut Names) -> Result<()> {
        names.allow_rescan();
        self.facts.push_back(Fact::Clock(ClockOffset { wall_ns: wall_offset_ns() }));
        self.activity()
    }

    fn activity(&mut self) -> Result<()> {
        let activity = self.session.activity()?;
        self.facts.extend(activity.map(|activity| Fact::Activity(Box::new(activity))));
        Ok(())
    }

    /// Reports events that found no room in the ring since the last look.
    fn report_lost(&mut self) -> Result<()> {
        if self.live.settings.has_events() {
            let lost = TraceLedger::new(&self.session.counters()?, &Shown::default()).lost();
            if lost > self.lost {
                let (n, why) = (lost - self.lost, self.live.advice);
                eprint_note(&format!("{n} events lost: the ring was full, because {why}"));
            }
            self.lost = lost;
        }
        Ok(())
    }

    /// Waits, and fetches what has come.
    fn turn(&mut self, names: &mut Names, wish: &Wish) -> Result<()> {
        let is_second = self.turns.now() >= self.next_second;
        if is_second {
            self.report_lost()?;
            if self.health.is_gone(&mut self.session)? {
                return self.detach();
            }
            self.next_second = self.turns.now() + SECOND;
        }
        let next = self.next_second.min(self.drain_at);
        if !self.turns.wait(wish.wake_at.map_or(next, |at| at.min(next))) {
            return self.detach();
        }
        if is_second {
            self.second(names)?;
        }
        let more = self.events.fetch(false)?;
        self.drain_at = match more {
            true => Duration::ZERO,
            false => self.turns.elapsed().saturating_add(self.pause),
        };
        self.state = State::Passing { is_second };
        Ok(())
    }

    /// Ends the session. Commands continue while the hooks are detached: their events are still in the
    /// ring.
    fn detach(&mut self) -> Result<()> {
        self.took = self.turns.elapsed();
        self.health.final_check(&self.session)?;
        self.end_ns = monotonic_ns();
        self.session.end()?;
        self.report_lost()?;
        self.events.fetch(true)?;
        self.state = State::Detached;
        Ok(())
    }

    /// The end. The programs count the commands of some runs; others show them.
    pub fn end(&self, shown: &Shown) -> Result<(End, Option<u64>)> {
        let (session, scan) = (&self.session, Some(self.session.scan()?));
        let (took, covers) = (self.took, self.took);
        let (sums, ledger) = if self.live.settings.counts() {
            let sums = session.snapshot()?;
            let ledger = ledger(session, CountedBy::Programs(&sums), scan)?;
            (sums, ledger)
        } else {
            (Snapshot::default(), ledger(session, CountedBy::Events(shown), scan)?)
        };
        Ok((End { ledger, sums, took, covers }, None))
    }

    /// The verdict, after the report: whether the programs received events to the end, and how the
    /// program of `--exec` ended.
    pub fn check(self) -> Result<()> {
        self.health.verdict()?;
        self.program.map_or(Ok(()), Program::end)
    }
}

/// Checks a running session against the machine.
pub struct HealthCheck {
    system: System,
    watch: HookMonitor,
    /// Controllers without slots. Each is reported once.
    without_slots: Vec<u32>,
    /// Why the attached programs receive no more events, in one sentence.
    gone: Option<String>,
}

impl HealthCheck {
    /// Starts to watch. Call this when all hooks are attached. `modules`: those that were
    /// loaded before.
    pub fn of(modules: Modules, session: &Session, system: System) -> Self {
        Self {
            watch: HookMonitor::begin(modules, &system, session.plan()),
            system,
            without_slots: vec![],
            gone: None,
        }
    }

    /// Checks, before the hooks are detached, whether the session still receives events, and whether it may
    /// have seen nothing.
    ///
    /// # Errors
    /// If the counters can't be read.
    pub fn final_check(&mut self, session: &Session) -> Result<()> {
        let hits = session.counters()?.hits.iter().sum();
        let (watch, system) = (&self.watch, &self.system);
        // the run may have ended before the next rescan
        let gone = self.gone.take().or_else(|| watch.gone(system));
        self.gone = gone.or_else(|| watch.saw_no_events(system, hits));
        Ok(())
    }

    /// Returns an error if the programs stopped receiving events. Call this after the last
    /// report.
    ///
    /// # Errors
    /// If the programs stopped receiving events; one sentence.
    pub fn verdict(self) -> Result<()> {
        match self.gone {
            None => Ok(()),
            Some(why) => Err(Failure::error(Kind::Run, why)),
        }
    }

    /// Once a second: gives slots to new controllers, and tends the session. Returns true if the session
    /// receives no more events.
    ///
    /// # Errors
    /// If the kernel cannot be read.
    pub fn is_gone(&mut self, session: &mut Session) -> Result<bool> {
        check_fit(&session.counters()?)?;
        session.assign_new_groups()?;
        if let Some(remark) = session.tend_timers()? {
            eprint_note(&remark);
        }
        self.gone = self.watch.gone(&self.system);
        for controller in self.system.controllers() {
            let new = !self.without_slots.contains(&controller.instance);
            if !session.place(&controller)? && new {
                eprint_note(&without_slots(&controller.name(), session.plan().pairing));
                self.without_slots.push(controller.instance);
            }
        }
        Ok(self.gone.is_some())
    }
}

/// The message on a controller without slots.
fn without_slots(controller: &str, pairing: Pairing) -> String {
    match pairing {
        Pairing::Request => format!(
            "no slots left for {controller}, which appeared or got more queues during the run: its \
             commands are counted as untracked; start again to measure them"
        ),
        // also of controllers that were there: tags do not share slots
        Pairing::Tag => format!(
            "no slots left for {controller}: classic tracepoints need one for each tag, and its \
             commands are counted as untracked; `doctor` says what a better method lacks"
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::Command;
    use crate::cli::tests::parsed;
    use crate::error::{Kind, kind_of};
    use crate::run::args::common::SessionOptions;

    #[test]
    fn a_run_that_needs_the_status_is_refused_where_it_cannot_be_read() {
        let command = parsed("trace --errors --tee run.nvd").unwrap();
        let Command::Trace(args) = command else { panic!() };
        let settings = args.settings().unwrap();
        let refused = require_status(&settings, false).unwrap_err();
        assert_eq!(kind_of(&refused), Kind::Kernel);
        require_status(&settings, true).unwrap();
    }
}
