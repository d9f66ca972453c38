// SPDX-License-Identifier: MIT OR Apache-2.0
//! Messages between the threads of SPDK, counted by function.

use std::time::{Duration, Instant};

use libbpf_rs::{Link, MapCore, MapFlags};

use super::attach::{HOST, Hook, attach, load};
use super::process::Found;
use crate::abi::nd_host_count;
use crate::error::failed;
use crate::machine::System;
use crate::model::ledger::HostLedger;
use crate::model::target::{Call, TargetInfo, TargetKind};
use crate::session::load::Loaded;
use crate::session::read;
use crate::source::{HostSource, ToEvents};
use crate::target::spdk::Layout;
use anyhow::Result;

/// The map of the counts.
const MAP: &str = "messages";

/// The programs, and the functions of SPDK that pass on a function. In the order of
/// `ND_SPDK_SEND_MSG` and `ND_SPDK_EACH_CHANNEL`.
const CALLS: [(&str, &str); 2] =
    [("spdk_send_msg", "spdk_thread_send_msg"), ("spdk_each_channel", "spdk_for_each_channel")];

/// Time between two looks at the counts. A function that is unloaded earlier has no name.
const LOOK: Duration = Duration::from_millis(500);

/// Counts messages while it lives. Its events are the counts so far.
pub struct Messages {
    loaded: Loaded,
    links: Vec<Link>,
    found: Found,
    target: TargetInfo,
    looked: Option<Instant>,
}

impl Messages {
    /// Counts the messages of a process.
    ///
    /// # Errors
    /// If it is no process of SPDK, may not be traced, or the kernel refuses the programs.
    pub fn of(system: &System, pid: u32) -> Result<Self> {
        let found = Found::at(system, pid)?;
        let hook = |(program, function)| {
            let (path, offset) = found.probe(function, "it is no process of SPDK")?;
            Ok(Hook { program, path, offset })
        };
        let hooks: Vec<Hook<'_>> = CALLS.into_iter().map(hook).collect::<Result<_>>()?;
        let loaded = load(HOST, &CALLS.map(|(program, _)| program), pid, Layout::of(None))?;
        let links = attach(&loaded, pid, &hooks)?;
        let target = found.target(TargetKind::Spdk, "uprobes");
        Ok(Self { loaded, links, found, target, looked: None })
    }

    fn counts(&self, to: ToEvents<'_, Call>) -> Result<()> {
        let map = self.loaded.map(MAP)?;
        for key in map.keys() {
            let value = map.lookup(&key, MapFlags::ANY);
            let value = value.map_err(failed(format!("read map `{MAP}`")))?;
            let (words, _) = key.as_chunks::<8>();
            let [function, call] = *words else { continue };
            let count = value.and_then(|v| v.try_into().ok().map(u64::from_ne_bytes));
            let by = usize::try_from(u64::from_ne_bytes(call)).ok();
            let by = by.and_then(|n| CALLS.get(n));
            if let (Some(count), Some((_, by))) = (count, by) {
                to(&Call { by, function: u64::from_ne_bytes(function), count }, &[])?;
            }
        }
        Ok(())
    }
}

impl HostSource<Call> for Messages {
    fn target(&self) -> &TargetInfo {
        &self.target
    }

    fn take(&mut self, to: ToEvents<'_, Call>) -> Result<bool> {
        if self.looked.is_none_or(|at| at.elapsed() >= LOOK) {
            self.counts(to)?;
            self.looked = Some(Instant::now());
        }
        Ok(false)
    }

    fn alive(&self) -> Result<()> {
        self.found.memory.alive()
    }

    fn end(&mut self, to: ToEvents<'_, Call>) -> Result<HostLedger> {
        let runs = read::program_runs(&self.loaded.0);
        self.links.clear();
        self.counts(to)?;
        // the map was full, or the kernel skipped the program
        let no_room = super::host_count(&self.loaded, nd_host_count::ND_HOST_NO_ROOM)?;
        let skipped: u64 = runs.values().map(|run| run.misses).sum();
        Ok(HostLedger { lost: no_room + skipped, ..HostLedger::default() })
    }
}
