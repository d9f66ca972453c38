// SPDX-License-Identifier: MIT OR Apache-2.0
//! The run of a command: signals, the loop with its ticks, the checks once a second, the end.

use std::process::exit as exit_now;
use std::sync::OnceLock;
use std::sync::mpsc::Receiver;
use std::sync::mpsc::RecvTimeoutError;
use std::sync::mpsc::Sender;
use std::thread;
use std::time::Duration;
use std::time::Instant;

use anyhow::Context;
use anyhow::Result;
use nvme_deep::error::Kind;
use nvme_deep::machine::System;
use nvme_deep::machine::clock::monotonic_ns;
use nvme_deep::machine::watch::Watch;
use nvme_deep::model::counters::Count;
use nvme_deep::model::counters::Counters;
use nvme_deep::model::ledger::Ledger;
use nvme_deep::model::ledger::Shown;
use nvme_deep::model::ledger::TraceLedger;
use nvme_deep::model::run::Scan;
use nvme_deep::session::Session;
use nvme_deep::source::EventStream;
use nvme_deep::source::REORDER_NS;
use nvme_deep::source::Read;
use nvme_deep::source::Source;
use signal_hook::consts::SIGHUP;
use signal_hook::consts::SIGINT;
use signal_hook::consts::SIGTERM;
use signal_hook::iterator::Signals;

use super::privileges;
use super::say;
use crate::exit::Failure;

/// Interval between checks of the machine.
const RESCAN: Duration = Duration::from_secs(1);

/// Interval between drains of the ring. At a million commands per second, about 4 MB of events
/// arrive in this time. A smaller ring is drained more often.
const DRAIN: Duration = Duration::from_millis(20);
const ROOM_FOR_DRAIN: u32 = 4 << 20;
const SHORTEST_DRAIN: Duration = Duration::from_millis(1);

/// Time between two drains of a ring of this size.
pub fn drain_pause(ring_bytes: u32) -> Duration {
    let share = f64::from(ring_bytes) / f64::from(ROOM_FOR_DRAIN);
    DRAIN.mul_f64(share.min(1.0)).max(SHORTEST_DRAIN)
}

/// Passes on the new events except the latest, because earlier ones may still arrive. Returns true if
/// there may be more.
///
/// # Errors
/// If the events cannot be read.
pub fn take_in(events: &mut dyn EventStream, to: &mut dyn FnMut(Read<'_>)) -> Result<bool> {
    let until_ns = monotonic_ns().saturating_sub(REORDER_NS);
    let more = events.fetch()?;
    events.release(until_ns, to);
    Ok(more)
}

/// Passes on all events that are left, after the end of a run.
///
/// # Errors
/// If the events cannot be read.
pub fn take_rest(events: &mut dyn EventStream, to: &mut dyn FnMut(Read<'_>)) -> Result<()> {
    while events.fetch()? {}
    events.release(u64::MAX, to);
    Ok(())
}

/// A message to the loop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wake {
    /// End the run.
    Stop,
    /// Call the command again.
    Turn,
}

/// Called before the second signal ends the process.
static BEFORE_EXIT: OnceLock<fn()> = OnceLock::new();

/// Sets what is called before the second signal ends the process. Only the first call counts.
pub fn before_exit(restore: fn()) {
    // the same function, or the process has one already
    let _ = BEFORE_EXIT.set(restore);
}

/// Sends [`Wake::Stop`] for the signals that end the run. The second signal ends the process at
/// once.
pub fn stop_signals(sender: Sender<Wake>) -> Result<()> {
    let mut signals =
        Signals::new([SIGINT, SIGTERM, SIGHUP]).context("failed to listen for signals")?;
    thread::spawn(move || {
        privileges::drop_all();
        for (n, _) in signals.forever().enumerate() {
            if n > 0 {
                if let Some(restore) = BEFORE_EXIT.get() {
                    restore();
                }
                exit_now(130);
            }
            let _ = sender.send(Wake::Stop);
        }
    });
    Ok(())
}

/// When the loop calls the command again.
pub enum Turn {
    /// At this time since the start of the run, or earlier.
    Until(Duration),
    /// Never: the command is done.
    Done,
}

/// The time of a call.
#[derive(Clone, Copy, Debug)]
pub struct Tick {
    /// Since the start of the run.
    pub now: Duration,
    /// The machine has been checked since the last call.
    pub rescanned: bool,
}

/// Work that the loop does once a second.
pub trait Upkeep<S> {
    /// Checks the machine. Returns true if the source receives no more events.
    ///
    /// # Errors
    /// Any error ends the run.
    fn rescan(&mut self, source: &mut S) -> Result<bool>;
}

/// A run in progress.
pub struct Run<'a> {
    stop: &'a Receiver<Wake>,
    begin: Instant,
    /// When the run ends, unless a signal ends it first.
    end: Option<Duration>,
}

impl<'a> Run<'a> {
    /// Starts the run now.
    pub fn begin(stop: &'a Receiver<Wake>, end: Option<Duration>) -> Self {
        Self {
            stop,
            begin: Instant::now(),
            end,
        }
    }

    /// Time since the start.
    pub fn elapsed(&self) -> Duration {
        self.begin.elapsed()
    }

    /// Calls `turn` at the times that it returns. A signal, the end of the run, the command itself
    /// or the loss of the source ends the loop.
    ///
    /// # Errors
    /// Errors of `turn` and of the upkeep.
    pub fn turns<S>(
        &self,
        source: &mut S,
        upkeep: &mut dyn Upkeep<S>,
        turn: &mut dyn FnMut(&mut S, Tick) -> Result<Turn>,
    ) -> Result<()> {
        let mut next_scan = RESCAN;
        let mut rescanned = false;
        loop {
            let now = self.elapsed();
            let Turn::Until(next) = turn(source, Tick { now, rescanned })? else {
                return Ok(());
            };
            if self.end.is_some_and(|end| now >= end) {
                return Ok(());
            }
            rescanned = now >= next_scan;
            if rescanned {
                if upkeep.rescan(source)? {
                    return Ok(());
                }
                next_scan = now + RESCAN;
            }
            let until = self.end.unwrap_or(Duration::MAX).min(next).min(next_scan);
            match self.stop.recv_timeout(until.saturating_sub(self.elapsed())) {
                Err(RecvTimeoutError::Timeout) | Ok(Wake::Turn) => {}
                _ => return Ok(()),
            }
        }
    }
}

/// Fails if the types of the BTF file do not match the live queues.
///
/// # Errors
/// If they do not match.
pub fn check_fit(counters: &Counters) -> Result<()> {
    match counters.get(Count::Misfit) {
        0 => Ok(()),
        n => Err(Failure::error(
            Kind::Kernel,
            format!(
                "the types in use do not fit this kernel: {n} commands led to no controller that \
                 owns their queue; nothing was measured. Make a file from this very kernel (see \
                 btf/README.md), or use --attach tracepoint"
            ),
        )),
    }
}

/// Builds the ledger of a trace session. `scan`: the slots, after the end of the session.
///
/// # Errors
/// If the source can't be read, or the types do not fit the kernel.
pub fn ledger_of_trace(source: &dyn Source, shown: &Shown, scan: Option<Scan>) -> Result<Ledger> {
    let counters = source.counters()?;
    check_fit(&counters)?;
    let ledger = Ledger::new(
        source.plan(),
        &counters,
        &source.misses(),
        counters.get(Count::Finished),
        scan,
    );
    Ok(ledger
        .with_trace(&counters, shown)
        .with_cost(source.plan(), source.run_times().as_ref()))
}

/// Reports the commands of this process in a trace, if there are any.
pub fn say_own_share(ledger: &Ledger) {
    let share = ledger.trace.as_ref().and_then(TraceLedger::own_share);
    share.into_iter().for_each(|text| say(&text));
}

/// Checks a running session against the machine.
pub struct Watchdog {
    system: System,
    watch: Watch,
    /// Controllers without slots. Each is reported once.
    without_slots: Vec<u32>,
    /// Why the attached programs receive no more events, in one sentence.
    gone: Option<String>,
}

impl Watchdog {
    /// Starts to watch. To be called when all hooks are attached.
    pub fn of(session: &Session, system: System) -> Self {
        Self {
            watch: Watch::begin(&system, session.plan()),
            system,
            without_slots: vec![],
            gone: None,
        }
    }

    /// Checks, before the hooks are detached, whether the session may have seen nothing.
    ///
    /// # Errors
    /// If the counters can't be read.
    pub fn last_look(&mut self, session: &Session) -> Result<()> {
        let hits = session.counters()?.hits.iter().sum();
        let deaf = self.watch.deaf(&self.system, hits);
        self.gone = self.gone.take().or(deaf);
        Ok(())
    }

    /// Returns an error if the programs stopped receiving events. To be called after the last
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
}

impl Upkeep<Session> for Watchdog {
    /// Also gives slots to new controllers.
    fn rescan(&mut self, session: &mut Session) -> Result<bool> {
        check_fit(&session.counters()?)?;
        self.gone = self.watch.gone(&self.system);
        for controller in self.system.controllers() {
            let new = !self.without_slots.contains(&controller.instance);
            if !session.place(&controller)? && new {
                say(&format!(
                    "no slots left for {}, which appeared or got more queues during the run: its \
                     commands are counted as untracked; start again to measure them",
                    controller.name()
                ));
                self.without_slots.push(controller.instance);
            }
        }
        Ok(self.gone.is_some())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use anyhow::bail;
    use std::sync::mpsc::channel;

    /// Counts its calls (`.0`). Loses the source at call number `.1`.
    struct Counted(u32, u32);

    impl Upkeep<u32> for Counted {
        fn rescan(&mut self, _: &mut u32) -> Result<bool> {
            self.0 += 1;
            Ok(self.0 == self.1)
        }
    }

    #[test]
    fn a_run_ends_when_the_command_is_done() {
        let (_sender, stop) = channel();
        let run = Run::begin(&stop, None);
        let mut turns = 0;
        run.turns(&mut turns, &mut Counted(0, 9), &mut |turns, tick| {
            *turns += 1;
            assert!(!tick.rescanned);
            Ok(if *turns == 3 {
                Turn::Done
            } else {
                Turn::Until(tick.now)
            })
        })
        .unwrap();
        assert_eq!(turns, 3);
    }

    #[test]
    fn the_end_of_the_run_comes_after_a_last_turn() {
        let (_sender, stop) = channel();
        let run = Run::begin(&stop, Some(Duration::from_millis(5)));
        let mut last = 0;
        let turns = &mut |last: &mut u32, tick: Tick| {
            *last = u32::try_from(tick.now.as_millis())?;
            Ok(Turn::Until(Duration::MAX))
        };
        run.turns(&mut last, &mut Counted(0, 9), turns).unwrap();
        assert!(last >= 5, "{last}");
    }

    #[test]
    fn a_message_brings_the_next_turn_forward() {
        let (sender, stop) = channel();
        let run = Run::begin(&stop, None);
        let mut turns = 0;
        run.turns(&mut turns, &mut Counted(0, u32::MAX), &mut |turns, _| {
            *turns += 1;
            sender.send(Wake::Turn)?;
            Ok(if *turns == 9 {
                Turn::Done
            } else {
                Turn::Until(Duration::MAX)
            })
        })
        .unwrap();
        assert_eq!(turns, 9);
    }

    #[test]
    fn a_signal_ends_the_run_and_so_does_an_error() {
        let (sender, stop) = channel();
        sender.send(Wake::Stop).unwrap();
        let run = Run::begin(&stop, None);
        let forever = &mut |_: &mut u32, _| Ok(Turn::Until(Duration::MAX));
        run.turns(&mut 0, &mut Counted(0, 9), forever).unwrap();
        let failing = &mut |_: &mut u32, _| bail!("no");
        assert!(run.turns(&mut 0, &mut Counted(0, 9), failing).is_err());
    }
}
