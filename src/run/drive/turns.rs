// SPDX-License-Identifier: MIT OR Apache-2.0
//! When a run waits, and what ends it: signals, messages, its duration, the program of `--exec`.

use crate::error::{Failure, Kind};
use crate::model::text::printable;
use crate::run::eprint_note;
use crate::run::exit::Exited;
use anyhow::{Context, Result};
use rustix::io::Errno;
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process, waitid};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use std::ffi::OsString;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, ExitStatus, exit as exit_now};
use std::sync::OnceLock;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

/// A message to a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wake {
    /// End the run.
    Stop,
    /// Take the next turn now.
    Turn,
}

/// Called before the second signal ends the process.
pub static BEFORE_EXIT: OnceLock<fn()> = OnceLock::new();

/// `timeout` sends its signal twice, to the process and to its group. This is one request to stop.
const ONE_REQUEST: Duration = Duration::from_millis(300);

/// Sends [`Wake::Stop`] for the signals that end the run. A later second signal ends the process at once.
///
/// # Errors
/// If the kernel refuses.
pub fn stop_signals(sender: Sender<Wake>) -> Result<()> {
    let mut signals =
        Signals::new([SIGINT, SIGTERM, SIGHUP]).context("failed to listen for signals")?;
    thread::spawn(move || {
        let mut first = None;
        for _ in signals.forever() {
            if first.get_or_insert_with(Instant::now).elapsed() > ONE_REQUEST {
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

/// The program of a run (`--exec`). Its end is the end of the run; an error of the run ends the program.
#[derive(Debug)]
pub struct Program {
    name: String,
    child: Child,
}

impl Program {
    /// Starts the program, whose end sends [`Wake::Stop`]. `words` are its name and arguments; empty:
    /// no program.
    ///
    /// # Errors
    /// If it cannot be started; one sentence.
    pub fn start(words: &[OsString], waker: &Sender<Wake>) -> Result<Option<Self>> {
        let Some((first, arguments)) = words.split_first() else { return Ok(None) };
        let name = printable(first);
        let child = Command::new(first).args(arguments).spawn().map_err(|error| {
            let why = format!("`{name}` can't be run ({error}): give --exec another command");
            Failure::error(Kind::Usage, why)
        })?;
        let pid = Pid::from_child(&child);
        let waker = waker.clone();
        thread::spawn(move || {
            // NOWAIT: its number is not used again until `end` has seen its status
            let ended = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
            while waitid(WaitId::Pid(pid), ended).is_err_and(|e| e == Errno::INTR) {}
            let _ = waker.send(Wake::Stop);
        });
        Ok(Some(Self { name, child }))
    }

    /// Ends the program if it still runs: something else ended the run. Call this after the
    /// report.
    ///
    /// # Errors
    /// [`Exited`] if the program ended by itself with an exit code other than 0.
    pub fn end(mut self) -> Result<()> {
        match self.child.try_wait()?.map(code) {
            Some(0) => Ok(()),
            Some(code) => Err(Exited(code).into()),
            None => {
                eprint_note(&format!("{} still runs: sending SIGTERM", self.name));
                self.terminate();
                self.child.wait()?;
                Ok(())
            }
        }
    }

    /// Sends SIGTERM if it still runs. It may end at this moment.
    fn terminate(&mut self) {
        if let Ok(None) = self.child.try_wait() {
            let _ = kill_process(Pid::from_child(&self.child), Signal::TERM);
        }
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        self.terminate();
    }
}

/// The exit code as a shell reports it: 128 and the number of the signal, if one ended the program.
fn code(status: ExitStatus) -> u8 {
    let code = status.code().or_else(|| Some(128 + status.signal()?));
    code.and_then(|code| u8::try_from(code).ok()).unwrap_or(1)
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
