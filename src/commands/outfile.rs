// SPDX-License-Identifier: MIT OR Apache-2.0
//! A file that appears under its name when it is complete. Until then its name ends in `.partial`.

use std::ffi::OsString;
use std::fs;
use std::fs::File;
use std::fs::Metadata;
use std::fs::Permissions;
use std::io;
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt;
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::path::PathBuf;

use anyhow::Error;
use anyhow::Result;
use nvme_deep::error::Kind;
use nvme_deep::model::untrusted::printable;
use rustix::fs::FlockOperation;
use rustix::fs::OFlags;
use rustix::fs::flock;

use crate::exit::Failure;

/// An output file. Without [`OutFile::keep`] it is removed.
#[derive(Debug)]
pub struct OutFile {
    path: PathBuf,
    /// The file that is written, and its lock; `None` for a device or a pipe, which is written itself.
    partial: Option<(PathBuf, File)>,
    force: bool,
}

/// The error of a file that exists.
pub fn exists(path: &Path) -> Error {
    let path = printable(path);
    let why = format!("{path} exists: give another file, or --force to replace it");
    Failure::error(Kind::Usage, why)
}

/// The error of a file that cannot be created.
pub fn unwritable(path: &Path, error: &io::Error) -> Error {
    let path = printable(path);
    let why = format!("{path} can't be written ({error}): give another file");
    Failure::error(Kind::Usage, why)
}

fn same(a: &Metadata, b: &Metadata) -> bool {
    (a.dev(), a.ino()) == (b.dev(), b.ino())
}

fn is_input(inputs: &[PathBuf], file: &Metadata) -> bool {
    let mut inputs = inputs.iter().filter_map(|i| fs::metadata(i).ok());
    inputs.any(|input| same(&input, file))
}

fn is_recording(path: &Path) -> Error {
    let path = printable(path);
    let why = format!("{path} is a recording to read: give another file");
    Failure::error(Kind::Usage, why)
}

/// Opens the file, and creates it if there is none, readable by its owner only. Follows no link: the
/// name is known before, and others may write in the directory.
fn open_partial(path: &Path) -> io::Result<File> {
    let mut options = File::options();
    options.write(true).create(true).truncate(false).mode(0o600);
    let no_link = i32::try_from(OFlags::NOFOLLOW.bits()).map_err(io::Error::other)?;
    let file = options.custom_flags(no_link).open(path)?;
    file.set_permissions(Permissions::from_mode(0o600))?;
    Ok(file)
}

impl OutFile {
    /// Creates the file, readable by its owner only. `inputs` are read while it is written.
    ///
    /// # Errors
    /// If it exists (without `force`), is an input, or cannot be created; one sentence.
    pub fn create(path: &Path, force: bool, inputs: &[PathBuf]) -> Result<(Self, File)> {
        let found = fs::metadata(path).ok();
        if let Some(found) = &found {
            if is_input(inputs, found) {
                return Err(is_recording(path));
            }
            let is_regular = found.is_file() || found.is_dir();
            if !is_regular {
                let file = File::options().write(true).open(path);
                let file = file.map_err(|e| unwritable(path, &e))?;
                return Ok((Self::new(path, None, force), file));
            }
            if !force || found.is_dir() {
                return Err(exists(path));
            }
        }
        let mut partial = OsString::from(path);
        partial.push(".partial");
        let partial = PathBuf::from(partial);
        let file = open_partial(&partial).map_err(|e| unwritable(path, &e))?;
        let found = file.metadata().map_err(|e| unwritable(path, &e))?;
        if is_input(inputs, &found) {
            return Err(is_recording(&partial));
        }
        // the lock shows that no other process writes it; one that was killed may have left it
        let is_locked = flock(&file, FlockOperation::NonBlockingLockExclusive).is_ok();
        let is_still_there = fs::metadata(&partial).is_ok_and(|now| same(&now, &found));
        if !is_locked || !is_still_there {
            let why = format!(
                "another process writes {}: give another file",
                printable(path)
            );
            return Err(Failure::error(Kind::Usage, why));
        }
        let emptied = file.set_len(0);
        let lock = emptied.and_then(|()| file.try_clone());
        let lock = lock.map_err(|e| unwritable(path, &e))?;
        Ok((Self::new(path, Some((partial, lock)), force), file))
    }

    fn new(path: &Path, partial: Option<(PathBuf, File)>, force: bool) -> Self {
        Self {
            path: path.to_owned(),
            partial,
            force,
        }
    }

    /// Whether it is removed if it is not complete.
    pub const fn is_removable(&self) -> bool {
        self.partial.is_some()
    }

    /// Gives the complete file its name. Returns its size in bytes, if it has one.
    ///
    /// # Errors
    /// If it cannot be renamed, or another file has taken its name.
    pub fn keep(mut self) -> Result<Option<u64>> {
        let Some((partial, lock)) = self.partial.take() else {
            return Ok(None);
        };
        let renamed = if self.force {
            fs::rename(&partial, &self.path)
        } else {
            // unlike a rename, a link never replaces a file
            match fs::hard_link(&partial, &self.path) {
                Ok(()) => fs::remove_file(&partial),
                Err(error) if error.kind() == ErrorKind::AlreadyExists => Err(error),
                // a file system without links
                Err(_) if !self.path.exists() => fs::rename(&partial, &self.path),
                Err(error) => Err(error),
            }
        };
        match renamed {
            Ok(()) => Ok(fs::metadata(&self.path).ok().map(|m| m.len())),
            Err(error) => {
                self.partial = Some((partial, lock));
                Err(if error.kind() == ErrorKind::AlreadyExists {
                    exists(&self.path)
                } else {
                    unwritable(&self.path, &error)
                })
            }
        }
    }
}

impl Drop for OutFile {
    fn drop(&mut self) {
        if let Some((partial, _)) = &self.partial {
            // if this fails, the name shows that it is not complete
            let _ = fs::remove_file(partial);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::os::unix::fs::PermissionsExt;

    fn names(dir: &Path) -> Vec<String> {
        let names = fs::read_dir(dir).unwrap();
        let mut names: Vec<String> = names
            .map(|e| e.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }

    #[test]
    fn a_file_appears_when_it_is_complete() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("out");
        let (out, mut file) = OutFile::create(&path, false, &[]).unwrap();
        assert_eq!(names(dir.path()), ["out.partial"]);
        file.write_all(b"text").unwrap();
        assert_eq!(out.keep().unwrap(), Some(4));
        assert_eq!(names(dir.path()), ["out"]);
        assert_eq!(
            fs::metadata(&path).unwrap().permissions().mode() & 0o777,
            0o600
        );
        drop(OutFile::create(&path, false, &[]).unwrap_err());
        let (out, _) = OutFile::create(&path, true, &[]).unwrap();
        drop(out);
        assert_eq!(
            fs::read(&path).unwrap(),
            b"text",
            "a failed run keeps the old file"
        );
        assert_eq!(names(dir.path()), ["out"]);
        let (out, _) = OutFile::create(&path, true, &[]).unwrap();
        assert_eq!(out.keep().unwrap(), Some(0));
    }

    #[test]
    fn a_file_that_appears_meanwhile_is_not_replaced() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("out");
        let (out, _) = OutFile::create(&path, false, &[]).unwrap();
        fs::write(&path, "other").unwrap();
        assert!(out.keep().unwrap_err().to_string().contains("exists"));
        assert_eq!(names(dir.path()), ["out"]);
        assert_eq!(fs::read(&path).unwrap(), b"other");
    }

    #[test]
    fn an_input_is_not_replaced() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("in");
        fs::write(&path, "data").unwrap();
        let inputs = [path.clone()];
        let error = OutFile::create(&path, true, &inputs).unwrap_err();
        assert!(error.to_string().contains("recording"), "{error}");
        assert_eq!(names(dir.path()), ["in"]);
    }
}
