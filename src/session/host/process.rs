// SPDX-License-Identifier: MIT OR Apache-2.0
//! Attaches to a process: QEMU or SPDK.

use std::path::Path;

use super::HostSession;
use super::attach::{HOST, Hook, attach, load};
use crate::error::{Failure, Kind};
use crate::machine::System;
use crate::machine::code::Code;
use crate::machine::process::{Memory, Process};
use crate::model::target::{HostClock, TargetInfo, TargetKind};
use crate::session::read;
use crate::settings::HostOptions;
use crate::target::functions::{QEMU, SPDK, Wanted};
use crate::target::spdk::Layout;
use anyhow::{Error, Result};

/// Offset of the command in QEMU's `struct NvmeRequest` (hw/nvme/nvme.h, 6.1 to 10.0).
const QEMU_REQUEST_CMD: u32 = 56;

/// A process to attach to.
pub(super) struct Found {
    pub process: Process,
    pub memory: Memory,
    pub code: Code,
}

impl Found {
    /// Looks at a process.
    pub fn at(system: &System, pid: u32) -> Result<Self> {
        let process = Process::at(system, pid)?;
        let memory = Memory::open(system, pid)?;
        let code = Code::of(system, &process)?;
        Ok(Self { process, memory, code })
    }

    /// An error that begins with the process.
    fn refused(&self, why: &str) -> Error {
        let Process { pid, name, .. } = &self.process;
        Failure::error(Kind::Usage, format!("process {pid} ({name}) {why}"))
    }

    /// It has no USDT probes of this kind.
    pub fn no_usdt(&self, provider: &str, reason: &str) -> Error {
        self.refused(&format!("has no USDT probes of {provider}: {reason}"))
    }

    /// A function that must be there.
    pub fn probe(&self, symbol: &str, reason: &str) -> Result<(&Path, usize)> {
        let found = self.code.probe(symbol);
        found.ok_or_else(|| self.refused(&format!("has no symbol {symbol}: {reason}")))
    }

    /// The target in recordings and reports.
    pub fn target(&self, kind: TargetKind, by: &str) -> TargetInfo {
        TargetInfo {
            kind,
            by: by.into(),
            pid: Some(self.process.pid),
            binary: Some(self.process.name.clone()),
            version: self.code.release().map(|r| r.to_string().into()),
            build_id: self.code.build_id().map(Into::into),
            clock: HostClock::Monotonic,
            resolution_ns: 1,
        }
    }

    /// The places of the programs.
    fn hooks<'a>(&'a self, programs: &[&Wanted], reason: &'static str) -> Result<Vec<Hook<'a>>> {
        let mut hooks = Vec::new();
        for wanted in programs {
            let places = wanted.functions.iter().map(|f| self.probe(f, reason));
            for place in places.filter(|p| !wanted.is_optional || p.is_ok()) {
                let (path, offset) = place?;
                hooks.push(Hook { program: wanted.program, path, offset });
            }
        }
        Ok(hooks)
    }
}

impl HostSession {
    /// Traces a process: QEMU, or a target of SPDK.
    ///
    /// # Errors
    /// If the process is none of them, may not be traced, or the kernel refuses the programs.
    pub fn process(system: &System, pid: u32, options: HostOptions) -> Result<Self> {
        let found = Found::at(system, pid)?;
        let has = |function| found.code.probe(function).is_some();
        let (kind, programs, mut layout, reason) = if has("spdk_nvmf_request_exec") {
            let reason = "it was stripped, and this function is not exported; record its trace with \
                          spdk_trace instead";
            (TargetKind::Spdk, &SPDK[..], Layout::of(found.code.release()), reason)
        } else if has("nvme_rw_complete_cb") {
            let layout = Layout { request_cmd: QEMU_REQUEST_CMD, ..Layout::of(None) };
            let reason = "it is a QEMU without dynamic symbols; import its log instead";
            (TargetKind::Qemu, &QEMU[..], layout, reason)
        } else {
            return Err(found.refused(
                "is no target, or was stripped: it has neither nvme_rw_complete_cb (QEMU with NVMe) nor \
                 spdk_nvmf_request_exec (SPDK) among its symbols",
            ));
        };
        layout.request_cmd += options.shift;
        let chosen = programs.iter();
        let chosen: Vec<&Wanted> = chosen.filter(|w| !(w.is_inner && options.ends_only)).collect();
        let hooks = found.hooks(&chosen, reason)?;
        let names: Vec<&str> = chosen.iter().map(|wanted| wanted.program).collect();
        let loaded = load(HOST, &names, pid, layout)?;
        let stats = options.measure.then(read::enable_stats).flatten();
        let links = attach(&loaded, pid, &hooks)?;
        let target = found.target(kind, "uprobes");
        Self::new((loaded, links, programs), target, Some(found.memory), stats)
    }
}
