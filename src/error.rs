// SPDX-License-Identifier: MIT OR Apache-2.0
//! Errors: one sentence for the user (what happened, why, what to do), and a kind that becomes the exit code.
//!
//! The text of an error does not repeat its cause. A program prints both, separated by a colon, as `{:#}`
//! of the crate anyhow does.

use std::error::Error as StdError;
#[cfg(feature = "live")]
use std::{fmt::Display, io, path::Path};

use anyhow::Error;

#[cfg(feature = "live")]
use crate::probe::plan::NoPlan;

/// What an error is about. A program derives its exit code from it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The run failed.
    Run,
    /// The user's settings cannot be used.
    Usage,
    /// A check, which the user asked for, found what it looks for.
    Check,
    /// Not permitted: not root, and the capabilities are missing.
    Privilege,
    /// The kernel lacks what is needed: no BTF, no such hook.
    Kernel,
    /// No NVMe, or not the requested controller or namespace.
    NoDevice,
}

/// The sentence, and its kind.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub struct Failure {
    kind: Kind,
    message: String,
}

impl Failure {
    /// Creates an error that ends the program with the exit code of `kind`.
    pub fn error(kind: Kind, message: impl Into<String>) -> Error {
        Self { kind, message: message.into() }.into()
    }
}

/// The kind of an error: of the first error in its chain that has one, or [`Kind::Run`].
#[must_use]
pub fn kind_of(error: &Error) -> Kind {
    let kind = |cause: &(dyn StdError + 'static)| cause.downcast_ref().map(|f: &Failure| f.kind);
    error.chain().find_map(kind).unwrap_or(Kind::Run)
}

/// This kernel, or its settings, cannot do the run.
#[cfg(feature = "live")]
pub(crate) fn unsupported(why: impl Into<String>) -> Error {
    Failure::error(Kind::Kernel, why)
}

/// The process lacks these capabilities.
pub(crate) fn not_permitted(missing: &[&str]) -> Error {
    let missing = missing.join(" and ");
    let text =
        format!("tracing needs {missing}, which this process does not have: run it as root (sudo)");
    Failure::error(Kind::Privilege, text)
}

/// No method to attach works on this kernel.
#[cfg(feature = "live")]
pub(crate) fn no_method(why: &NoPlan) -> Error {
    let reasons = why.reasons();
    unsupported(match why.only {
        Some(method) => format!(
            "--attach {} is not possible on this kernel: {reasons}; `nvme-deep doctor` shows the alternatives",
            method.name()
        ),
        None => format!(
            "no command can be followed on this kernel ({reasons}); `nvme-deep doctor` says \
             what would help"
        ),
    })
}

/// The directory of `--cgroup` cannot be used; `why` as in `is not a cgroup of version 2`.
#[cfg(feature = "live")]
pub(crate) fn no_cgroup(path: &Path, why: &str) -> Error {
    let text = format!(
        "`--cgroup {}` {why}: give a directory of the unified hierarchy, as in \
         `--cgroup /sys/fs/cgroup/system.slice`",
        path.display()
    );
    Failure::error(Kind::Usage, text)
}

#[cfg(feature = "live")]
pub(crate) fn unreadable_cgroup(path: &Path, error: &io::Error) -> Error {
    no_cgroup(path, &format!("can't be opened ({error})"))
}

/// A text that may be missing, after other text.
#[cfg(feature = "live")]
pub(crate) fn in_brackets(text: Option<&str>) -> String {
    text.map_or_else(String::new, |text| format!(" ({text})"))
}

/// Converts the error of an operation, for `map_err`: `failed("count the CPUs")`.
#[cfg(feature = "live")]
pub(crate) fn failed<E>(operation: impl Display) -> impl FnOnce(E) -> Error
where
    E: StdError + Send + Sync + 'static,
{
    move |error| Error::new(error).context(format!("failed to {operation}"))
}
