// SPDX-License-Identifier: MIT OR Apache-2.0
//! Loads and attaches the programs of a target.

use std::path::PathBuf;

use libbpf_rs::Link;
use libbpf_rs::ObjectBuilder;
use libbpf_rs::OpenObject;
use libbpf_rs::UprobeOpts;

use super::HostSession;
use crate::error::Error;
use crate::error::Operation;
use crate::error::Result;
use crate::machine::System;
use crate::machine::elf::Symbols;
use crate::machine::missing_capabilities;
use crate::machine::process::Memory;
use crate::machine::process::Process;
use crate::machine::process::TargetError;
use crate::recording::HostClock;
use crate::recording::TargetInfo;
use crate::recording::TargetKind;
use crate::session::libbpf_log;
use crate::session::load::refusal;
use crate::session::loaded::Loaded;
use crate::session::read;

/// The map with the constants.
const CONSTANTS: &str = ".rodata";

/// Programs for QEMU, and the functions that each may be attached to.
const QEMU: [(&str, &[&str]); 4] = [
    ("qemu_done", &["nvme_rw_complete_cb"]),
    (
        "qemu_submit",
        &[
            "dma_blk_read",
            "dma_blk_write",
            "blk_aio_preadv",
            "blk_aio_pwritev",
        ],
    ),
    ("qemu_interrupt", &["msix_notify"]),
    // last, so that no command is without its later points
    ("qemu_fetch", &["nvme_map_dptr"]),
];

fn open() -> Result<OpenObject> {
    let missing = missing_capabilities();
    if !missing.is_empty() {
        return Err(Error::NotPermitted { missing });
    }
    libbpf_log::forget();
    let object = include_bytes!(concat!(env!("OUT_DIR"), "/host.bpf.o"));
    let mut builder = ObjectBuilder::default();
    let builder = builder
        .name("nvme_deep")
        .map_err(Operation::NameObject.failed())?;
    builder
        .open_memory(object)
        .map_err(Operation::OpenObject.failed())
}

fn load(mut open: OpenObject, programs: &[&str]) -> Result<Loaded> {
    for mut program in open.progs_mut() {
        let wanted = programs.iter().any(|name| program.name() == *name);
        program.set_autoload(wanted);
    }
    Ok(Loaded(open.load().map_err(refusal)?))
}

/// Sets the process id, and moves the offset of the command in its request: the only constants.
fn set_process(open: &mut OpenObject, pid: u32, shift: u32) {
    let mut maps = open.maps_mut();
    let constants = maps.find(|m| {
        let name = m.name().to_str();
        name.is_some_and(|name| name.ends_with(CONSTANTS))
    });
    if let Some(mut map) = constants
        && let Some(value) = map.initial_value_mut()
        && let ([tgid, offset, ..], _) = value.as_chunks_mut::<4>()
    {
        *tgid = pid.to_ne_bytes();
        *offset = (u32::from_ne_bytes(*offset) + shift).to_ne_bytes();
    }
}

impl HostSession {
    /// Traces the kernel's target. `measure`: also the run times of the programs.
    ///
    /// # Errors
    /// If it is not loaded, or the kernel refuses the programs.
    pub fn nvmet(system: &System, measure: bool) -> Result<Self> {
        if system.module_identity("nvmet").is_none() {
            return Err(TargetError::NoNvmet.into());
        }
        let loaded = load(open()?, &["nvmet_init", "nvmet_complete"])?;
        let stats = measure.then(read::enable_stats).flatten();
        let mut links = Vec::new();
        // the end first, so that no command is without its end
        for name in ["nvmet_complete", "nvmet_init"] {
            let program = loaded.0.progs_mut().find(|p| p.name() == name);
            links.extend(program.map(|p| p.attach()).transpose()?);
        }
        let target = TargetInfo {
            kind: TargetKind::Nvmet,
            by: "tracepoints".into(),
            clock: HostClock::Monotonic,
            resolution_ns: 1,
            version: Some(system.release()),
            ..TargetInfo::default()
        };
        Self::new(loaded, links, target, None, stats)
    }

    /// Traces a QEMU process. `measure`: also the run times of the programs. `shift`: for tests, an
    /// error of the layout in bytes.
    ///
    /// # Errors
    /// If the process is no QEMU with NVMe, may not be traced, or the kernel refuses the programs.
    pub fn qemu(system: &System, pid: u32, measure: bool, shift: u32) -> Result<Self> {
        let process = Process::at(system, pid)?;
        let memory = Memory::open(system, pid)?;
        let symbols = Symbols::read(&process.exe)?;
        let exe = PathBuf::from(format!("/proc/{pid}/exe"));
        let mut open = open()?;
        set_process(&mut open, pid, shift);
        let loaded = load(open, &QEMU.map(|(program, _)| program))?;
        let stats = measure.then(read::enable_stats).flatten();
        let mut links: Vec<Link> = Vec::new();
        for (program, functions) in QEMU {
            for function in functions {
                let offset = symbols.probe_offset(function);
                let offset = offset.ok_or_else(|| TargetError::NoSymbol {
                    pid,
                    binary: process.name.clone(),
                    symbol: (*function).into(),
                })?;
                let program = loaded.0.progs_mut().find(|p| p.name() == program);
                let options = UprobeOpts::default();
                let attach = |p: libbpf_rs::ProgramMut<'_>| {
                    p.attach_uprobe_with_opts(pid.cast_signed(), &exe, offset, options)
                };
                links.extend(program.map(attach).transpose()?);
            }
        }
        let target = TargetInfo {
            kind: TargetKind::Qemu,
            by: "uprobes".into(),
            pid: Some(pid),
            binary: Some(process.name),
            version: process.version,
            build_id: symbols.build_id().map(ToOwned::to_owned),
            clock: HostClock::Monotonic,
            resolution_ns: 1,
        };
        Self::new(loaded, links, target, Some(memory), stats)
    }
}
