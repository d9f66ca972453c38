// SPDX-License-Identifier: MIT OR Apache-2.0
//! A run of this machine: attached, read until its end, detached, and read to the last event. Once a second
//! it checks whether the programs still receive events.

use super::names::Names;
use super::turns::Program;
use super::{End, Run, Source, Step};
use crate::abi::NO_EVENT;
use crate::error::{Failure, Kind};
use crate::machine::clock::{monotonic_ns, wall_offset_ns};
use crate::machine::own_tgid;
use crate::machine::watch::{HookMonitor, Modules};
use crate::model::counters::{Count, Counters};
use crate::model::event::Event;
use crate::model::ledger::{EventClass, Ledger, Shown, TraceLedger};
use crate::model::machine::Scan;
use crate::model::snapshot::Snapshot;
use crate::model::text::printable;
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
use std::vec::IntoIter;

/// Interval between drains of the ring. At a million commands per second, about 4 MB of events
/// arrive in this time. A smaller ring is drained more often.
const DRAIN: Duration = Duration::from_millis(20);
const ROOM_FOR_DRAIN: u32 = 4 << 20;
/// Interval between checks of the machine.
const SECOND: Duration = Duration::from_secs(1);

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
            advice: SUMS_ARE_SLOW,
            stacks: None,
            irq_entry: None,
        }
    }

    /// Attaches, and calls `read`, which reads the run to its end and writes the result. Nothing stays
    /// attached.
    ///
    /// # Errors
    /// If `read` fails, the programs no longer receive events, or the program of `--exec` fails.
    pub fn run<T>(self, read: impl FnOnce(&mut Run<'_>) -> Result<T>) -> Result<T> {
        let mut run = LiveRun::attach(self)?;
        let done = read(&mut run)?;
        if let Source::Live(live) = run.source {
            live.check()?;
        }
        Ok(done)
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
    Ended,
}

/// A run in progress.
pub(super) struct LiveRun<'l> {
    live: Live<'l>,
    pub session: Session,
    events: LiveEvents,
    /// The last one.
    event: Event,
    /// It is passed on after the facts that it needs.
    is_held: bool,
    facts: VecDeque<Fact>,
    /// Commands without an end, after the last event.
    in_flight: IntoIter<Event>,
    watch: HookMonitor,
    /// Why the attached programs receive no more events, in one sentence.
    gone: Option<String>,
    /// Controllers without slots. Each is reported once.
    without_slots: Vec<u32>,
    /// Events that found no room in the ring, as far as that was reported.
    lost: u64,
    program: Option<Program>,
    state: State,
    /// The next fetch, if nothing happens before.
    drain_at: Duration,
    pause: Duration,
    next_second: Duration,
    took: Duration,
    /// This process.
    own: Option<u32>,
}

impl<'l> LiveRun<'l> {
    /// Attaches. The run begins with the first step.
    fn attach(live: Live<'l>) -> Result<Run<'l>> {
        let Live { ready, settings, .. } = &live;
        let until = match live.exec.first() {
            Some(program) => format!("; until {} ends", printable(program)),
            None if live.duration.is_some() => String::new(),
            None => "; Ctrl-C ends it".into(),
        };
        let irq_entry = live.stacks.as_ref().and_then(LiveStacks::irq_entry);
        let modules = Modules::of(&ready.system);
        let session = ready.attach(settings, &until, irq_entry.or(live.irq_entry))?;
        require_status(settings, session.can_read_status())?;
        let watch = HookMonitor::begin(modules, &ready.system, session.plan());
        let (host, kernel) = ready.system.host_and_kernel();
        let begin_ns = Some(wall_offset_ns().saturating_add_unsigned(monotonic_ns()));
        let who = settings.asks_who().then(|| session.origin().who());
        let header = Header { host, kernel, begin_ns, who, ..Header::default() };
        let names = Names::of(ready.system.clone());
        let share = f64::from(session.rings().bytes) / f64::from(ROOM_FOR_DRAIN);
        let pause = match settings.has_events() {
            true => DRAIN.mul_f64(share.clamp(0.05, 1.0)),
            false => Duration::MAX,
        };
        let run = Self {
            events: session.events()?,
            event: NO_EVENT,
            is_held: false,
            facts: VecDeque::new(),
            in_flight: IntoIter::default(),
            watch,
            gone: None,
            without_slots: Vec::new(),
            lost: 0,
            program: None,
            state: State::Attached,
            drain_at: Duration::ZERO,
            pause,
            next_second: SECOND,
            took: Duration::ZERO,
            own: own_tgid(),
            live,
            session,
        };
        Ok(Run::new(Source::Live(Box::new(run)), names, monotonic_ns(), header))
    }

    /// The next step. At a tick the command may have asked for the next one (`wake_at`), or for the end.
    pub fn advance<'s>(
        &'s mut self,
        names: &'s mut Names,
        shown: &mut Shown,
        wake_at: &mut Option<Duration>,
        is_stopped: bool,
    ) -> Result<Step<'s>> {
        loop {
            if let Some(fact) = self.facts.pop_front() {
                return Ok(Step::Fact(fact));
            }
            if take(&mut self.is_held) {
                let event = &self.event;
                return Ok(Step::Event { event, is_selected: true, names, later: 0 });
            }
            // what it needs comes first
            self.is_held = self.next_event(names, shown);
            if self.is_held {
                continue;
            }
            shown.out_of_order = self.events.late();
            match self.state {
                State::Attached => self.begin(names)?,
                State::Passing { is_second } => {
                    self.state = State::Ticked;
                    return Ok(Step::Tick { now: self.live.ready.turns.now(), is_second });
                }
                State::Ticked if is_stopped => self.detach()?,
                State::Ticked => self.turn(names, wake_at.take())?,
                State::Detached => {
                    self.activity()?;
                    self.state = State::Ended;
                }
                State::Ended => return Ok(Step::Ended),
            }
        }
    }

    /// Takes the next event that has come, and queues the facts that it needs.
    fn next_event(&mut self, names: &mut Names, shown: &mut Shown) -> bool {
        loop {
            match self.events.next_event(&mut self.event) {
                Some(Ok(())) => break,
                Some(Err(_)) => shown.undecodable += 1,
                None => match self.in_flight.next() {
                    Some(event) => break self.event = event,
                    None => return false,
                },
            }
        }
        let event = &self.event;
        if let Some(stacks) = &mut self.live.stacks {
            for id in event.what.stacks() {
                let frames = stacks.learn(id, &self.session);
                self.facts.extend(frames.map(|frames| Fact::Stacks(vec![(id, frames)])));
            }
        }
        // a lookup of an unknown disk reads the names again
        names.of_command(event.what.id());
        if take(&mut names.changed) {
            self.facts.push_back(Fact::Controllers(names.controllers.clone()));
        }
        shown.add(EventClass::of(&event.what));
        shown.add_own(&event.what, self.own);
        true
    }

    fn begin(&mut self, names: &mut Names) -> Result<()> {
        let (settings, system) = (self.live.settings, &self.live.ready.system);
        if !settings.counts() {
            take(&mut names.changed);
            self.facts.push_back(Fact::Controllers(names.controllers.clone()));
            if settings.context() {
                self.facts.push_back(Fact::Machine(Box::new(system.info(false))));
            }
            self.second(names)?;
        }
        self.program = Program::start(self.live.exec, &self.live.ready.waker)?;
        self.live.ready.turns.restart(self.live.duration);
        self.state = State::Passing { is_second: true };
        Ok(())
    }

    /// At the start, and each second.
    fn second(&mut self, names: &mut Names) -> Result<()> {
        names.may_rescan = true;
        self.facts.push_back(Fact::Clock(ClockOffset { wall_ns: wall_offset_ns() }));
        self.activity()
    }

    fn activity(&mut self) -> Result<()> {
        let activity = self.session.activity()?;
        self.facts.extend(activity.map(|activity| Fact::Activity(Box::new(activity))));
        Ok(())
    }

    /// Reports events that found no room in the ring since the last look.
    fn report_lost(&mut self, counters: &Counters) {
        let lost = TraceLedger::new(counters, &Shown::default()).lost();
        if lost > self.lost {
            let (n, why) = (lost - self.lost, self.live.advice);
            eprint_note(&format!("{n} events lost: the ring was full, because {why}"));
        }
        self.lost = lost;
    }

    /// Once a second: checks the session against the machine, gives slots to new controllers, and tends the
    /// timers.
    fn check_machine(&mut self) -> Result<()> {
        let (session, system) = (&mut self.session, &self.live.ready.system);
        let counters = session.counters()?;
        check_fit(&counters)?;
        session.assign_new_groups()?;
        session.tend_timers()?.iter().for_each(|remark| eprint_note(remark));
        for controller in system.controllers() {
            let new = !self.without_slots.contains(&controller.instance);
            if !session.place(&controller)? && new {
                eprint_note(&format!(
                    "no slots left for {}: its commands count as untracked. Start again, or see `doctor`",
                    controller.name()
                ));
                self.without_slots.push(controller.instance);
            }
        }
        self.gone = self.watch.gone(system);
        self.report_lost(&counters);
        Ok(())
    }

    /// Waits, and fetches what has come.
    fn turn(&mut self, names: &mut Names, wake_at: Option<Duration>) -> Result<()> {
        let next = self.next_second.min(self.drain_at).min(wake_at.unwrap_or(Duration::MAX));
        let turns = &mut self.live.ready.turns;
        if !turns.wait(next) {
            return self.detach();
        }
        let now = turns.now();
        let is_second = now >= self.next_second;
        if is_second {
            self.next_second = now + SECOND;
            self.check_machine()?;
            if self.gone.is_some() {
                return self.detach();
            }
            self.second(names)?;
        }
        let more = self.events.fetch(false)?;
        self.drain_at = match more {
            true => Duration::ZERO,
            false => self.live.ready.turns.elapsed().saturating_add(self.pause),
        };
        self.state = State::Passing { is_second };
        Ok(())
    }

    /// Ends the session. Commands continue while the hooks are detached: their events are still in the
    /// ring.
    fn detach(&mut self) -> Result<()> {
        self.took = self.live.ready.turns.elapsed();
        let hits = self.session.counters()?.hits.iter().sum();
        let (watch, system) = (&self.watch, &self.live.ready.system);
        // the run may have ended before the next check
        let gone = self.gone.take().or_else(|| watch.gone(system));
        self.gone = gone.or_else(|| watch.saw_no_events(system, hits));
        let end_ns = monotonic_ns();
        self.session.end()?;
        self.report_lost(&self.session.counters()?);
        self.events.fetch(true)?;
        if self.live.settings.events().is_some() {
            let end_ns = self.events.last_ns().max(end_ns);
            self.in_flight = self.session.unfinished(end_ns)?.into_iter();
        }
        self.state = State::Detached;
        Ok(())
    }

    /// The end. The programs count the commands of some runs; others show them.
    pub fn end(&self, shown: &Shown) -> Result<End> {
        let (session, scan) = (&self.session, Some(self.session.scan()?));
        let ledger = match self.live.settings.counts() {
            true => ledger_of_rows(session, &session.snapshot()?, scan)?,
            false => ledger_of_events(session, shown, scan)?,
        };
        let own = ledger.trace.as_ref().and_then(TraceLedger::own_share);
        own.into_iter().for_each(|own| eprint_note(&own));
        Ok(End { ledger, took: self.took, covers: self.took })
    }

    /// After the report: an error if the programs stopped receiving events, or of the program of `--exec`.
    fn check(self) -> Result<()> {
        if let Some(why) = self.gone {
            return Err(Failure::error(Kind::Run, why));
        }
        self.program.map_or(Ok(()), Program::end)
    }
}

/// Fails if the types of the BTF file do not match the live queues.
fn check_fit(counters: &Counters) -> Result<()> {
    let n = counters.get(Count::Misfit);
    if n == 0 {
        return Ok(());
    }
    let text = format!(
        "the types in use do not fit this kernel: {n} commands led to no controller that owns their \
         queue; nothing was measured. Make a file from this very kernel (see btf/README.md), or use \
         --attach tracepoint"
    );
    Err(Failure::error(Kind::Kernel, text))
}

/// The ledger of a session whose programs count the commands, in rows. `scan`: the slots, after its end.
///
/// # Errors
/// If the types do not fit the kernel.
pub fn ledger_of_rows(session: &Session, now: &Snapshot, scan: Option<Scan>) -> Result<Ledger> {
    let (plan, counters) = (session.plan(), &now.counters);
    check_fit(counters)?;
    let ledger = Ledger::new(plan, counters, &now.misses, now.commands(), scan);
    Ok(ledger.with_unmeasured(now.unmeasured()).with_cost(plan, session.run_times().as_ref()))
}

/// The ledger of a session whose events were shown. `scan`: the slots, after its end.
///
/// # Errors
/// As [`ledger_of_rows`]; if the counters cannot be read.
pub fn ledger_of_events(session: &Session, shown: &Shown, scan: Option<Scan>) -> Result<Ledger> {
    let (plan, counters) = (session.plan(), session.counters()?);
    check_fit(&counters)?;
    let finished = counters.get(Count::Finished);
    let ledger = Ledger::new(plan, &counters, &session.misses(), finished, scan);
    Ok(ledger.with_trace(&counters, shown).with_cost(plan, session.run_times().as_ref()))
}
