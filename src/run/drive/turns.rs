// SPDX-License-Identifier: MIT OR Apache-2.0
//! When a run waits, and what ends it: signals, messages, its duration.

use std::process::exit as exit_now;
use std::sync::OnceLock;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

/// A message to a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wake {
    /// End the run.
    Stop,
    /// Take the next turn now.
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
///
/// # Errors
/// If the kernel refuses.
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

/// Begins to listen for the signals that end a run.
///
/// # Errors
/// If the kernel refuses.
pub fn stop_receiver() -> Result<Receiver<Wake>> {
    let (sender, stop) = channel();
    stop_signals(sender)?;
    Ok(stop)
}

/// Time between two looks at a source that has nothing new.
pub const PAUSE: Duration = Duration::from_millis(20);

/// The turns of a run: it works, and waits.
pub struct Turns {
    stop: Receiver<Wake>,
    begin: Instant,
    /// When the run ends, unless a signal ends it first.
    end: Option<Duration>,
    /// When the current turn began.
    now: Duration,
}

impl Turns {
    /// Begins the first turn now.
    pub fn begin(stop: Receiver<Wake>, end: Option<Duration>) -> Self {
        Self { stop, begin: Instant::now(), end, now: Duration::ZERO }
    }

    /// Begins the first turn again.
    pub fn restart(&mut self, end: Option<Duration>) {
        (self.begin, self.end, self.now) = (Instant::now(), end, Duration::ZERO);
    }

    /// Time since the start of the run.
    pub fn elapsed(&self) -> Duration {
        self.begin.elapsed()
    }

    /// When the current turn began, since the start of the run.
    pub const fn now(&self) -> Duration {
        self.now
    }

    /// Waits until this time since the start of the run, or for a message. Returns false if the run is
    /// over: after a signal, or after a turn that began at its end.
    pub fn wait(&mut self, until: Duration) -> bool {
        let end = self.end.unwrap_or(Duration::MAX);
        if self.now >= end {
            return false;
        }
        let left = until.min(end).saturating_sub(self.elapsed());
        let woken = self.stop.recv_timeout(left);
        self.now = self.elapsed();
        matches!(woken, Err(RecvTimeoutError::Timeout) | Ok(Wake::Turn))
    }

    /// Waits for a moment, unless there is `more` to do. Returns false if the run is over.
    pub fn pause(&mut self, more: bool) -> bool {
        self.wait(if more { Duration::ZERO } else { self.elapsed() + PAUSE })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_the_run_comes_after_a_last_turn() {
        let (_sender, stop) = channel();
        let mut turns = Turns::begin(stop, Some(Duration::from_millis(5)));
        assert!(turns.wait(Duration::MAX) && turns.now() >= Duration::from_millis(5));
        assert!(!turns.wait(Duration::MAX));
    }

    #[test]
    fn a_message_brings_the_next_turn_forward_and_a_signal_ends_the_run() {
        let (sender, stop) = channel();
        let mut turns = Turns::begin(stop, None);
        sender.send(Wake::Turn).unwrap();
        assert!(turns.wait(Duration::MAX));
        assert!(turns.pause(true));
        sender.send(Wake::Stop).unwrap();
        assert!(!turns.wait(Duration::MAX));
    }
}
