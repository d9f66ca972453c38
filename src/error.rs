// SPDX-License-Identifier: MIT OR Apache-2.0
//! Exit codes, and the errors that carry them.
//!
//! Scripts must be able to distinguish "not permitted", "nothing to trace" and "failed". The README
//! has the table of codes; change both together.

use std::error::Error as StdError;
use std::fmt;
use std::io::Error as IoError;
use std::io::ErrorKind;
use std::process::ExitCode;

use anyhow::Error;

/// The meaning of an exit code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The run finished, or was stopped.
    Ok = 0,
    /// The run failed.
    Run = 1,
    /// The command line is wrong.
    Usage = 2,
    /// Not permitted: not root, and the capabilities are missing.
    Privilege = 4,
    /// The kernel lacks what is needed: no BTF, no such hook.
    Kernel = 5,
    /// No NVMe, or not the requested controller or namespace.
    NoDevice = 6,
}

impl From<Kind> for ExitCode {
    fn from(kind: Kind) -> Self {
        Self::from(kind as u8)
    }
}

/// An error message of one sentence (what happened, why, what to do), and the exit code.
#[derive(Debug)]
pub struct Failure {
    kind: Kind,
    message: String,
}

impl Failure {
    /// Creates an error that ends the program with `kind`.
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

/// Returns the exit code of an error: that of the first [`Failure`] in its chain, or [`Kind::Run`].
pub fn kind_of(error: &Error) -> Kind {
    error
        .downcast_ref::<Failure>()
        .map_or(Kind::Run, |f| f.kind)
}

/// Whether the error is a closed pipe: the reader of stdout went away (`| head`). Not a failure.
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
