// SPDX-License-Identifier: MIT OR Apache-2.0
//! Metrics in a file for node_exporter's textfile collector.

use std::cell::Cell;
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::{fs, io};

use crate::error::Kind;
use crate::model::text::printable;
use anyhow::Result;

use crate::run::exit::Failure;
use crate::run::outfile::{OutFile, Refusal, Rules};

/// The file. It is removed at the end, so that it does not pass for current.
#[derive(Debug)]
pub struct Textfile {
    path: PathBuf,
    /// Whether the file is ours to remove.
    is_written: Cell<bool>,
}

impl Textfile {
    /// A file of this name, which is not written yet.
    ///
    /// # Errors
    /// If it is not a file, or its directory does not exist; one sentence.
    pub fn at(path: &Path) -> Result<Self> {
        let file = Self { path: path.to_owned(), is_written: Cell::new(false) };
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

    fn try_write(&self, text: &str) -> Result<(), Refusal> {
        // the collector, which may be another user, reads only `*.prom`. Not synced: it is written anew
        // every few seconds, and a flush would be seen in the metrics of its disk
        let rules = Rules {
            force: true,
            mode: 0o644,
            sync: false,
            replaces_links: true,
            ..Rules::default()
        };
        let (out, mut file) = OutFile::try_create(&self.path, &rules)?;
        let written = file.write_all(text.as_bytes());
        written.map_err(|error| Refusal::io(&self.path, error))?;
        out.try_keep()?;
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
        if error.is_permission() {
            return Ok(false);
        }
        Err(Failure::error(Kind::Run, error.to_string()))
    }

    /// Replaces the file.
    ///
    /// # Errors
    /// If it cannot be written; one sentence. The former file stays.
    pub fn replace(&self, text: &str) -> Result<()> {
        if self.try_replace(text)? {
            return Ok(());
        }
        let denied = Refusal::io(&self.path, io::Error::from(ErrorKind::PermissionDenied));
        Err(Failure::error(Kind::Run, denied.to_string()))
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
    use rustix::fs::{CWD, FileType, Mode, mknodat};
    use std::ffi::OsString;
    use std::os::unix::fs::{PermissionsExt, symlink};

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
        assert_eq!(names(dir.path()), ["a.prom"], "not ours before it is written");
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

    /// A pipe without a reader would block the next interval without end.
    #[test]
    fn pipes_that_appear_during_the_run_are_replaced() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.prom");
        let file = Textfile::at(&path).unwrap();
        for name in ["a.prom", "a.prom.partial"] {
            let pipe = dir.path().join(name);
            let _ = fs::remove_file(&pipe);
            mknodat(CWD, &pipe, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
            file.replace("one\n").unwrap();
            assert_eq!(fs::read_to_string(&path).unwrap(), "one\n");
        }
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
        assert!(error.contains("in the way"), "{error}");
        assert_eq!(fs::read_to_string(&path).unwrap(), "one\n");
    }
}
