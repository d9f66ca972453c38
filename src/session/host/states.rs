// SPDX-License-Identifier: MIT OR Apache-2.0
//! Changes of state of a target of SPDK, by its USDT probes.

use super::process::Found;
use super::usdt::{Usdt, UsdtProbe};
use crate::machine::System;
use crate::model::target::{TargetInfo, TargetKind};
use crate::target::spdk::{PROBES, Release, ToChanges};
use anyhow::Result;

/// The changes of state of a target of SPDK.
pub struct StateChanges {
    usdt: Usdt,
    found: Found,
    release: Option<Release>,
    probes: usize,
}

impl StateChanges {
    /// Those of a process.
    ///
    /// # Errors
    /// If it is not SPDK built with USDT probes, may not be traced, or the kernel refuses.
    pub fn of(system: &System, pid: u32) -> Result<Self> {
        let found = Found::at(system, pid)?;
        let known = |name: &str, args: usize| {
            let mut all = (0_u16..).zip(&PROBES);
            all.find(|(_, probe)| probe.name == name && probe.args() == args)
        };
        let probes: Vec<UsdtProbe<'_>> = found
            .code
            .usdt("spdk")
            .filter_map(|(path, name, args)| {
                let (number, probe) = known(name, args)?;
                Some(UsdtProbe {
                    path: path.to_owned(),
                    provider: "spdk",
                    name: probe.name,
                    number,
                    texts: probe.texts(),
                })
            })
            .collect();
        if probes.is_empty() {
            let reason = "it is something else, or was built without `configure --with-usdt`";
            return Err(found.no_usdt("SPDK's NVMe-oF target", reason));
        }
        Ok(Self {
            usdt: Usdt::attach(pid, &probes)?,
            probes: probes.len(),
            release: found.code.release(),
            found,
        })
    }

    /// The process.
    pub fn target(&self) -> TargetInfo {
        self.found.target(TargetKind::Spdk, "usdt")
    }

    /// The number of probes that report.
    pub const fn probes(&self) -> usize {
        self.probes
    }

    /// Passes on new changes by time, except the latest. Returns true if there may be more.
    ///
    /// # Errors
    /// If the ring cannot be read; errors of `to`.
    pub fn take(&mut self, to: ToChanges<'_>) -> Result<bool> {
        self.pass_on(false, to)
    }

    fn pass_on(&mut self, all: bool, to: ToChanges<'_>) -> Result<bool> {
        let release = self.release;
        self.usdt.take(all, &mut |hit| match PROBES.get(usize::from(hit.number)) {
            Some(probe) => to(&probe.decode(release, hit.at_ns, &hit.args, &hit.texts)),
            None => Ok(()),
        })
    }

    /// Fails if the process has ended.
    ///
    /// # Errors
    /// If it has.
    pub fn alive(&self) -> Result<()> {
        self.found.memory.alive()
    }

    /// Detaches the probes, and passes on what is left. Returns the number of hits, and of those
    /// that found no room.
    ///
    /// # Errors
    /// If the maps cannot be read; errors of `to`.
    pub fn end(&mut self, to: ToChanges<'_>) -> Result<(u64, u64)> {
        self.usdt.stop();
        self.pass_on(true, to)?;
        self.usdt.counts()
    }
}
