// SPDX-License-Identifier: MIT OR Apache-2.0
//! The files of a run that goes on after a trigger (`--keep`).

use std::fs::File;
use std::path::{Path, PathBuf};
use std::thread::JoinHandle;
use std::time::SystemTime;
use std::{fs, thread};

use jiff::Zoned;

use crate::machine::System;
use crate::model::text::{Text, printable};
use crate::run::eprint_note;
use crate::run::exit::usage;
use crate::run::recording::{RingFile, warn_if_traced};
use anyhow::{Result, anyhow};

/// The names of this machine's files start with this: `nvme-HOST-`.
fn prefix(host: Option<&str>) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '.' | '_');
    let host: String = host.unwrap_or_default().chars().filter(|c| is_plain(*c)).collect();
    if host.is_empty() { "nvme-".into() } else { format!("nvme-{host}-") }
}

/// The name of a new file: `nvme-HOST-YYYYMMDD-HHMMSS.nvd`, in local time.
pub(super) fn file_name(host: Option<&str>, time: &str) -> PathBuf {
    format!("{}{time}.nvd", prefix(host)).into()
}

/// The time in names.
pub(super) fn now() -> String {
    Zoned::now().strftime("%Y%m%d-%H%M%S").to_string()
}

/// The files in a directory.
#[derive(Clone)]
pub(super) struct Files {
    dir: PathBuf,
    /// In their names.
    host: Option<Text>,
    most: usize,
}

impl Files {
    /// A new name.
    fn path(&self, time: &str) -> PathBuf {
        let host = self.host.as_ref().map(Text::as_str);
        let name = |n: u32| match n {
            1 => file_name(host, time),
            n => file_name(host, &format!("{time}-{n}")),
        };
        let mut names = (1..u32::MAX).map(|n| self.dir.join(name(n)));
        names.find(|path| !path.exists()).unwrap_or_default()
    }

    /// Deletes the oldest files of this machine, until there are not more than `most`.
    fn prune(&self) -> std::io::Result<()> {
        let prefix = prefix(self.host.as_ref().map(Text::as_str));
        let is_own = |path: &Path| {
            let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
            let time = name.strip_prefix(&prefix).and_then(|rest| rest.strip_suffix(".nvd"));
            time.is_some_and(|time| {
                time.len() >= 15 && time.bytes().all(|b| b.is_ascii_digit() || b == b'-')
            })
        };
        let mut found: Vec<(SystemTime, PathBuf)> = Vec::new();
        for entry in fs::read_dir(&self.dir)? {
            let path = entry?.path();
            if is_own(&path) {
                found.push((fs::symlink_metadata(&path)?.modified()?, path));
            }
        }
        found.sort();
        let surplus = found.len().saturating_sub(self.most);
        found[..surplus].iter().try_for_each(|(_, path)| fs::remove_file(path))
    }
}

/// Writes rings to files, beside the run.
pub(super) struct Flight {
    files: Files,
    system: System,
    writing: Option<JoinHandle<Result<()>>>,
}

impl Flight {
    /// Files in this directory.
    ///
    /// # Errors
    /// If it is not a directory; one sentence.
    pub(super) fn new(
        dir: &Path,
        most: usize,
        host: Option<Text>,
        system: &System,
    ) -> Result<Self> {
        if !dir.is_dir() {
            let dir = printable(dir);
            return Err(usage(format!("-o {dir}: with --keep, give a directory that exists")));
        }
        if let Ok(file) = File::open(dir) {
            warn_if_traced(&file, &printable(dir), system);
        }
        let files = Files { dir: dir.to_owned(), host, most };
        Ok(Self { files, system: system.clone(), writing: None })
    }

    /// Whether a file is being written.
    pub(super) fn is_busy(&mut self) -> bool {
        if self.writing.as_ref().is_some_and(JoinHandle::is_finished) {
            self.go_on();
        }
        self.writing.is_some()
    }

    /// Waits for the file that is being written.
    ///
    /// # Errors
    /// If it cannot be written; one sentence.
    pub(super) fn wait(&mut self) -> Result<()> {
        let panicked = |_| Err(anyhow!("the thread that writes the ring has failed"));
        self.writing.take().map_or(Ok(()), |writing| writing.join().unwrap_or_else(panicked))
    }

    /// The same, but a file that cannot be written does not end the run.
    fn go_on(&mut self) {
        if let Err(error) = self.wait() {
            eprint_note(&format!("{error:#}; the run goes on"));
        }
    }

    /// Begins to write a file.
    pub(super) fn write(&mut self, ring: RingFile) {
        self.go_on();
        let (files, system) = (self.files.clone(), self.system.clone());
        let write = move || {
            eprint_note(&ring.write(&files.path(&now()), &system)?);
            if let Err(error) = files.prune() {
                let dir = printable(&files.dir);
                eprint_note(&format!("old files of {dir} can't be deleted: {error}"));
            }
            Ok(())
        };
        match thread::Builder::new().name("ring".into()).spawn(write) {
            Ok(thread) => self.writing = Some(thread),
            Err(error) => eprint_note(&format!("the ring can't be written: {error}")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tempfile::TempDir;

    #[test]
    fn a_file_without_a_name_has_the_host_and_the_time() {
        for (host, name) in [
            (Some("db-1.lan"), "nvme-db-1.lan-20261127-030405.nvd"),
            (Some("../a b\u{1b}"), "nvme-..ab-20261127-030405.nvd"),
            (Some("/"), "nvme-20261127-030405.nvd"),
            (None, "nvme-20261127-030405.nvd"),
        ] {
            assert_eq!(file_name(host, "20261127-030405"), Path::new(name));
        }
    }

    #[test]
    fn the_oldest_files_of_this_machine_are_deleted() {
        let dir = TempDir::new().unwrap();
        let path = |name: &str| dir.path().join(name);
        let files = Files { dir: dir.path().into(), host: Some("db1".into()), most: 2 };
        let others = ["nvme-db1-slow.nvd", "nvme-db2-20261127-030405.nvd", "nvme-db1-2026.txt"];
        others.iter().for_each(|name| fs::write(path(name), "").unwrap());
        let mut last = Vec::new();
        for n in 0..4 {
            let new = files.path("20261127-030405");
            fs::write(&new, "").unwrap();
            let time = SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(n);
            File::options().write(true).open(&new).unwrap().set_modified(time).unwrap();
            files.prune().unwrap();
            last.push(new);
        }
        let left = fs::read_dir(dir.path()).unwrap().count();
        assert_eq!(left, others.len() + 2);
        assert!(others.iter().all(|name| path(name).exists()));
        assert!(last[2..].iter().all(|path| path.exists()), "{last:?}");
    }
}
