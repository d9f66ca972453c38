// SPDX-License-Identifier: MIT OR Apache-2.0
//! Files that commands write. A file is written as FILE.partial and renamed when it is complete. stdout,
//! pipes and terminals get the bytes as they come. docs/record.md has the rules for users.

use crate::error::{Failure, Kind};
use crate::model::text::printable;
use crate::run::eprint_note;
use crate::run::exit::{cause, usage};
use crate::run::stdout::cannot_write;
use anyhow::{Error, Result};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{major, minor};
use rustix::io::Errno;
use rustix::process::geteuid;
use std::ffi::{OsStr, OsString};
use std::fs::{File, Metadata};
use std::io::{ErrorKind, IsTerminal, Seek, SeekFrom, Write, stdout};
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt, fchown};
use std::path::{Path, PathBuf};
use std::{env, fs, io};
use tempfile::TempPath;

/// What a command says about its file.
#[derive(Clone, Copy, Debug, Default)]
pub struct Rules<'a> {
    /// Replace an existing file.
    pub force: bool,
    /// Files that the command reads: none of them is overwritten.
    pub inputs: &'a [PathBuf],
    /// What an interrupted run left can be read, so only `force` replaces it.
    pub is_recording: bool,
    /// Not for a terminal.
    pub is_binary: bool,
}

/// A file that is being written. It is removed unless [`OutFile::keep`] is called.
#[derive(Debug)]
pub struct OutFile {
    path: PathBuf,
    is_stdout: bool,
    /// `None` for a stream.
    partial: Option<Partial>,
}

#[derive(Debug)]
struct Partial {
    temp: TempPath,
    file: File,
    /// Where the complete file goes.
    target: PathBuf,
    force: bool,
}

const IS_INPUT: &str = "is a recording to read: give another file";

fn refused(path: &Path, why: &str) -> Error {
    usage(format!("{} {why}", printable(path)))
}

/// The file can't be created.
pub fn cannot_create(path: &Path, error: &io::Error) -> Error {
    refused(path, &format!("can't be written ({error}): give another file"))
}

fn is_input(file: &Metadata, inputs: &[PathBuf]) -> bool {
    let id = |m: &Metadata| (m.dev(), m.ino());
    inputs.iter().filter_map(|input| fs::metadata(input).ok()).any(|input| id(&input) == id(file))
}

/// What is never written to, also with `--force`.
fn unfit(found: &Metadata) -> Option<&'static str> {
    let (kind, device) = (found.file_type(), found.rdev());
    // null, zero, full; terminals
    let harmless =
        matches!((major(device), minor(device)), (1, 3 | 5 | 7) | (4 | 5 | 136..=143, _));
    match () {
        () if kind.is_dir() => Some("is a directory: give the name of a file in it"),
        () if kind.is_block_device() => Some("is a block device: give a file"),
        () if kind.is_char_device() && !harmless => Some("is a device: give a file"),
        () => None,
    }
}

/// Whether a path of an output means stdout.
pub fn is_stdout(path: &Path) -> bool {
    ["-", "/dev/stdout", "/dev/fd/1", "/proc/self/fd/1"].map(Path::new).contains(&path)
}

impl OutFile {
    /// Creates the file.
    ///
    /// # Errors
    /// If it exists (without `force`), is an input, or cannot be created; one sentence.
    pub fn create(path: &Path, rules: &Rules<'_>) -> Result<(Self, File)> {
        let is_stdout = is_stdout(path);
        let is_descriptor = path.starts_with("/dev/fd") || path.starts_with("/proc/self/fd");
        let failed = |error: io::Error| cannot_create(path, &error);
        let name = if is_stdout { Path::new("stdout") } else { path };
        let own = match is_stdout {
            true => Some(File::from(stdout().as_fd().try_clone_to_owned().map_err(failed)?)),
            false => None,
        };
        let found = own.as_ref().map_or_else(|| fs::metadata(path), File::metadata);
        if let Ok(found) = found {
            if let Some(why) = unfit(&found) {
                return Err(refused(name, why));
            }
            if is_input(&found, rules.inputs) {
                return Err(refused(name, IS_INPUT));
            }
            if is_stdout || is_descriptor || !found.is_file() {
                // continues what a shell has opened
                let open = || File::options().append(true).open(path);
                let file = own.map_or_else(open, Ok).map_err(failed)?;
                if rules.is_binary && file.is_terminal() {
                    let why =
                        "is a terminal, and this is not text: give a file, or redirect stdout";
                    return Err(refused(name, why));
                }
                return Ok((Self { path: name.to_owned(), is_stdout, partial: None }, file));
            }
        }
        let partial = Partial::create(path, rules)?;
        let file = partial.file.try_clone().map_err(failed)?;
        Ok((Self { path: path.to_owned(), is_stdout, partial: Some(partial) }, file))
    }

    /// The name in messages.
    pub fn name(&self) -> String {
        printable(&self.path)
    }

    /// Whether it is stdout.
    pub const fn is_stdout(&self) -> bool {
        self.is_stdout
    }

    /// Whether it is a file of its own, and not a stream.
    pub const fn is_file(&self) -> bool {
        self.partial.is_some()
    }

    /// From here on FILE.partial is worth keeping: it stays if the run fails.
    pub fn outlives_failure(&mut self) {
        if let Some(partial) = &mut self.partial {
            partial.temp.disable_cleanup(true);
        }
    }

    /// The error of a write. A reader that went away is not a failure.
    pub fn failed(&self, error: io::Error) -> Error {
        let why = cause(&error).unwrap_or(&error);
        if why.kind() == ErrorKind::BrokenPipe {
            return io::Error::from(ErrorKind::BrokenPipe).into();
        }
        if self.is_stdout {
            return Failure::error(Kind::Run, cannot_write(why));
        }
        let kept = if self.is_file() { "nothing is kept" } else { "the rest is missing" };
        let text = format!("{} can't be written ({why}): {kept}. Write elsewhere", self.name());
        Failure::error(Kind::Run, text)
    }

    /// Gives the complete file its name. Returns its size in bytes, if it has one.
    ///
    /// # Errors
    /// If the disk does not take it, or it can't be renamed. It stays FILE.partial then.
    pub fn keep(self) -> Result<Option<u64>> {
        let path = self.name();
        self.partial.map(Partial::keep).transpose().map_err(|error| {
            let text =
                format!("{path} can't be written ({error}): what there is stays {path}.partial");
            Failure::error(Kind::Run, text)
        })
    }
}

/// The user and the group that ran sudo, from its variables.
fn behind_sudo(user: Option<&OsStr>, group: Option<&OsStr>) -> Option<(u32, u32)> {
    let number = |text: Option<&OsStr>| text?.to_str()?.parse().ok();
    number(user).zip(number(group))
}

/// Whether the user may make files where this one is: the directory is theirs, or everybody's, like
/// /tmp. A file of theirs elsewhere would let them write what only root may. The kernel says where it
/// is: the user may change the links of a path.
fn is_in_reach(file: &File, user: u32) -> bool {
    let link = format!("/proc/self/fd/{}", file.as_raw_fd());
    let directory = fs::read_link(link).ok().and_then(|path| Some(path.parent()?.to_owned()));
    let found = directory.and_then(|path| fs::symlink_metadata(path).ok());
    found.is_some_and(|found| found.uid() == user || found.mode() & 0o1002 == 0o1002)
}

/// A recording by root is for the user who ran sudo: reading it needs no root. Some file systems have
/// no owners: the file stays root's.
fn give_to_user(file: &File, path: &Path) {
    let variables = ["SUDO_UID", "SUDO_GID"].map(env::var_os);
    let [user, group] = variables.each_ref().map(Option::as_deref);
    let behind = behind_sudo(user, group).filter(|_| geteuid().is_root());
    let Some((user, group)) = behind else { return };
    let given = is_in_reach(file, user) && fchown(file, Some(user), Some(group)).is_ok();
    if !given {
        eprint_note(&format!("{} is root's: to read it, use sudo or chown it", printable(path)));
    }
}

impl Partial {
    fn create(path: &Path, rules: &Rules<'_>) -> Result<Self> {
        let failed = |error: io::Error| cannot_create(path, &error);
        let name = path.file_name().ok_or_else(|| failed(ErrorKind::NotFound.into()))?;
        let mut partial_name = OsString::from(name);
        partial_name.push(".partial");
        let target = path.with_file_name(name);
        let partial = path.with_file_name(partial_name);
        if fs::metadata(&partial).is_ok_and(|found| is_input(&found, rules.inputs)) {
            return Err(refused(&partial, IS_INPUT));
        }
        // not followed: a link is replaced itself
        let exists = |file: &Path| fs::symlink_metadata(file).is_ok();
        if exists(&target) && !rules.force {
            return Err(refused(path, "exists: give another file, or --force to replace it"));
        }
        if exists(&partial) {
            if rules.is_recording && !rules.force {
                let why = "exists: it is a recording that was interrupted, or that another process \
                           writes. Read it with --from or rename it, or give --force to replace it";
                return Err(refused(&partial, why));
            }
            fs::remove_file(&partial).map_err(|e| cannot_create(&partial, &e))?;
        }
        let file = File::options().write(true).create_new(true).mode(0o600).open(&partial);
        let file = file.map_err(failed)?;
        let temp = TempPath::try_from_path(partial).map_err(failed)?;
        if rules.is_recording {
            give_to_user(&file, path);
        }
        Ok(Self { temp, file, target, force: rules.force })
    }

    fn keep(mut self) -> io::Result<u64> {
        self.temp.disable_cleanup(true);
        // some file systems have nothing to wait for
        let unsupported =
            [Errno::INVAL, Errno::OPNOTSUPP, Errno::ROFS].map(|e| Some(e.raw_os_error()));
        match self.file.sync_all() {
            Err(error) if !unsupported.contains(&error.raw_os_error()) => return Err(error),
            _ => {}
        }
        let renamed = match self.force {
            true => self.temp.persist(&self.target),
            false => self.temp.persist_noclobber(&self.target),
        };
        renamed.map_err(|failed| failed.error)?;
        Ok(self.file.metadata()?.len())
    }
}

/// The destination of lines.
#[derive(Debug)]
pub struct Output {
    file: File,
    failed: Option<io::Error>,
}

impl Output {
    /// An output to this file.
    pub const fn to(file: File) -> Self {
        Self { file, failed: None }
    }

    /// Writes whole lines. Returns how many bytes of them were written. Keeps the error.
    pub fn write(&mut self, lines: &[u8]) -> usize {
        if self.failed.is_some() {
            return 0;
        }
        let mut done = 0;
        while done < lines.len() {
            match self.file.write(&lines[done..]) {
                Ok(0) => self.failed = Some(ErrorKind::WriteZero.into()),
                Ok(n) => done += n,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => self.failed = Some(error),
            }
            if self.failed.is_some() {
                break;
            }
        }
        let whole = lines[..done].iter().rposition(|&b| b == b'\n');
        let whole = whole.map_or(0, |at| at + 1);
        if done < lines.len() {
            self.take_back(done - whole);
        }
        whole
    }

    /// Removes the last, incomplete line if the output is a regular file.
    fn take_back(&mut self, bytes: usize) {
        let is_file = self.file.metadata().is_ok_and(|m| m.is_file());
        if bytes == 0 || !is_file {
            return;
        }
        if let Ok(at) = self.file.seek(SeekFrom::End(0)) {
            // if this fails, the incomplete line stays: there is no other remedy
            let _ = self.file.set_len(at.saturating_sub(bytes as u64));
        }
    }

    /// Checks whether a pipe has lost its reader, without a write: there may be no event for a long
    /// time.
    pub fn look(&mut self) {
        let mut fds = [PollFd::new(&self.file, PollFlags::empty())];
        let now = Timespec::default();
        let polled = poll(&mut fds, Some(&now));
        let gone = polled.is_ok() && fds[0].revents().contains(PollFlags::ERR);
        if gone && self.failed.is_none() {
            self.failed = Some(ErrorKind::BrokenPipe.into());
        }
    }

    /// Whether a write has failed. Nothing is written after that.
    pub const fn has_failed(&self) -> bool {
        self.failed.is_some()
    }

    /// The error of the write that failed.
    pub const fn take_error(&mut self) -> Option<io::Error> {
        self.failed.take()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    use std::os::unix::fs::{PermissionsExt, symlink};

    const PLAIN: Rules<'static> =
        Rules { force: false, inputs: &[], is_recording: false, is_binary: false };
    const FORCE: Rules<'static> = Rules { force: true, ..PLAIN };
    const RECORDING: Rules<'static> = Rules { is_recording: true, ..PLAIN };

    fn why(path: &Path, rules: &Rules<'_>) -> String {
        OutFile::create(path, rules).unwrap_err().to_string()
    }

    #[test]
    fn an_interrupted_recording_stays_until_it_is_replaced_by_force() {
        let dir = tempfile::tempdir().unwrap();
        let (path, partial) = (dir.path().join("out"), dir.path().join("out.partial"));
        let (mut out, mut file) = OutFile::create(&path, &RECORDING).unwrap();
        file.write_all(b"events").unwrap();
        out.outlives_failure();
        drop(out);
        assert_eq!(fs::read(&partial).unwrap(), b"events");
        let said = why(&path, &RECORDING);
        assert!(said.contains("out.partial exists: it is a recording"), "{said}");
        let inputs = [partial.clone()];
        let said = why(&path, &Rules { inputs: &inputs, ..FORCE });
        assert!(said.ends_with("out.partial is a recording to read: give another file"), "{said}");
        for rules in [Rules { force: true, ..RECORDING }, PLAIN] {
            fs::write(&partial, "left").unwrap();
            let (out, _) = OutFile::create(&path, &rules).unwrap();
            assert_eq!(out.keep().unwrap(), Some(0), "what was left is gone");
            fs::remove_file(&path).unwrap();
        }
    }

    #[test]
    fn a_file_is_given_away_only_where_the_user_may_make_files() {
        let dir = tempfile::tempdir().unwrap();
        let file = File::create(dir.path().join("file")).unwrap();
        let owner = fs::metadata(dir.path()).unwrap().uid();
        assert!(is_in_reach(&file, owner) && !is_in_reach(&file, owner + 1));
        // as /tmp
        fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o1777)).unwrap();
        assert!(is_in_reach(&file, owner + 1));
    }

    #[test]
    fn the_user_behind_sudo_has_two_numbers() {
        for (user, group, want) in [
            (Some("1000"), Some("100"), Some((1000, 100))),
            (None, None, None),
            (Some("1000"), None, None),
            (None, Some("100"), None),
            (Some("-1"), Some("100"), None),
            (Some("4294967296"), Some("100"), None),
        ] {
            let found = behind_sudo(user.map(OsStr::new), group.map(OsStr::new));
            assert_eq!(found, want, "{user:?} {group:?}");
        }
    }

    #[test]
    fn a_link_is_replaced_and_not_followed() {
        let dir = tempfile::tempdir().unwrap();
        let (path, victim) = (dir.path().join("link"), dir.path().join("victim"));
        fs::write(&victim, "precious").unwrap();
        symlink(&victim, &path).unwrap();
        symlink(&victim, dir.path().join("link.partial")).unwrap();
        assert!(why(&path, &PLAIN).contains("exists"));
        let (out, _) = OutFile::create(&path, &FORCE).unwrap();
        out.keep().unwrap();
        assert_eq!(fs::read(&victim).unwrap(), b"precious");
        assert!(fs::symlink_metadata(&path).unwrap().is_file());
    }
}
