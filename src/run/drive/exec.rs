// SPDX-License-Identifier: MIT OR Apache-2.0
//! `--exec`: a program that runs while the tool traces. Its end is the end of the run.

use std::ffi::OsString;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, ExitStatus};
use std::sync::mpsc::Sender;
use std::thread;

use crate::error::{Failure, Kind};
use crate::model::text::printable;
use anyhow::{Context, Result};
use rustix::io::Errno;
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process, waitid};

use super::turns::Wake;
use crate::run::eprint_note;
use crate::run::exit::Exited;

/// The program of a run, if it has one.
#[derive(Debug)]
pub struct Program {
    name: String,
    child: Option<Child>,
}

/// How the run ends, for the first line: with the program, at a time that an option sets, or as
/// `otherwise` says.
pub fn until_end(program: &[OsString], has_end: bool, otherwise: &str) -> String {
    match program.first() {
        Some(name) => format!("; until {} ends", printable(name)),
        None if has_end => String::new(),
        None => otherwise.into(),
    }
}

impl Program {
    /// Starts the program, whose end sends [`Wake::Stop`]. `words` are its name and arguments; empty:
    /// no program.
    ///
    /// # Errors
    /// If it cannot be started; one sentence.
    pub fn start(words: &[OsString], waker: &Sender<Wake>) -> Result<Self> {
        let Some((first, arguments)) = words.split_first() else {
            let (name, child) = (String::new(), None);
            return Ok(Self { name, child });
        };
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
        let child = Some(child);
        Ok(Self { name, child })
    }

    /// Ends the program if it still runs: something else ended the run. Call this after the
    /// report.
    ///
    /// # Errors
    /// [`Exited`] if the program ended by itself with an exit code other than 0.
    pub fn end(mut self) -> Result<()> {
        let Some(mut child) = self.child.take() else {
            return Ok(());
        };
        let failed = || format!("failed to wait for {}", self.name);
        if let Some(status) = child.try_wait().with_context(failed)? {
            return match code(status) {
                0 => Ok(()),
                code => Err(Exited(code).into()),
            };
        }
        eprint_note(&format!("{} still runs: sending SIGTERM", self.name));
        terminate(&child);
        child.wait().with_context(failed)?;
        Ok(())
    }
}

impl Drop for Program {
    /// An error ended the run.
    fn drop(&mut self) {
        self.child.iter().for_each(terminate);
    }
}

/// Sends SIGTERM. The program may end at this moment.
fn terminate(child: &Child) {
    let _ = kill_process(Pid::from_child(child), Signal::TERM);
}

/// The exit code as a shell reports it: 128 and the number of the signal, if one ended the program.
fn code(status: ExitStatus) -> u8 {
    let code = status.code();
    let code = code.or_else(|| Some(128 + status.signal()?));
    code.and_then(|code| u8::try_from(code).ok()).unwrap_or(1)
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{Receiver, channel};
    use std::time::Duration;

    use super::*;
    use crate::error::kind_of;
    use crate::run::exit::code_of_program;

    fn started(words: &[&str]) -> (Program, Receiver<Wake>) {
        let words: Vec<OsString> = words.iter().map(Into::into).collect();
        let (waker, stop) = channel();
        (Program::start(&words, &waker).unwrap(), stop)
    }

    #[test]
    fn the_end_of_the_program_ends_the_run_with_its_exit_code() {
        for (script, want) in [("exit 0", 0), ("exit 7", 7), ("kill -9 $$", 137)] {
            let (program, stop) = started(&["sh", "-c", script]);
            assert_eq!(stop.recv(), Ok(Wake::Stop), "{script}");
            let code = match program.end() {
                Ok(()) => 0,
                Err(error) => {
                    assert!(code_of_program(&error).is_some());
                    error.downcast_ref::<Exited>().unwrap().0
                }
            };
            assert_eq!(code, want, "{script}");
        }
    }

    #[test]
    fn a_program_that_still_runs_is_ended_and_its_code_does_not_count() {
        let (program, stop) = started(&["sleep", "1000"]);
        assert!(stop.recv_timeout(Duration::from_millis(20)).is_err());
        assert!(program.end().is_ok());
        // without a program nothing ends the run
        let (program, stop) = started(&[]);
        assert!(stop.try_recv().is_err() && program.end().is_ok());
        let (waker, _stop) = channel();
        let error = Program::start(&["/no/such".into()], &waker).unwrap_err();
        assert_eq!(kind_of(&error), Kind::Usage);
        assert!(error.to_string().contains("`/no/such` can't be run"));
    }
}
