// SPDX-License-Identifier: MIT OR Apache-2.0
//! The code of SPDK in a process: its executable, or shared libraries.

use std::path::Path;
use std::path::PathBuf;

use super::System;
use super::elf::Probe;
use super::elf::Symbols;
use super::process::Process;
use super::process::TargetError;
use crate::host::spdk::Release;

/// How the names of SPDK's shared libraries begin.
const LIBRARY: &str = "libspdk_";

/// A file with code of SPDK.
#[derive(Debug)]
struct Part {
    /// A path by which it can be read from outside of the process's mount namespace.
    path: PathBuf,
    symbols: Symbols,
}

/// The code of SPDK in a process.
#[derive(Debug)]
pub struct Spdk {
    parts: Vec<Part>,
}

impl Spdk {
    /// Reads the symbols of the executable and of the mapped libraries.
    ///
    /// # Errors
    /// If a file cannot be read.
    pub fn of(system: &System, process: &Process) -> Result<Self, TargetError> {
        let pid = process.pid;
        let mut parts = vec![Part {
            path: process.exe.clone(),
            symbols: Symbols::read(&process.exe)?,
        }];
        let is_library = |path: &&PathBuf| {
            let name = path.file_name().and_then(|name| name.to_str());
            name.is_some_and(|name| name.starts_with(LIBRARY))
        };
        for path in system.mapped_files(pid).iter().filter(is_library) {
            let path = system.path(&format!("proc/{pid}/root{}", path.display()));
            let symbols = Symbols::read(&path)?;
            parts.push(Part { path, symbols });
        }
        Ok(Self { parts })
    }

    /// Where to probe a function: the file, and the place in it.
    pub fn probe(&self, function: &str) -> Option<(&Path, Probe)> {
        let mut found = self.parts.iter();
        found.find_map(|part| Some((&*part.path, part.symbols.probe(function)?)))
    }

    /// The USDT probes of this provider: file, name, number of arguments.
    pub fn usdt(&self, provider: &'static str) -> impl Iterator<Item = (&Path, &str, usize)> {
        self.parts.iter().flat_map(move |part| {
            let probes = part.symbols.usdt(provider);
            probes.map(|(name, args)| (&*part.path, name, args))
        })
    }

    /// Its release; `None` if it is not in the data of the files.
    pub fn release(&self) -> Option<Release> {
        let texts = self.parts.iter().filter_map(|p| p.symbols.spdk_release());
        texts.into_iter().find_map(Release::parse)
    }

    /// The build id of the executable.
    pub fn build_id(&self) -> Option<&str> {
        self.parts.first().and_then(|part| part.symbols.build_id())
    }
}
