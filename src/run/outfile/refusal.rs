// SPDX-License-Identifier: MIT OR Apache-2.0
//! Why an output file is refused, in one sentence each.

use std::io;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use crate::error::Kind;
use crate::model::text::printable;
use anyhow::Error;

use crate::run::exit::Failure;

/// Why an output file is refused.
#[derive(Debug, thiserror::Error)]
pub enum Refusal {
    /// It exists, and is not to be replaced.
    #[error("{} exists: give another file, or --force to replace it", printable(.0))]
    Exists(PathBuf),
    /// It is a directory.
    #[error("{} is a directory: give the name of a file in it", printable(.0))]
    Directory(PathBuf),
    /// It is a device or a socket.
    #[error("{} is a {}, which nvme-deep does not write to: give a file", printable(.0), .1)]
    Device(PathBuf, &'static str),
    /// A file that another user has put there.
    #[error(
        "{} can't be written: {} is of another user, in a directory that others may write to. Give a \
         file in another directory",
        printable(.0), printable(.1)
    )]
    Planted(PathBuf, PathBuf),
    /// It is read while it would be written.
    #[error("{} is a recording to read: give another file", printable(.0))]
    Input(PathBuf),
    /// Another process writes it.
    #[error("another process writes {}: give another file", printable(.0))]
    Locked(PathBuf),
    /// Something else has the name of the incomplete file.
    #[error(
        "{} is in the way, and nvme-deep has not left it behind: remove it, or give another file",
        printable(.0)
    )]
    Foreign(PathBuf),
    /// A recording that was interrupted.
    #[error(
        "{} is a recording that was interrupted: read it with --from or rename it, or give --force to \
         replace it",
        printable(.0)
    )]
    LeftOver(PathBuf),
    /// Another file has taken the name of a recording.
    #[error("{} has appeared meanwhile: the recording stays {}.partial", printable(.0), printable(.0))]
    Meanwhile(PathBuf),
    /// The incomplete file is gone.
    #[error("{}.partial was removed or replaced by another process: nothing is kept", printable(.0))]
    Gone(PathBuf),
    /// The terminal would get bytes.
    #[error("{0} is a terminal, and this is no text: give a file, or redirect stdout")]
    Terminal(String),
    /// A descriptor that was opened for reading.
    #[error("{0} is not open for writing: give a file")]
    ReadOnly(String),
    /// A file of this name can't be replaced at the end.
    #[error("{} can't be replaced ({}): give another file", printable(.0), .1)]
    Fixed(PathBuf, io::Error),
    /// The disk has not taken all of it. Whether it has its name all the same.
    #[error("{} can't be written ({}): {}", printable(.0), .1, fate(.1, *.2))]
    Unsynced(PathBuf, io::Error, bool),
    /// The complete recording could not get its name.
    #[error("{} can't be replaced ({}): the recording stays {}.partial", printable(.0), .1, printable(.0))]
    Stays(PathBuf, io::Error),
    /// The complete file could not get its name.
    #[error("{} can't be replaced ({}): nothing is kept. Write elsewhere", printable(.0), .1)]
    Lost(PathBuf, io::Error),
    /// The kernel refuses it.
    #[error("{} can't be written ({}): {}", printable(.0), .1, advice(.1))]
    Io(PathBuf, io::Error),
}

/// Whether there is no room.
pub fn is_full(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded | ErrorKind::FileTooLarge
    )
}

fn advice(error: &io::Error) -> &'static str {
    if is_full(error) { "make room, or write elsewhere" } else { "give another file" }
}

/// What became of a file that the disk has not taken.
fn fate(error: &io::Error, is_kept: bool) -> &'static str {
    match (is_kept, is_full(error)) {
        (true, true) => "what the disk has of it is kept. Make room, or write elsewhere",
        (true, false) => "what the disk has of it is kept. Write elsewhere",
        (false, true) => "nothing is kept. Make room, or write elsewhere",
        (false, false) => "nothing is kept. Write elsewhere",
    }
}

impl Refusal {
    /// Whether the file modes, or the kernel, forbid it.
    pub fn is_permission(&self) -> bool {
        matches!(self, Self::Io(_, error) | Self::Lost(_, error) if error.kind() == ErrorKind::PermissionDenied)
    }

    /// The error that ends the program.
    pub fn into_failure(self) -> Error {
        let kind = match &self {
            Self::Meanwhile(_)
            | Self::Gone(_)
            | Self::Stays(..)
            | Self::Lost(..)
            | Self::Unsynced(..) => Kind::Run,
            Self::Io(_, error) if is_full(error) => Kind::Run,
            _ => Kind::Usage,
        };
        Failure::error(kind, self.to_string())
    }

    /// The kernel's reason.
    pub fn io(path: &Path, error: impl Into<io::Error>) -> Self {
        Self::Io(path.to_owned(), error.into())
    }
}
