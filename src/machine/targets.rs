// SPDX-License-Identifier: MIT OR Apache-2.0
//! What serves NVMe on this machine, and how it can be observed.

use std::fs;

use serde::Serialize;

use super::System;
use super::elf::Symbols;
use super::process::{Memory, Process};
use super::spdk::Spdk;
use crate::model::target::TargetKind;
use crate::model::text::Text;
use crate::target::functions::{QEMU, SPDK, needed};
use crate::target::qemu_usdt::is_enough;

/// A way to observe a target.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Way {
    /// `tracepoints`, `usdt`, `uprobes`, `log`.
    pub by: &'static str,
    /// Whether nvme-deep can use it here.
    pub usable: bool,
    /// How, or why not.
    pub how: String,
}

/// A target.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct FoundTarget {
    /// What it is.
    pub kind: TargetKind,
    /// Its process; `None` for the kernel.
    pub pid: Option<u32>,
    /// Its executable, or the kernel release.
    pub binary: Text,
    /// Its build id.
    pub build_id: Option<Text>,
    /// Its subsystems.
    pub subsystems: Vec<Text>,
    /// Ways to observe it, the best first.
    pub ways: Vec<Way>,
}

const fn way(by: &'static str, usable: bool, how: String) -> Way {
    Way { by, usable, how }
}

/// The way by uprobes. `lacks`: what is said of missing functions.
fn uprobes(system: &System, pid: u32, missing: Vec<&str>, lacks: &str, how: String) -> Way {
    match (missing.as_slice(), Memory::open(system, pid)) {
        ([], Ok(_)) => way("uprobes", true, how),
        ([], Err(error)) => way("uprobes", false, error.to_string()),
        (missing, _) => way("uprobes", false, format!("{lacks} {}", missing.join(", "))),
    }
}

fn nvmet(system: &System) -> Option<FoundTarget> {
    system.module_identity("nvmet")?;
    let dir = system.path("sys/kernel/config/nvmet/subsystems");
    let entries = fs::read_dir(dir).into_iter().flatten();
    let mut subsystems: Vec<Text> =
        entries.filter_map(|e| Some(Text::from_os(&e.ok()?.file_name()))).collect();
    subsystems.sort();
    Some(FoundTarget {
        kind: TargetKind::Nvmet,
        pid: None,
        binary: format!("Linux {}", system.release()).into(),
        build_id: None,
        subsystems,
        ways: vec![way(
            "tracepoints",
            true,
            "nvmet_req_init and nvmet_req_complete: `host trace --nvmet`".into(),
        )],
    })
}

fn qemu(system: &System, process: &Process) -> FoundTarget {
    let pid = process.pid;
    let symbols = Symbols::read(&process.exe);
    let mut ways = Vec::new();
    match &symbols {
        Err(error) => ways.push(way("uprobes", false, error.to_string())),
        Ok(symbols) => {
            let probes: Vec<&str> = symbols.usdt("qemu").map(|(name, _)| name).collect();
            let usdt = if is_enough(&probes) {
                way("usdt", true, format!("`host trace --usdt --pid {pid}`"))
            } else {
                let text = "it was built without the trace backend dtrace";
                way("usdt", false, text.into())
            };
            let missing = needed(&QEMU).filter(|name| symbols.probe(name).is_none());
            let how = format!("`host trace --pid {pid}`");
            let uprobes = uprobes(system, pid, missing.collect(), "it does not export", how);
            ways.extend([uprobes, usdt]);
        }
    }
    let log = "start it with -trace 'pci_nvme_*' -msg timestamp=on -D FILE, then `import FILE`";
    ways.push(way("log", true, log.into()));
    FoundTarget {
        kind: TargetKind::Qemu,
        pid: Some(pid),
        binary: process.name.clone(),
        build_id: symbols.ok().and_then(|s| s.build_id().map(Into::into)),
        subsystems: vec![],
        ways,
    }
}

/// The ways for a process with the code of SPDK.
fn spdk_ways(system: &System, pid: u32, code: &Spdk) -> Vec<Way> {
    let missing = needed(&SPDK).filter(|name| code.probe(name).is_none());
    let how = format!("`host trace --pid {pid}`; messages: `host msgs --pid {pid}`");
    let mut ways = vec![uprobes(system, pid, missing.collect(), "its symbols lack", how)];
    ways.push(match code.usdt("spdk").count() {
        0 => way("usdt", false, "it was built without --with-usdt".into()),
        _ => way("usdt", true, format!("changes of state, no commands: `host spdk --pid {pid}`")),
    });
    ways
}

fn spdk(system: &System, process: &Process) -> FoundTarget {
    let pid = process.pid;
    let code = Spdk::of(system, process);
    let mut ways = match &code {
        Ok(code) => spdk_ways(system, pid, code),
        Err(error) => vec![way("uprobes", false, error.to_string())],
    };
    let log = "record its trace with spdk_trace -j, then `host annotate` or `import`";
    ways.push(way("log", true, log.into()));
    let code = code.ok();
    let release = code.as_ref().and_then(Spdk::release);
    let release = release.map_or_else(String::new, |r| format!(" (SPDK {r})"));
    FoundTarget {
        kind: TargetKind::Spdk,
        pid: Some(pid),
        binary: Text::from_escaped(&format!("{}{release}", process.name)),
        build_id: code.and_then(|c| c.build_id().map(Into::into)),
        subsystems: vec![],
        ways,
    }
}

impl System {
    /// The kernel's target, and the processes that serve NVMe, as far as this user may look at them.
    pub fn targets(&self) -> Vec<FoundTarget> {
        let mut found: Vec<FoundTarget> = nvmet(self).into_iter().collect();
        for process in Process::all(self) {
            if process.is_qemu_with_nvme() {
                found.push(qemu(self, &process));
            } else if process.is_spdk() {
                found.push(spdk(self, &process));
            }
        }
        found
    }
}
