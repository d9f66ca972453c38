// SPDX-License-Identifier: MIT OR Apache-2.0
//! The code of a target in a process: its executable, and the shared libraries of SPDK.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io;
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use procfs::FromBufRead;
use procfs::process::{MMapPath, MemoryMaps};

use super::System;
use super::elf::Symbols;
use super::process::Process;
use crate::machine::process::{open, open_below, path_of, read_some, unreadable};
use crate::target::spdk::Release;
use anyhow::Result;

/// The prefix of SPDK's shared libraries.
const LIBRARY: &str = "libspdk_";
/// Most files of a process that are read: SPDK has some 80 libraries.
const MOST_PARTS: usize = 128;

/// Bytes of a list of mappings that are read. The kernel allows 65530 mappings unless vm.max_map_count
/// says otherwise.
const MAX_MAPS: u64 = 16 << 20;

impl System {
    /// The files that a process has mapped, each with the addresses of one mapping. Empty if this
    /// process may not look at them, or there are more than any process needs.
    pub fn mapped_files(&self, pid: u32) -> BTreeMap<PathBuf, (u64, u64)> {
        let maps = read_some(&self.path(&format!("proc/{pid}/maps")), MAX_MAPS);
        let maps = MemoryMaps::from_buf_read(maps.unwrap_or_default().as_slice());
        let maps = maps.into_iter().flatten();
        maps.filter_map(|map| match map.pathname {
            MMapPath::Path(path) => Some((path, map.address)),
            _ => None,
        })
        .collect()
    }
}

/// A file with code.
#[derive(Debug)]
struct CodeFile {
    /// The file that was checked and read.
    _file: File,
    /// A path that leads to this file, whatever has its name later.
    path: PathBuf,
    symbols: Symbols,
}

impl CodeFile {
    /// Reads the symbols of an open file. `shown` is its name in messages.
    fn of(opened: io::Result<File>, shown: &Path) -> Result<Self> {
        let file = opened.map_err(|e| unreadable(shown, &e.to_string()))?;
        let symbols = Symbols::of(&file).map_err(|e| unreadable(shown, &e))?;
        Ok(Self { path: path_of(&file), _file: file, symbols })
    }
}

/// Opens a mapped file: by its mapping, which cannot lead elsewhere. That takes CAP_CHECKPOINT_RESTORE or
/// CAP_SYS_ADMIN; otherwise by its name in the root directory of the process.
fn mapped(system: &System, pid: u32, path: &Path, (from, to): (u64, u64)) -> io::Result<File> {
    let mapping = system.path(&format!("proc/{pid}/map_files/{from:x}-{to:x}"));
    match open(&mapping) {
        Err(error) if error.kind() != ErrorKind::InvalidInput => {
            open_below(&system.path(&format!("proc/{pid}/root")), path)
        }
        opened => opened,
    }
}

/// The code of QEMU or SPDK in a process.
#[derive(Debug)]
pub struct Code {
    parts: Vec<CodeFile>,
}

impl Code {
    /// Reads the symbols of the executable and of the mapped libraries.
    ///
    /// # Errors
    /// If a file cannot be read.
    pub fn of(system: &System, process: &Process) -> Result<Self> {
        let pid = process.pid;
        let mut parts = vec![CodeFile::of(open(&process.exe), &process.exe)?];
        let is_library = |path: &Path| {
            let name = path.file_name().and_then(|name| name.to_str());
            name.is_some_and(|name| name.starts_with(LIBRARY))
        };
        let mut seen = BTreeSet::new();
        for (path, range) in system.mapped_files(pid) {
            if !is_library(&path) {
                continue;
            }
            let file = mapped(system, pid, &path, range);
            // the process chooses how many names its libraries have
            let is_new = file
                .as_ref()
                .ok()
                .and_then(|f| f.metadata().ok())
                .is_none_or(|m| seen.insert((m.dev(), m.ino())));
            if is_new && parts.len() < MOST_PARTS {
                parts.push(CodeFile::of(file, &path)?);
            }
        }
        Ok(Self { parts })
    }

    /// Where to probe a function: the file, and the place in it.
    pub fn probe(&self, function: &str) -> Option<(&Path, usize)> {
        let mut found = self.parts.iter();
        found.find_map(|part| Some((&*part.path, *part.symbols.functions.get(function)?)))
    }

    /// The USDT probes of this provider: file, name, number of arguments.
    pub fn usdt(&self, provider: &'static str) -> impl Iterator<Item = (&Path, &str, usize)> {
        self.parts.iter().flat_map(move |part| {
            let probes = part.symbols.probes.get(provider).into_iter().flatten();
            probes.map(|(name, args)| (&*part.path, name.as_str(), *args))
        })
    }

    /// The release of SPDK; `None` if it is not in the data of the files.
    pub fn release(&self) -> Option<Release> {
        self.parts.iter().find_map(|p| Release::parse(p.symbols.spdk_release.as_ref()?))
    }
}
