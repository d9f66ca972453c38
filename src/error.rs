// SPDX-License-Identifier: MIT OR Apache-2.0
//! Errors of sessions and of sources of data.
//!
//! The text of an error does not repeat its source. A program that prints an error also prints its
//! sources, separated by colons, as `{:#}` of the crate anyhow does. A cause in the middle of the
//! text is a field named `error`, and not a source.

use std::borrow::Cow;
use std::error::Error as StdError;
#[cfg(any(feature = "live", test))]
use std::io;
use std::path::PathBuf;
use std::result::Result as StdResult;

use crate::machine::process::TargetError;
use crate::machine::types::BtfError;
use crate::probe::plan::NoPlan;

/// An error of libbpf or of the operating system. The types of libbpf-rs are not part of this
/// interface, which is the same with and without the feature `live`.
pub type BoxError = Box<dyn StdError + Send + Sync>;

/// The result of a session or a source.
pub type Result<T, E = Error> = StdResult<T, E>;

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

/// An error of a session or a source.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The process may not trace.
    #[error(
        "tracing needs {}, which this process does not have: run it as root (sudo)",
        .missing.join(" and ")
    )]
    NotPermitted {
        /// Names of the missing capabilities.
        missing: Vec<&'static str>,
    },
    /// This kernel cannot do the run; in words for the user.
    #[error("{0}")]
    Unsupported(Cow<'static, str>),
    /// No method to attach works on this kernel.
    #[error("{}", no_method(.0))]
    NoMethod(NoPlan),
    /// No object has the programs of this run.
    #[error(
        "no build of the BPF programs can do this run{}",
        .lacks.map_or_else(String::new, |lacks| format!(": {lacks}"))
    )]
    NoBuild {
        /// What is missing for the builds with the settings of the run; `None` if there is none with them.
        lacks: Option<&'static str>,
    },
    /// The kernel refused the BPF object, and not because of one of its programs.
    #[error(
        "this kernel refuses the BPF object: {error}{}; -vv shows libbpf's log",
        in_brackets(.log.as_deref())
    )]
    ObjectRefused {
        /// The kernel says that permission is missing.
        denied: bool,
        /// libbpf's error.
        error: BoxError,
        /// The line of libbpf's log that has the reason.
        log: Option<String>,
    },
    /// The program was built without the feature `live`.
    #[error(
        "this nvme-deep was built without the feature `live`: it reads recordings (--from FILE), and cannot \
         trace this machine"
    )]
    NotLive,
    /// The BTF of the driver's modules cannot be used.
    #[error(transparent)]
    Btf(#[from] BtfError),
    /// The cgroup of the filter cannot be used.
    #[error(
        "`--cgroup {path}` {why}: give a directory of the unified hierarchy, as in \
         `--cgroup /sys/fs/cgroup/system.slice`"
    )]
    Cgroup {
        /// The directory in the filter.
        path: PathBuf,
        /// Why it cannot be used, as in `is not a cgroup of version 2`.
        why: String,
    },
    /// The kernel or libbpf refused an operation.
    #[error("failed to {operation}")]
    Failed {
        /// The operation, as in `count the CPUs`.
        operation: Cow<'static, str>,
        /// The error of libbpf or of the operating system.
        source: BoxError,
    },
    /// A call of libbpf or the operating system failed, which says what.
    #[error(transparent)]
    Bpf(BoxError),
    /// A target cannot be traced.
    #[error(transparent)]
    Target(#[from] TargetError),
    /// The BPF side, or a hidden option for tests, is not what this library expects.
    #[error("{0}")]
    Mismatch(Cow<'static, str>),
}

impl Error {
    /// The directory of a cgroup cannot be opened.
    #[cfg(any(feature = "live", test))]
    pub(crate) fn unreadable_cgroup(path: impl Into<PathBuf>, error: &io::Error) -> Self {
        Self::Cgroup { path: path.into(), why: format!("can't be opened ({error})") }
    }

    /// What the error is about.
    pub const fn kind(&self) -> Kind {
        match self {
            Self::NotPermitted { .. } | Self::ObjectRefused { denied: true, .. } => Kind::Privilege,
            Self::Unsupported(_)
            | Self::NoMethod(_)
            | Self::NoBuild { .. }
            | Self::ObjectRefused { .. } => Kind::Kernel,
            Self::Btf(_) => Kind::Usage,
            Self::Cgroup { .. } | Self::NotLive => Kind::Usage,
            Self::Target(error) => match error {
                TargetError::NotPermitted { .. } => Kind::Privilege,
                TargetError::NoNvmet => Kind::NoDevice,
                TargetError::NoProcess { .. }
                | TargetError::Unreadable { .. }
                | TargetError::NoTarget { .. }
                | TargetError::NoSymbol { .. }
                | TargetError::NoUsdt { .. }
                | TargetError::SeveralControllers { .. } => Kind::Usage,
                TargetError::Layout { .. } | TargetError::Ended { .. } => Kind::Run,
            },
            Self::Failed { .. } | Self::Bpf(_) | Self::Mismatch(_) => Kind::Run,
        }
    }
}

fn no_method(why: &NoPlan) -> String {
    let reasons = why.reasons();
    match why.only {
        Some(method) => format!(
            "--attach {} is not possible on this kernel: {reasons}; `nvme-deep doctor` shows the alternatives",
            method.name()
        ),
        None => format!(
            "no command can be followed on this kernel ({reasons}); `nvme-deep doctor` says \
             what would help"
        ),
    }
}

/// A text that may be missing, after other text.
pub(crate) fn in_brackets(text: Option<&str>) -> String {
    text.map_or_else(String::new, |text| format!(" ({text})"))
}

/// Converts the error of an operation, for `map_err`: `failed("count the CPUs")`.
#[cfg(any(feature = "live", test))]
pub(crate) fn failed<E: Into<BoxError>>(
    operation: impl Into<Cow<'static, str>>,
) -> impl FnOnce(E) -> Error {
    |error| Error::Failed { operation: operation.into(), source: error.into() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::ErrorKind;

    /// The text of an error and its sources.
    fn full(error: &Error) -> String {
        let mut text = error.to_string();
        let mut next = error.source();
        while let Some(source) = next {
            text += &format!(": {source}");
            next = source.source();
        }
        text
    }

    #[test]
    fn no_text_repeats_its_source() {
        let io = || io::Error::from(ErrorKind::NotFound);
        let error = failed("read map `cpus`")(io());
        assert_eq!(full(&error), "failed to read map `cpus`: entity not found");
        assert_eq!(full(&Error::Bpf(io().into())), "entity not found");
        let error = Error::unreadable_cgroup("/x", &io());
        assert!(full(&error).starts_with("`--cgroup /x` can't be opened (entity not found): give"));
        assert!(full(&error).ends_with("system.slice`"));
    }

    #[test]
    fn an_object_is_refused_for_lack_of_permission_or_by_the_kernel() {
        let refused = |denied, log: Option<&str>| Error::ObjectRefused {
            denied,
            error: "no".into(),
            log: log.map(Into::into),
        };
        assert_eq!(refused(true, None).kind(), Kind::Privilege);
        assert_eq!(refused(false, None).kind(), Kind::Kernel);
        let text = refused(false, Some("why")).to_string();
        assert!(text.contains("object: no (why); -vv"), "{text}");
        let text = refused(false, None).to_string();
        assert!(text.contains("object: no; -vv"), "{text}");
    }
}
