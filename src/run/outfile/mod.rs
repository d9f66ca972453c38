// SPDX-License-Identifier: MIT OR Apache-2.0
//! The files that the commands write. A file appears under its name when it is complete; until then
//! its name ends in `.partial`. The path may also be `-`, a pipe or a terminal, which get the bytes as
//! they come. Never a block device. docs/record.md and docs/export.md have the rules for users.

mod partial;
mod place;
mod refusal;
#[cfg(test)]
mod tests;

use std::fs::{File, Metadata};
use std::io::{ErrorKind, IsTerminal, stdout};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::{fs, io};

use crate::error::Kind;
use crate::model::text::printable;
use anyhow::{Error, Result};
use rustix::fs::{FileType, Mode, OFlags, fcntl_getfl, fstat, major, minor, open};

use self::partial::{Partial, check_replaceable};
use self::place::{Astray, Found, Place, find, is_trusted};
use self::refusal::is_full;
use crate::run::args::common::is_stdout;
use crate::run::exit::{Failure, cause};
use crate::run::standard::cannot_write;

pub use self::refusal::Refusal;

/// How a file is written.
#[derive(Clone, Copy, Debug)]
pub struct Rules<'a> {
    /// Replace a file of this name.
    pub force: bool,
    /// Files that are read meanwhile.
    pub inputs: &'a [PathBuf],
    /// Its mode.
    pub mode: u32,
    /// Wait until it is on the disk. A file system that allocates late reports a full disk then.
    pub sync: bool,
    /// What a killed run has left behind can be read: it is replaced only by force.
    pub is_recording: bool,
    /// It is no text.
    pub is_binary: bool,
    /// A link in its place is replaced, not followed: for a file that is replaced many times, in a
    /// directory whose owner may be another user.
    pub replaces_links: bool,
}

impl Default for Rules<'_> {
    fn default() -> Self {
        Self {
            force: false,
            inputs: &[],
            mode: 0o600,
            sync: true,
            is_recording: false,
            is_binary: false,
            replaces_links: false,
        }
    }
}

/// An output file. Without [`OutFile::keep`] it is removed.
#[derive(Debug)]
pub struct OutFile {
    path: PathBuf,
    /// `None`: stdout, a pipe or a terminal, which is written itself.
    partial: Option<Partial>,
    is_stdout: bool,
}

/// The number of the descriptor stdout.
const STDOUT: i32 = 1;

fn same(a: &Metadata, (dev, ino): (u64, u64)) -> bool {
    (a.dev(), a.ino()) == (dev, ino)
}

/// Whether a file, by its device and inode, is one of these.
fn is_input(inputs: &[PathBuf], file: (u64, u64)) -> bool {
    let mut inputs = inputs.iter().filter_map(|i| fs::metadata(i).ok());
    inputs.any(|input| same(&input, file))
}

/// What a file that is no regular one is called. `None`: it may be written to.
fn unfit(found: &Found) -> Option<&'static str> {
    match found.kind() {
        FileType::BlockDevice => Some("block device"),
        FileType::Socket => Some("socket"),
        FileType::CharacterDevice if !is_harmless(found) => Some("character device"),
        _ => None,
    }
}

/// Whether a character device is null, zero or full (major 1), or a terminal.
fn is_harmless(found: &Found) -> bool {
    let device = found.stat.st_rdev;
    matches!((major(device), minor(device)), (1, 3 | 5 | 7) | (4 | 5 | 136..=143, _))
}

/// The descriptor of this process that a link of procfs leads to, as `/dev/stdout` does. It is
/// duplicated: to open it again would begin at the start of its file.
fn own_descriptor(place: &Place, found: &Found) -> Option<(OwnedFd, bool)> {
    let number: i32 = place.name.to_str()?.parse().ok().filter(|n| *n >= 0)?;
    let dir = fstat(&place.dir).ok()?;
    let mut own = ["/proc/self/fd", "/proc/thread-self/fd"]
        .into_iter()
        .filter_map(|own| fs::metadata(own).ok());
    let is_own = own.any(|own| same(&own, (dir.st_dev, dir.st_ino)));
    if !is_own || number == found.handle.as_raw_fd() {
        return None;
    }
    // SAFETY: procfs has just listed the number as open, and no other thread closes descriptors now;
    // if it were closed, the duplication would fail.
    let fd = unsafe { BorrowedFd::borrow_raw(number) };
    let fd = fd.try_clone_to_owned().ok()?;
    Some((fd, number == STDOUT))
}

/// A descriptor that somebody else has opened.
fn inherited(fd: impl AsFd, path: &Path, rules: &Rules<'_>) -> Result<File, Refusal> {
    let file = fd.as_fd().try_clone_to_owned().map(File::from);
    let file = file.map_err(|e| Refusal::io(path, e))?;
    let stat = fstat(&file).map_err(|e| Refusal::io(path, e))?;
    if FileType::from_raw_mode(stat.st_mode) == FileType::BlockDevice {
        return Err(Refusal::Device(named(path), "block device"));
    }
    if is_input(rules.inputs, (stat.st_dev, stat.st_ino)) {
        return Err(Refusal::Input(named(path)));
    }
    let flags = fcntl_getfl(&file).map_err(|e| Refusal::io(path, e))?;
    if flags & OFlags::RWMODE == OFlags::RDONLY {
        return Err(Refusal::ReadOnly(printable(&named(path))));
    }
    if rules.is_binary && file.is_terminal() {
        return Err(Refusal::Terminal(printable(&named(path))));
    }
    Ok(file)
}

fn named(path: &Path) -> PathBuf {
    let name = if is_stdout(path) { Path::new("stdout") } else { path };
    name.to_owned()
}

/// Opens a pipe or a device that was found, and no other: by its handle.
fn open_stream(path: &Path, found: &Found, rules: &Rules<'_>) -> Result<File, Refusal> {
    let by_handle = format!("/proc/self/fd/{}", found.handle.as_raw_fd());
    let flags = OFlags::WRONLY | OFlags::NOCTTY | OFlags::CLOEXEC;
    // a pipe waits for its reader, as in a shell
    let file = open(by_handle, flags, Mode::empty()).map_err(|e| Refusal::io(path, e))?;
    inherited(file, path, rules)
}

impl OutFile {
    /// Creates the file.
    ///
    /// # Errors
    /// If it exists (without `force`), is an input, or cannot be created; one sentence.
    pub fn create(path: &Path, rules: &Rules<'_>) -> Result<(Self, File)> {
        Self::try_create(path, rules).map_err(Refusal::into_failure)
    }

    /// The same, with the reason.
    ///
    /// # Errors
    /// As [`OutFile::create`].
    pub fn try_create(path: &Path, rules: &Rules<'_>) -> Result<(Self, File), Refusal> {
        if is_stdout(path) {
            let file = inherited(stdout(), path, rules)?;
            return Ok((Self::new(path, None, true), file));
        }
        let place = find(path, !rules.replaces_links).map_err(|astray| match astray {
            Astray::Io(error) => Refusal::io(path, error),
            Astray::Link(link) => Refusal::Planted(path.to_owned(), link),
            Astray::Directory => Refusal::Directory(path.to_owned()),
        })?;
        if let Some(found) = &place.found {
            let stat = &found.stat;
            if let Some(what) = unfit(found) {
                return Err(Refusal::Device(path.to_owned(), what));
            }
            if is_input(rules.inputs, (stat.st_dev, stat.st_ino)) {
                return Err(Refusal::Input(path.to_owned()));
            }
            if found.is_of_procfs
                && let Some((fd, is_stdout)) = own_descriptor(&place, found)
            {
                return Ok((Self::new(path, None, is_stdout), inherited(fd, path, rules)?));
            }
            let is_file = matches!(found.kind(), FileType::RegularFile | FileType::Symlink);
            // in a directory of others, what is there is replaced and not opened: a pipe would block
            if !is_file && !rules.replaces_links {
                let dir = fstat(&place.dir).map_err(|e| Refusal::io(path, e))?;
                if found.kind() == FileType::Fifo && !is_trusted(&dir, stat) {
                    return Err(Refusal::Planted(path.to_owned(), path.to_owned()));
                }
                let file = open_stream(path, found, rules)?;
                return Ok((Self::new(path, None, false), file));
            }
            if !rules.force || found.is_of_procfs {
                return Err(Refusal::Exists(path.to_owned()));
            }
            // now, and not at the end of a long run
            check_replaceable(&place, found)
                .map_err(|e| Refusal::Fixed(path.to_owned(), e.into()))?;
        }
        let (partial, file) = Partial::create(path, place, rules)?;
        Ok((Self::new(path, Some(partial), false), file))
    }

    fn new(path: &Path, partial: Option<Partial>, is_stdout: bool) -> Self {
        Self { path: named(path), partial, is_stdout }
    }

    /// The name in messages.
    pub fn name(&self) -> String {
        printable(&self.path)
    }

    /// Whether it is stdout.
    pub const fn is_stdout(&self) -> bool {
        self.is_stdout
    }

    /// Whether it is removed if it is not complete.
    pub const fn is_removable(&self) -> bool {
        self.partial.is_some()
    }

    /// The error of a write. A reader that has gone is none.
    pub fn failed(&self, error: io::Error) -> Error {
        let why = cause(&error).unwrap_or(&error);
        if why.kind() == ErrorKind::BrokenPipe {
            return io::Error::from(ErrorKind::BrokenPipe).into();
        }
        if self.is_stdout() {
            return Failure::error(Kind::Run, cannot_write(why));
        }
        let kept = if self.is_removable() { "nothing is kept" } else { "the rest is missing" };
        let advice = if is_full(why) { "Make room, or write elsewhere" } else { "Write elsewhere" };
        let path = printable(&self.path);
        let text = format!("{path} can't be written ({why}): {kept}. {advice}");
        Failure::error(Kind::Run, text)
    }

    /// Gives the complete file its name. Returns its size in bytes, if it has one.
    ///
    /// # Errors
    /// If it cannot be renamed, or another file has taken its name.
    pub fn keep(self) -> Result<Option<u64>> {
        self.try_keep().map_err(Refusal::into_failure)
    }

    /// The same, with the reason.
    ///
    /// # Errors
    /// As [`OutFile::keep`].
    pub fn try_keep(self) -> Result<Option<u64>, Refusal> {
        let Self { path, partial, .. } = self;
        partial.map_or(Ok(None), |partial| partial.keep(&path).map(Some))
    }
}
