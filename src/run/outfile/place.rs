// SPDX-License-Identifier: MIT OR Apache-2.0
//! Where a path leads. Links are followed one by one: in a directory that others may write to, only those
//! of the user or of the directory's owner. The kernel does so only if the sysctl
//! fs.protected_symlinks is set, and only for the last name of a path.

use std::collections::VecDeque;
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Component, Path, PathBuf};

use rustix::fs::{
    FileType, Mode, OFlags, PROC_SUPER_MAGIC, Stat, fstat, fstatfs, open, openat, readlinkat,
};
use rustix::io::Errno;
use rustix::process::geteuid;

/// As many links as the kernel follows (MAXSYMLINKS).
const MAX_LINKS: usize = 40;

/// What has the name.
pub struct Found {
    /// Refers to it, without having opened it (O_PATH).
    pub handle: OwnedFd,
    /// Its metadata.
    pub stat: Stat,
    /// It was reached through a link of procfs: `/dev/stdout`, `/dev/fd/3`.
    pub is_of_procfs: bool,
}

impl Found {
    /// Its type.
    pub fn kind(&self) -> FileType {
        FileType::from_raw_mode(self.stat.st_mode)
    }
}

/// A name in a directory.
pub struct Place {
    /// The directory.
    pub dir: OwnedFd,
    /// The name.
    pub name: OsString,
    /// What has it.
    pub found: Option<Found>,
}

/// Why a path leads nowhere.
#[derive(Debug)]
pub enum Astray {
    /// The kernel's reason.
    Io(io::Error),
    /// A link of another user.
    Link(PathBuf),
    /// It is a directory.
    Directory,
}

impl From<Errno> for Astray {
    fn from(error: Errno) -> Self {
        Self::Io(error.into())
    }
}

/// Whether users other than the owner may create names in this directory.
pub fn others_may_write(dir: &Stat) -> bool {
    Mode::from_raw_mode(dir.st_mode).intersects(Mode::WGRP | Mode::WOTH)
}

/// Whether `entry` can be trusted to be what the user wants, by the rule of fs.protected_symlinks and
/// fs.protected_fifos.
pub fn is_trusted(dir: &Stat, entry: &Stat) -> bool {
    // root can lead anybody anywhere already
    let trusted = [0, geteuid().as_raw(), dir.st_uid];
    !others_may_write(dir) || trusted.contains(&entry.st_uid)
}

const PATH: OFlags = OFlags::PATH.union(OFlags::CLOEXEC);

/// The names of a path that are still to be looked at.
struct Walk {
    dir: OwnedFd,
    /// The directory as text, for messages.
    at: PathBuf,
    rest: VecDeque<OsString>,
    links: usize,
    /// Whether a link in the place of the file is followed.
    follows_last: bool,
}

impl Walk {
    /// Puts the names of a path before the others. An absolute path begins at the root.
    fn put(&mut self, path: &Path) -> Result<(), Astray> {
        if path.as_os_str().is_empty() {
            return Err(Errno::NOENT.into());
        }
        if path.is_absolute() {
            self.dir = open("/", PATH | OFlags::DIRECTORY, Mode::empty())?;
            self.at = "/".into();
        }
        let mut names: Vec<OsString> = Vec::new();
        for component in path.components() {
            match component {
                Component::Normal(name) => names.push(name.to_owned()),
                Component::ParentDir => names.push("..".into()),
                Component::RootDir | Component::CurDir | Component::Prefix(_) => {}
            }
        }
        // `name/` and `name/.` mean a directory
        let bytes = path.as_os_str().as_bytes();
        if bytes.ends_with(b"/") || bytes.ends_with(b"/.") {
            names.push(".".into());
        }
        names.into_iter().rev().for_each(|name| self.rest.push_front(name));
        Ok(())
    }

    /// Follows a link, unless the kernel has to: its own links are not text.
    fn follow(&mut self, name: &OsStr, link: &OwnedFd, stat: &Stat) -> Result<(), Astray> {
        self.links += 1;
        if self.links > MAX_LINKS {
            return Err(Errno::LOOP.into());
        }
        if !is_trusted(&fstat(&self.dir)?, stat) {
            return Err(Astray::Link(self.at.join(name)));
        }
        let target = readlinkat(link, "", Vec::new())?;
        self.put(Path::new(&OsString::from_vec(target.into_bytes())))
    }

    fn enter(&mut self, dir: OwnedFd, name: &OsStr) {
        self.dir = dir;
        self.at.push(name);
    }

    fn run(mut self) -> Result<Place, Astray> {
        while let Some(name) = self.rest.pop_front() {
            let is_last = self.rest.is_empty();
            let opened = openat(&self.dir, &name, PATH | OFlags::NOFOLLOW, Mode::empty());
            let handle = match opened {
                Err(Errno::NOENT) if is_last && name != "." => {
                    return Ok(self.place(name, None));
                }
                opened => opened?,
            };
            let stat = fstat(&handle)?;
            match FileType::from_raw_mode(stat.st_mode) {
                FileType::Symlink if is_procfs(&self.dir)? => {
                    let handle = openat(&self.dir, &name, PATH, Mode::empty())?;
                    let stat = fstat(&handle)?;
                    if is_last {
                        let found = Found { handle, stat, is_of_procfs: true };
                        return Ok(self.place(name, Some(found)));
                    }
                    self.enter(handle, &name);
                }
                FileType::Symlink if !is_last || self.follows_last => {
                    self.follow(&name, &handle, &stat)?;
                }
                FileType::Directory => self.enter(handle, &name),
                _ if is_last => {
                    let found = Found { handle, stat, is_of_procfs: false };
                    return Ok(self.place(name, Some(found)));
                }
                _ => return Err(Errno::NOTDIR.into()),
            }
        }
        Err(Astray::Directory)
    }

    fn place(self, name: OsString, found: Option<Found>) -> Place {
        Place { dir: self.dir, name, found }
    }
}

fn is_procfs(dir: impl AsFd) -> Result<bool, Astray> {
    Ok(fstatfs(dir)?.f_type == PROC_SUPER_MAGIC)
}

/// Finds the place of a path. What is there is not opened. Without `follows_last` it may be a link.
///
/// # Errors
/// If a directory is missing, or a link is not to be followed.
pub fn find(path: &Path, follows_last: bool) -> Result<Place, Astray> {
    let mut walk = Walk {
        dir: open(".", PATH | OFlags::DIRECTORY, Mode::empty())?,
        at: PathBuf::new(),
        rest: VecDeque::new(),
        links: 0,
        follows_last,
    };
    walk.put(path)?;
    walk.run()
}
