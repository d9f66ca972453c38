// SPDX-License-Identifier: MIT OR Apache-2.0
//! Metrics in a file for node_exporter's textfile collector.

use std::cell::Cell;
use std::ffi::OsString;
use std::fs;
use std::fs::File;
use std::fs::Permissions;
use std::io;
use std::io::ErrorKind;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::path::PathBuf;

use anyhow::Result;
use nvme_deep::error::Kind;
use nvme_deep::model::untrusted::printable;

use crate::exit::Failure;

/// The file. It is removed at the end, so that it does not pass for current.
#[derive(Debug)]
pub struct Textfile {
    path: PathBuf,
    /// Complete before it gets the name of the file. The collector reads only `*.prom`.
    partial: PathBuf,
    /// Whether the file is ours to remove.
    is_written: Cell<bool>,
}

impl Textfile {
    /// A file of this name, which is not written yet.
    ///
    /// # Errors
    /// If it is not a file, or its directory does not exist; one sentence.
    pub fn at(path: &Path) -> Result<Self> {
        let mut partial = OsString::from(path);
        partial.push(".partial");
        let file = Self {
            path: path.to_owned(),
            partial: partial.into(),
            is_written: Cell::new(false),
        };
        let usage = |why: &str| Failure::error(Kind::Usage, format!("{} {why}", printable(path)));
        let parent = path.parent().filter(|p| !p.as_os_str().is_empty());
        if !parent.unwrap_or(Path::new(".")).is_dir() {
            return Err(usage("can't be written: its directory does not exist"));
        }
        match fs::symlink_metadata(path) {
            Ok(found) if !found.is_file() => Err(usage("is not a file: give another name")),
            _ => Ok(file),
        }
    }

    fn try_write(&self, text: &str) -> io::Result<()> {
        // left by a process that was killed; create_new follows no link
        let _ = fs::remove_file(&self.partial);
        let mut options = File::options();
        let mut file = options.write(true).create_new(true).open(&self.partial)?;
        file.set_permissions(Permissions::from_mode(0o644))?;
        file.write_all(text.as_bytes())?;
        fs::rename(&self.partial, &self.path)?;
        self.is_written.set(true);
        Ok(())
    }

    /// Replaces the file. Returns false if that is not permitted.
    ///
    /// # Errors
    /// If it cannot be written for another reason; one sentence. The former file stays.
    pub fn try_replace(&self, text: &str) -> Result<bool> {
        let Err(error) = self.try_write(text) else {
            return Ok(true);
        };
        let _ = fs::remove_file(&self.partial);
        if error.kind() == ErrorKind::PermissionDenied {
            return Ok(false);
        }
        Err(self.failure(&error))
    }

    /// Replaces the file.
    ///
    /// # Errors
    /// If it cannot be written; one sentence. The former file stays.
    pub fn replace(&self, text: &str) -> Result<()> {
        if self.try_replace(text)? {
            return Ok(());
        }
        Err(self.failure(&ErrorKind::PermissionDenied.into()))
    }

    fn failure(&self, error: &io::Error) -> anyhow::Error {
        let path = printable(&self.path);
        let why = format!("{path} can't be written ({error}): make room, or give another file");
        Failure::error(Kind::Run, why)
    }
}

impl Drop for Textfile {
    fn drop(&mut self) {
        if self.is_written.get() {
            let _ = fs::remove_file(&self.path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(dir: &Path) -> Vec<OsString> {
        let names = fs::read_dir(dir).unwrap();
        names.map(|e| e.unwrap().file_name()).collect()
    }

    #[test]
    fn the_file_is_replaced_as_a_whole_and_removed_at_the_end() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.prom");
        let file = Textfile::at(&path).unwrap();
        fs::write(&path, "of another run").unwrap();
        drop(Textfile::at(&path).unwrap());
        assert_eq!(
            names(dir.path()),
            ["a.prom"],
            "not ours before it is written"
        );
        fs::write(dir.path().join("a.prom.partial"), "left").unwrap();
        for text in ["one\n", "two\n"] {
            file.replace(text).unwrap();
            assert_eq!(fs::read_to_string(&path).unwrap(), text);
            let mode = fs::metadata(&path).unwrap().permissions().mode();
            assert_eq!(mode & 0o777, 0o644);
        }
        assert_eq!(names(dir.path()), ["a.prom"]);
        drop(file);
        assert!(names(dir.path()).is_empty());
    }

    #[test]
    fn what_is_not_a_file_or_has_no_directory_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let error = Textfile::at(dir.path()).unwrap_err().to_string();
        assert!(error.contains("is not a file"), "{error}");
        let missing = dir.path().join("no/a.prom");
        let error = Textfile::at(&missing).unwrap_err().to_string();
        assert!(error.contains("directory does not exist"), "{error}");
    }

    #[test]
    fn a_failed_write_keeps_the_former_file() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.prom");
        let file = Textfile::at(&path).unwrap();
        file.replace("one\n").unwrap();
        // a directory in the way of the partial file
        fs::create_dir(dir.path().join("a.prom.partial")).unwrap();
        let error = file.replace("two\n").unwrap_err().to_string();
        assert!(error.contains("can't be written"), "{error}");
        assert_eq!(fs::read_to_string(&path).unwrap(), "one\n");
    }
}
