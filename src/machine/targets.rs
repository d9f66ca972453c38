// SPDX-License-Identifier: MIT OR Apache-2.0
//! What serves NVMe on this machine, and how it can be observed.

use std::fs;

use serde::Serialize;

use super::System;
use super::code::Code;
use super::process::{Memory, Process};
use crate::model::target::TargetKind;
use crate::model::text::Text;
use crate::target::functions::{QEMU, SPDK, needed};
use crate::target::qemu::is_enough;

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
    /// Its subsystems.
    pub subsystems: Vec<Text>,
    /// Ways to observe it, the best first.
    pub ways: Vec<Way>,
}

fn way(by: &'static str, how: Result<String, String>) -> Way {
    Way { by, usable: how.is_ok(), how: how.unwrap_or_else(|why| why) }
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
        subsystems,
        ways: vec![way("tracepoints", Ok("`host trace --nvmet`".into()))],
    })
}

/// The ways for a process with this code: uprobes and USDT.
fn ways(system: &System, kind: TargetKind, pid: u32, code: &Code) -> Vec<Way> {
    let is_qemu = kind == TargetKind::Qemu;
    let (programs, lacks, provider) = match is_qemu {
        true => (&QEMU[..], "it does not export", "qemu"),
        false => (&SPDK[..], "its symbols lack", "spdk"),
    };
    let messages =
        if is_qemu { String::new() } else { format!("; messages: `host msgs --pid {pid}`") };
    let missing: Vec<&str> = needed(programs).filter(|name| code.probe(name).is_none()).collect();
    let uprobes = match missing[..] {
        [] => Memory::open(system, pid).map_err(|error| error.to_string()),
        _ => Err(format!("{lacks} {}", missing.join(", "))),
    };
    let uprobes = uprobes.map(|_| format!("`host trace --pid {pid}`{messages}"));
    let probes: Vec<&str> = code.usdt(provider).map(|(_, name, _)| name).collect();
    let usdt = match is_qemu {
        true if is_enough(&probes) => Ok(format!("`host trace --usdt --pid {pid}`")),
        true => Err("it was built without the trace backend dtrace".into()),
        false if probes.is_empty() => Err("it was built without --with-usdt".into()),
        false => Ok(format!("changes of state, no commands: `host spdk --pid {pid}`")),
    };
    vec![way("uprobes", uprobes), way("usdt", usdt)]
}

fn process(system: &System, process: &Process, kind: TargetKind) -> FoundTarget {
    let pid = process.pid;
    let code = Code::of(system, process);
    let mut ways = match &code {
        Ok(code) => ways(system, kind, pid, code),
        Err(error) => vec![way("uprobes", Err(error.to_string()))],
    };
    let log = match kind {
        TargetKind::Qemu => {
            "start it with -trace 'pci_nvme_*' -msg timestamp=on -D FILE, then `import FILE`"
        }
        _ => "record its trace with spdk_trace -j, then `host annotate` or `import`",
    };
    ways.push(way("log", Ok(log.into())));
    let release = code.ok().and_then(|code| code.release());
    let release = release.map_or_else(String::new, |r| format!(" (SPDK {r})"));
    FoundTarget {
        kind,
        pid: Some(pid),
        binary: Text::from_escaped(&format!("{}{release}", process.name)),
        subsystems: vec![],
        ways,
    }
}

impl System {
    /// The kernel's target, and the processes that serve NVMe, as far as this user may look at them.
    pub fn targets(&self) -> Vec<FoundTarget> {
        let mut found: Vec<FoundTarget> = nvmet(self).into_iter().collect();
        for found_process in Process::all(self) {
            found.extend(found_process.kind().map(|kind| process(self, &found_process, kind)));
        }
        found
    }
}
