// SPDX-License-Identifier: MIT OR Apache-2.0
//! Exit codes, and the errors that carry one.
//!
//! A script must be able to tell "you may not" from "there is nothing here" from "it broke". The
//! table is in the README; change both together.

use std::error::Error as StdError;
use std::fmt;
use std::io::Error as IoError;
use std::io::ErrorKind;
use std::process::ExitCode;

use anyhow::Error;

/// What the exit code says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// It ran to its end, or was stopped.
    Ok = 0,
    /// It failed while running.
    Run = 1,
    /// The command line makes no sense.
    Usage = 2,
    /// Not allowed: not root, and the capabilities are not there.
    Privilege = 4,
    /// This kernel lacks what is needed: no BTF, no such hook.
    Kernel = 5,
    /// No NVMe at all, or not the controller or namespace that was asked for.
    NoDevice = 6,
}

impl From<Kind> for ExitCode {
    fn from(kind: Kind) -> Self {
        Self::from(kind as u8)
    }
}

/// One sentence for the user (what, why, what to do), and the code to end with.
#[derive(Debug)]
pub struct Failure {
    kind: Kind,
    message: String,
}

impl Failure {
    /// Makes an error that ends the program with `kind`.
    pub fn error(kind: Kind, message: impl Into<String>) -> Error {
        let message = message.into();
        Self { kind, message }.into()
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl StdError for Failure {}

/// The code for an error: of the first [`Failure`] in its chain, or [`Kind::Run`].
pub fn kind_of(error: &Error) -> Kind {
    error
        .downcast_ref::<Failure>()
        .map_or(Kind::Run, |f| f.kind)
}

/// Whether the reader of our stdout went away (`| head`). Not an error of ours.
pub fn is_closed_pipe(error: &Error) -> bool {
    error
        .chain()
        .filter_map(|e| e.downcast_ref::<IoError>())
        .any(|e| e.kind() == ErrorKind::BrokenPipe)
}

#[cfg(test)]
mod tests {
    use super::*;
    use anyhow::Context;

    #[test]
    fn context_does_not_hide_the_code() {
        let error = Err::<(), _>(Failure::error(Kind::NoDevice, "no nvme9")).context("starting");
        assert_eq!(kind_of(&error.unwrap_err()), Kind::NoDevice);
    }

    #[test]
    fn other_errors_are_run_errors_and_a_closed_pipe_is_found_in_the_chain() {
        let error = Error::from(IoError::from(ErrorKind::BrokenPipe)).context("writing");
        assert!(is_closed_pipe(&error));
        assert_eq!(kind_of(&error), Kind::Run);
    }
}
