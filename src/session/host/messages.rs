// SPDX-License-Identifier: MIT OR Apache-2.0
//! Messages between the threads of SPDK, counted by function.

use libbpf_rs::{Link, MapCore, MapFlags};

use super::attach::{Constants, Hook, attach, configure, load, open};
use super::process::Found;
use crate::abi::nd_host_count;
use crate::error::failed;
use crate::machine::System;
use crate::model::target::{Call, TargetInfo, TargetKind};
use crate::session::load::Loaded;
use crate::session::read;
use anyhow::Result;

/// The map of the counts.
const MAP: &str = "messages";

/// The programs, and the functions of SPDK that pass on a function. In the order of
/// `ND_SPDK_SEND_MSG` and `ND_SPDK_EACH_CHANNEL`.
const CALLS: [(&str, &str); 2] =
    [("spdk_send_msg", "spdk_thread_send_msg"), ("spdk_each_channel", "spdk_for_each_channel")];

/// Counts messages while it lives.
pub struct Messages {
    loaded: Loaded,
    links: Vec<Link>,
    found: Found,
}

impl Messages {
    /// Counts the messages of a process.
    ///
    /// # Errors
    /// If it is no process of SPDK, may not be traced, or the kernel refuses the programs.
    pub fn of(system: &System, pid: u32) -> Result<Self> {
        let found = Found::at(system, pid)?;
        let mut open = open()?;
        let constants = Constants { tgid: pid, ..Constants::default() };
        let mut hooks = Vec::new();
        for (program, function) in CALLS {
            let (path, offset) = found.probe(function, "it is no process of SPDK")?;
            hooks.push(Hook { program, path, offset });
        }
        configure(&mut open, &constants);
        let loaded = load(open, &CALLS.map(|(program, _)| program))?;
        let links: Result<Vec<Link>> = hooks.iter().map(|h| attach(&loaded, pid, h)).collect();
        Ok(Self { loaded, links: links?, found })
    }

    /// The process.
    pub fn target(&self) -> TargetInfo {
        self.found.target(TargetKind::Spdk, "uprobes")
    }

    /// Fails if the process has ended.
    ///
    /// # Errors
    /// If it has.
    pub fn alive(&self) -> Result<()> {
        self.found.memory.alive()
    }

    /// Detaches the programs.
    pub fn stop(&mut self) {
        self.links.clear();
    }

    /// Calls that were not counted: the map was full, or the kernel skipped the program.
    ///
    /// # Errors
    /// If the counts cannot be read.
    pub fn lost(&self) -> Result<u64> {
        let runs = read::program_runs(&self.loaded.0);
        let skipped: u64 = runs.values().map(|run| run.misses).sum();
        Ok(super::host_count(&self.loaded, nd_host_count::ND_HOST_NO_ROOM)? + skipped)
    }

    /// The counts, the most frequent first.
    ///
    /// # Errors
    /// If they cannot be read.
    pub fn counts(&self) -> Result<Vec<Call>> {
        let map = self.loaded.map(MAP)?;
        let mut counts = Vec::new();
        for key in map.keys() {
            let value = map.lookup(&key, MapFlags::ANY);
            let value = value.map_err(failed(format!("read map `{MAP}`")))?;
            let (words, _) = key.as_chunks::<8>();
            let [function, call] = *words else { continue };
            let count = value.and_then(|v| v.try_into().ok().map(u64::from_ne_bytes));
            let by = usize::try_from(u64::from_ne_bytes(call)).ok();
            let by = by.and_then(|n| CALLS.get(n));
            if let (Some(count), Some((_, by))) = (count, by) {
                counts.push(Call { by, function: u64::from_ne_bytes(function), count });
            }
        }
        counts.sort_by_key(|c| (c.by, std::cmp::Reverse(c.count), c.function));
        Ok(counts)
    }
}
