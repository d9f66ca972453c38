// SPDX-License-Identifier: MIT OR Apache-2.0
//! Exit codes, and the errors of the binary.
//!
//! Scripts must be able to distinguish "not permitted", "nothing to trace" and "failed".

use std::error::Error as StdError;
use std::io::{Error as IoError, ErrorKind, Write, stderr};
use std::panic::{set_hook, take_hook};
use std::process::ExitCode;

use crate::error::{Failure, Kind, kind_of};
use crate::run::eprint_note;
use anyhow::{Error, Result};
use serde_json::Error as JsonError;

/// The exit code of a kind of error. A run that finished, or was stopped, exits with 0.
pub fn code(kind: Kind) -> ExitCode {
    ExitCode::from(number(kind))
}

/// [`code`] as a number.
pub const fn number(kind: Kind) -> u8 {
    match kind {
        Kind::Run => 1,
        Kind::Usage => 2,
        Kind::Check => 3,
        Kind::Privilege => 4,
        Kind::Kernel => 5,
        Kind::NoDevice => 6,
    }
}

/// Ends with this code, without a message: the program of `--exec`, or `doctor`, has printed its own.
#[derive(Debug, thiserror::Error)]
#[error("the command ended with exit code {0}")]
pub struct Exited(pub u8);

/// The exit code of [`Exited`], if the error is one.
pub fn code_of_program(error: &Error) -> Option<ExitCode> {
    error.downcast_ref().map(|Exited(code)| ExitCode::from(*code))
}

/// The innermost I/O error in this one. Libraries wrap errors of the writer that they get.
pub fn cause<'e>(error: &'e (dyn StdError + 'static)) -> Option<&'e IoError> {
    let (mut found, mut next) = (None, Some(error));
    while let Some(error) = next {
        next = match error.downcast_ref::<IoError>() {
            Some(io) => {
                found = Some(io);
                io.get_ref().map(|inner| inner as &(dyn StdError + 'static))
            }
            None => error.source(),
        };
    }
    found
}

/// Whether the error is a closed pipe: the reader of stdout went away (`| head`). Not a failure.
pub fn is_closed_pipe(error: &Error) -> bool {
    error.chain().any(|e| {
        let kind = match e.downcast_ref::<JsonError>() {
            Some(json) => json.io_error_kind(),
            None => cause(e).map(IoError::kind),
        };
        kind == Some(ErrorKind::BrokenPipe)
    })
}

/// An error in how the program was called.
pub(crate) fn usage(message: impl Into<String>) -> Error {
    Failure::error(Kind::Usage, message)
}

/// A panic in any thread is our bug: says so before Rust prints where it happened.
pub(crate) fn own_up_to_panics() {
    let report = take_hook();
    set_hook(Box::new(move |panic| {
        let version = env!("CARGO_PKG_VERSION");
        let text = format!("a bug in nvme-deep {version}; please report the lines below");
        let _ = writeln!(stderr(), "nvme-deep: {text}");
        report(panic);
    }));
}

/// Reports how the program ends: the exit code, after a message if it failed.
pub(crate) fn end(result: Result<()>) -> ExitCode {
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(failed) if is_closed_pipe(&failed) => ExitCode::SUCCESS,
        Err(failed) => code_of_program(&failed).unwrap_or_else(|| {
            eprint_note(&format!("{failed:#}"));
            code(kind_of(&failed))
        }),
    }
}

#[cfg(test)]
pub mod tests {
    use super::*;

    /// The exit codes and their meanings. docs/trust.md has this table.
    pub const MEANINGS: [(u8, &str); 8] = [
        (0, "done, or stopped; also if the reader of a pipe went away"),
        (1, "failed while running"),
        (2, "wrong usage, or a file of the wrong kind"),
        (3, "`--check` found a change or a cause"),
        (4, "not permitted: not root, and CAP_BPF or CAP_PERFMON is missing"),
        (
            5,
            "the kernel lacks what is needed, or refuses it, with every method (or the one given by \
             `--attach`)",
        ),
        (6, "no NVMe, or not the controller or namespace that was asked for"),
        (
            130,
            "ended at once by a second signal (at least 0.3 s after the first), without a final report",
        ),
    ];

    #[test]
    fn trust_md_has_the_codes() {
        let page = include_str!("../../docs/trust.md");
        let table = page.split_once("| exit code | |\n|---|---|\n").unwrap().1;
        let rows = table.lines().take_while(|line| line.starts_with('|'));
        let own = MEANINGS.map(|(code, meaning)| format!("| {code} | {meaning} |"));
        assert_eq!(rows.collect::<Vec<_>>(), own);
        for (kind, number, meaning) in [
            (Kind::Run, 1, "failed while running"),
            (Kind::Usage, 2, "wrong usage"),
            (Kind::Check, 3, "`--check` found a change or a cause"),
            (Kind::Privilege, 4, "not permitted"),
            (Kind::Kernel, 5, "the kernel lacks"),
            (Kind::NoDevice, 6, "no NVMe"),
        ] {
            assert_eq!(code(kind), ExitCode::from(number), "{kind:?}");
            let row = MEANINGS.iter().find(|row| row.0 == number).unwrap();
            assert!(row.1.starts_with(meaning), "{row:?}");
        }
    }
}
