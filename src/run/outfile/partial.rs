// SPDX-License-Identifier: MIT OR Apache-2.0
//! The incomplete file: created beside its target, locked while it is written, renamed or removed at the
//! end. All of this by descriptors of the directory and the file: names may change meanwhile.

use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{
    AtFlags, FileType, FlockOperation, Mode, OFlags, RenameFlags, Stat, StatxAttributes,
    StatxFlags, fchmod, flock, fstat, fsync, linkat, openat, renameat, renameat_with, statat,
    statx, unlinkat,
};
use rustix::io::Errno;
use rustix::process::geteuid;

use super::place::{Found, Place};
use super::{Refusal, Rules, is_input};

/// A file that is not complete. It is removed unless it is kept.
#[derive(Debug)]
pub struct Partial {
    dir: OwnedFd,
    /// The name of the complete file.
    name: OsString,
    partial: OsString,
    /// The file, with its lock.
    file: File,
    force: bool,
    sync: bool,
    /// It can be read although it is not complete, and stays if it cannot be renamed.
    is_recording: bool,
    stays: bool,
}

fn id(stat: &Stat) -> (u64, u64) {
    (stat.st_dev, stat.st_ino)
}

/// The name of the incomplete file, in messages.
fn shown(path: &Path) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(".partial");
    name.into()
}

/// Whether another process has locked the file. Some file systems have no locks (NFS without lockd,
/// some of FUSE): there O_EXCL alone keeps two runs apart.
fn is_in_use(file: impl AsFd) -> bool {
    flock(file, FlockOperation::NonBlockingLockExclusive) == Err(Errno::WOULDBLOCK)
}

/// A file system that cannot do this has nothing to wait for.
fn synced(done: Result<(), Errno>) -> io::Result<()> {
    match done {
        Err(Errno::INVAL | Errno::OPNOTSUPP | Errno::ROFS) | Ok(()) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Whether a rename can replace a file. The kernel refuses it in a sticky directory of another user, for
/// attributes (`chattr +i`), and where something is mounted.
///
/// # Errors
/// The error that the rename would have.
pub fn check_replaceable(place: &Place, found: &Found) -> Result<(), Errno> {
    let of_file = statx(&found.handle, "", AtFlags::EMPTY_PATH, StatxFlags::empty());
    if of_file.is_ok_and(|s| s.stx_attributes.contains(StatxAttributes::MOUNT_ROOT)) {
        return Err(Errno::BUSY);
    }
    // rmdir never removes a file. Before it says so, the kernel checks whether this user may remove the name,
    // as it does for a rename
    match unlinkat(&place.dir, &place.name, AtFlags::REMOVEDIR) {
        Err(Errno::PERM) => Err(Errno::PERM),
        _ => Ok(()),
    }
}

impl Partial {
    /// Creates the file in this place.
    ///
    /// # Errors
    /// If it cannot be created, or another process writes it.
    pub fn create(path: &Path, place: Place, rules: &Rules<'_>) -> Result<(Self, File), Refusal> {
        let Place { dir, name, .. } = place;
        let mut partial = name.clone();
        partial.push(".partial");
        let flags = OFlags::WRONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let new = flags | OFlags::CREATE | OFlags::EXCL;
        let mode = Mode::from_raw_mode(rules.mode);
        let create = || openat(&dir, &partial, new, Mode::RUSR | Mode::WUSR);
        let failed = |e: Errno| Refusal::io(path, e);
        let file = match create() {
            Err(Errno::EXIST) => {
                remove_left_over(&dir, &partial, path, rules)?;
                create()
            }
            other => other,
        };
        let file = file.map_err(|error| match error {
            // another one was faster
            Errno::EXIST => Refusal::Locked(path.to_owned()),
            error => failed(error),
        })?;
        let made = Self {
            dir,
            name,
            partial,
            file: file.into(),
            force: rules.force,
            sync: rules.sync,
            is_recording: rules.is_recording,
            stays: false,
        };
        if is_in_use(&made.file) || !made.is_there() {
            return Err(Refusal::Locked(path.to_owned()));
        }
        fchmod(&made.file, mode).map_err(failed)?;
        let file = made.file.try_clone().map_err(|e| Refusal::io(path, e))?;
        Ok((made, file))
    }

    /// Whether the name is still that of this file.
    fn is_there(&self) -> bool {
        let named = statat(&self.dir, &self.partial, AtFlags::SYMLINK_NOFOLLOW);
        let own = fstat(&self.file);
        named.is_ok_and(|named| own.is_ok_and(|own| id(&named) == id(&own)))
    }

    fn rename(&self) -> Result<(), Errno> {
        let (dir, from, to) = (&self.dir, &self.partial, &self.name);
        if self.force {
            return renameat(dir, from, dir, to);
        }
        match renameat_with(dir, from, dir, to, RenameFlags::NOREPLACE) {
            // the file system can't; a link never replaces a file, either
            Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) => {}
            done => return done,
        }
        match linkat(dir, from, dir, to, AtFlags::empty()) {
            Ok(()) => unlinkat(dir, from, AtFlags::empty()),
            Err(Errno::EXIST) => Err(Errno::EXIST),
            // a file system without links
            Err(_) => match statat(dir, to, AtFlags::SYMLINK_NOFOLLOW) {
                Err(Errno::NOENT) => renameat(dir, from, dir, to),
                Err(error) => Err(error),
                Ok(_) => Err(Errno::EXIST),
            },
        }
    }

    /// Gives the file its name. Returns its size.
    ///
    /// # Errors
    /// If it cannot be renamed, or another file has taken its name.
    pub fn keep(mut self, path: &Path) -> Result<u64, Refusal> {
        self.stays = self.is_recording;
        let sync = |file: BorrowedFd<'_>| match self.sync {
            true => synced(fsync(file)),
            false => Ok(()),
        };
        let is_kept = self.is_recording;
        let unsynced = |e: io::Error, is_kept| Refusal::Unsynced(path.to_owned(), e, is_kept);
        let on_disk = sync(self.file.as_fd()).map_err(|e| unsynced(e, is_kept));
        if on_disk.is_err() && !self.is_recording {
            return on_disk.map(|()| 0);
        }
        if !self.is_there() {
            return Err(Refusal::Gone(path.to_owned()));
        }
        // before: 9p of Linux 5.10 finds an open file by the name that it had
        let stat = fstat(&self.file).map_err(|e| Refusal::io(path, e))?;
        self.rename().map_err(|error| match error {
            Errno::EXIST if self.is_recording => Refusal::Meanwhile(path.to_owned()),
            Errno::EXIST => Refusal::Exists(path.to_owned()),
            error if self.is_recording => Refusal::Stays(path.to_owned(), error.into()),
            error => Refusal::Lost(path.to_owned(), error.into()),
        })?;
        // the name, too; a directory that can't be opened is not an error of the file
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let dir = openat(&self.dir, ".", flags, Mode::empty());
        on_disk?;
        dir.map_or(Ok(()), |dir| sync(dir.as_fd()).map_err(|e| unsynced(e, true)))?;
        Ok(u64::try_from(stat.st_size).unwrap_or_default())
    }
}

impl Drop for Partial {
    fn drop(&mut self) {
        // after `keep`, the name is gone
        if !self.stays && self.is_there() {
            // if this fails, the name shows that it is not complete
            let _ = unlinkat(&self.dir, &self.partial, AtFlags::empty());
        }
    }
}

/// Removes what a run that was killed has left behind: a regular file of this user, with one name, that
/// no process has locked.
fn remove_left_over(
    dir: &OwnedFd,
    partial: &OsString,
    path: &Path,
    rules: &Rules<'_>,
) -> Result<(), Refusal> {
    let foreign = || Refusal::Foreign(shown(path));
    let failed = |e: Errno| Refusal::io(path, e);
    let is_own = |stat: &Stat| {
        FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile
            && stat.st_uid == geteuid().as_raw()
            && stat.st_nlink == 1
    };
    let look = || statat(dir, partial, AtFlags::SYMLINK_NOFOLLOW);
    let named = match look() {
        Err(Errno::NOENT) => return Ok(()),
        named => named.map_err(failed)?,
    };
    let is_directory = FileType::from_raw_mode(named.st_mode) == FileType::Directory;
    // in a directory of others, what is in the way goes, as a rename would replace it
    if !is_own(&named) && rules.replaces_links && !is_directory {
        return unlinkat(dir, partial, AtFlags::empty()).map_err(failed);
    }
    if !is_own(&named) {
        return Err(foreign());
    }
    let flags = OFlags::RDWR | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = openat(dir, partial, flags, Mode::empty()).map_err(failed)?;
    let found = fstat(&file).map_err(failed)?;
    if !is_own(&found) {
        return Err(foreign());
    }
    if is_input(rules.inputs, id(&found)) {
        return Err(Refusal::Input(shown(path)));
    }
    // the lock shows that another process writes it
    if is_in_use(&file) || !look().is_ok_and(|now| id(&now) == id(&found)) {
        return Err(Refusal::Locked(path.to_owned()));
    }
    if rules.is_recording && found.st_size > 0 && !rules.force {
        return Err(Refusal::LeftOver(shown(path)));
    }
    unlinkat(dir, partial, AtFlags::empty()).map_err(failed)
}
