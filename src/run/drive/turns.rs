// SPDX-License-Identifier: MIT OR Apache-2.0
//! The loop of a run: signals, the times of the next turns, the duration, work once a second.

use std::process::exit as exit_now;
use std::sync::OnceLock;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

/// Interval between checks of the machine.
const RESCAN: Duration = Duration::from_secs(1);

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

/// When a command is called again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn {
    /// After the next items.
    Items,
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

/// A run that has nothing to check.
pub struct NoUpkeep;

impl<S> Upkeep<S> for NoUpkeep {
    fn rescan(&mut self, _: &mut S) -> Result<bool> {
        Ok(false)
    }
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
        Self { stop, begin: Instant::now(), end }
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
            let next = match turn(source, Tick { now, rescanned })? {
                Turn::Until(next) => next,
                Turn::Items => Duration::MAX,
                Turn::Done => return Ok(()),
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

/// Time between two readings of a source that has no events yet.
const PAUSE: Duration = Duration::from_millis(20);

/// There may be more to read.
pub const AT_ONCE: Turn = Turn::Until(Duration::ZERO);

/// Begins to listen for the signals that end a run.
///
/// # Errors
/// If the kernel refuses.
pub fn stop_receiver() -> Result<Receiver<Wake>> {
    let (sender, stop) = channel();
    stop_signals(sender)?;
    Ok(stop)
}

/// Takes turns until a signal, for this time, or until one is the last. [`Turn::Items`]: after a pause.
///
/// # Errors
/// Those of the turns.
pub fn until_stop(
    stop: &Receiver<Wake>,
    duration: Option<Duration>,
    turn: &mut dyn FnMut(Tick) -> Result<Turn>,
) -> Result<()> {
    let run = Run::begin(stop, duration);
    run.turns(&mut (), &mut NoUpkeep, &mut |(), tick| match turn(tick)? {
        Turn::Items => Ok(Turn::Until(run.elapsed() + PAUSE)),
        other => Ok(other),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use anyhow::bail;

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
            Ok(if *turns == 3 { Turn::Done } else { Turn::Until(tick.now) })
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
            Ok(if *turns == 9 { Turn::Done } else { Turn::Until(Duration::MAX) })
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
