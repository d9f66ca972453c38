// SPDX-License-Identifier: MIT OR Apache-2.0
//! Metrics in a file for node_exporter's textfile collector.

use std::cell::Cell;
use std::fs::Permissions;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::{fs, io};

use crate::error::{Failure, Kind};
use crate::model::text::printable;
use anyhow::Result;
use tempfile::NamedTempFile;

use crate::run::exit::usage;

/// The file. It is removed at the end, so that old values do not pass for current.
#[derive(Debug)]
pub struct Textfile {
    path: PathBuf,
    /// Whether the file is ours to remove.
    is_written: Cell<bool>,
}

impl Textfile {
    /// A file with this name, which is not written yet.
    ///
    /// # Errors
    /// If it is not a file, or its directory does not exist; one sentence.
    pub fn at(path: &Path) -> Result<Self> {
        let refused = |why: &str| usage(format!("{} {why}", printable(path)));
        if !dir_of(path).is_dir() {
            return Err(refused("can't be written: its directory does not exist"));
        }
        match fs::symlink_metadata(path) {
            Ok(found) if !found.is_file() => Err(refused("is not a file: give another name")),
            _ => Ok(Self { path: path.to_owned(), is_written: Cell::new(false) }),
        }
    }

    /// Replaces the file.
    ///
    /// # Errors
    /// If it cannot be written; one sentence. The former file stays.
    pub fn replace(&self, text: &str) -> Result<()> {
        self.try_replace(text).map_err(|error| {
            let path = printable(&self.path);
            Failure::error(Kind::Run, format!("{path} can't be written ({error}): write elsewhere"))
        })
    }

    /// Not synced: it is written anew every few seconds, and a flush would be seen in the metrics of its
    /// disk.
    fn try_replace(&self, text: &str) -> io::Result<()> {
        // the collector reads only `*.prom`
        let file = NamedTempFile::new_in(dir_of(&self.path))?;
        file.as_file().write_all(text.as_bytes())?;
        // the collector may be another user
        file.as_file().set_permissions(Permissions::from_mode(0o644))?;
        file.persist(&self.path)?;
        self.is_written.set(true);
        Ok(())
    }
}

fn dir_of(path: &Path) -> &Path {
    path.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."))
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
    use std::ffi::OsString;
    use std::os::unix::fs::symlink;

    fn names(dir: &Path) -> Vec<OsString> {
        let names = fs::read_dir(dir).unwrap();
        names.map(|e| e.unwrap().file_name()).collect()
    }

    #[test]
    fn the_file_is_replaced_as_a_whole_and_removed_at_the_end() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.prom");
        let file = Textfile::at(&path).unwrap();
        fs::write(&path, "from another run").unwrap();
        drop(Textfile::at(&path).unwrap());
        assert_eq!(names(dir.path()), ["a.prom"], "not ours before it is written");
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
    fn a_link_that_appears_during_the_run_is_replaced_and_not_followed() {
        let dir = tempfile::tempdir().unwrap();
        let (path, victim) = (dir.path().join("a.prom"), dir.path().join("victim"));
        fs::write(&victim, "precious").unwrap();
        let file = Textfile::at(&path).unwrap();
        symlink(&victim, &path).unwrap();
        file.replace("one\n").unwrap();
        assert_eq!(fs::read_to_string(&victim).unwrap(), "precious");
        assert!(fs::symlink_metadata(&path).unwrap().is_file());
    }
}
