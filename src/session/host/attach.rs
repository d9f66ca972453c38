// SPDX-License-Identifier: MIT OR Apache-2.0
//! Loads the programs of a target, and attaches them: to tracepoints of the kernel, or to functions and
//! USDT probes of a process.

use std::path::Path;

use libbpf_rs::{Link, UprobeOpts};

use super::{Decoder, HostSession, usdt};
use crate::error::{Failure, Kind, not_permitted};
use crate::machine::code::Code;
use crate::machine::process::{Memory, Process};
use crate::machine::{System, missing_capabilities};
use crate::model::target::{TargetInfo, TargetKind};
use crate::session::load::{self, Loaded, refusal};
use crate::settings::{ChosenTarget, HostOptions};
use crate::target::functions::{MESSAGES, NVMET, QEMU, SPDK, Wanted};
use crate::target::spdk::Layout;
use anyhow::{Error, Result};

/// bpf/host.bpf.c.
const HOST: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/host.bpf.o"));
/// The map with the constants.
const CONSTANTS: &str = ".rodata";
/// Offset of the command in QEMU's `struct NvmeRequest` (hw/nvme/nvme.h, 6.1 to 10.0).
const QEMU_REQUEST_CMD: u32 = 56;

/// Traces a target of this machine.
///
/// # Errors
/// If it is not there, may not be traced, or the kernel refuses the programs.
pub fn target(system: &System, chosen: ChosenTarget, options: HostOptions) -> Result<HostSession> {
    match chosen {
        ChosenTarget::Nvmet => nvmet(system, options.measure),
        ChosenTarget::Process(pid) => process(Found::at(system, pid)?, options),
        ChosenTarget::Usdt(pid) => usdt::qemu(Found::at(system, pid)?),
        ChosenTarget::States(pid) => usdt::state_changes(Found::at(system, pid)?),
        ChosenTarget::Messages(pid) => {
            let found = Found::at(system, pid)?;
            let (kind, layout) = (TargetKind::Spdk, Layout::of(None));
            let decoder = Decoder::Calls(&MESSAGES);
            uprobes(found, (kind, decoder), layout, "it is no process of SPDK", options)
        }
    }
}

/// Loads these programs of an object for a process, 0 for the kernel. The constants are `host_config` of
/// bpf/host.bpf.c; bpf/usdt.bpf.c has the first one alone.
pub fn load(object: &[u8], programs: &[&str], tgid: u32, layout: Layout) -> Result<Loaded> {
    let missing = missing_capabilities();
    if !missing.is_empty() {
        return Err(not_permitted(&missing));
    }
    let mut open = load::open(object, None)?;
    let words =
        [tgid, layout.request_cmd, layout.request_rsp, layout.qpair_qid, layout.qpair_ctrlr];
    for mut map in open.maps_mut() {
        if map.name().to_str().is_some_and(|name| name.ends_with(CONSTANTS))
            && let Some(value) = map.initial_value_mut()
        {
            for (place, word) in value.as_chunks_mut::<4>().0.iter_mut().zip(words) {
                *place = word.to_ne_bytes();
            }
        }
    }
    for mut program in open.progs_mut() {
        let wanted = programs.iter().any(|name| program.name() == *name);
        program.set_autoload(wanted);
    }
    Ok(Loaded(open.load().map_err(refusal)?))
}

/// Traces the kernel's target. `measure`: also the run times of the programs.
fn nvmet(system: &System, measure: bool) -> Result<HostSession> {
    if system.module_identity("nvmet").is_none() {
        let text = "this machine has no kernel target: the module nvmet is not loaded";
        return Err(Failure::error(Kind::NoDevice, text));
    }
    let programs = NVMET.each_ref().map(|hook| hook.program);
    let loaded = load(HOST, &programs, 0, Layout::of(None))?;
    let links = programs.iter().map(|name| Ok(loaded.program(name)?.attach()?));
    let links: Result<Vec<Link>> = links.collect();
    let target = TargetInfo {
        kind: TargetKind::Nvmet,
        by: "tracepoints".into(),
        resolution_ns: 1,
        version: Some(system.release().into()),
        ..TargetInfo::default()
    };
    HostSession::new((loaded, links?), target, None, Decoder::Records(&NVMET), measure)
}

/// A process to attach to.
pub struct Found {
    pub process: Process,
    pub memory: Memory,
    pub code: Code,
}

impl Found {
    /// Looks at a process.
    fn at(system: &System, pid: u32) -> Result<Self> {
        let process = Process::at(system, pid)?;
        let memory = Memory::open(system, pid)?;
        let code = Code::of(system, &process)?;
        Ok(Self { process, memory, code })
    }

    /// An error that begins with the process.
    pub fn refused(&self, why: &str) -> Error {
        let Process { pid, name, .. } = &self.process;
        Failure::error(Kind::Usage, format!("process {pid} ({name}) {why}"))
    }

    /// The target in recordings and reports.
    pub fn target(&self, kind: TargetKind, by: &str) -> TargetInfo {
        TargetInfo {
            kind,
            by: by.into(),
            pid: Some(self.process.pid),
            binary: Some(self.process.name.clone()),
            version: self.code.release().map(|r| r.to_string().into()),
            resolution_ns: 1,
            ..TargetInfo::default()
        }
    }
}

/// Traces the commands of a process: QEMU, or a target of SPDK.
fn process(found: Found, options: HostOptions) -> Result<HostSession> {
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
    uprobes(found, (kind, Decoder::Records(programs)), layout, reason, options)
}

/// Attaches the programs of a decoder to a process. `reason`: why it may lack a function.
fn uprobes(
    found: Found,
    (kind, decoder): (TargetKind, Decoder),
    layout: Layout,
    reason: &str,
    options: HostOptions,
) -> Result<HostSession> {
    let wanted = decoder.programs().iter().filter(|w| !(w.is_inner && options.ends_only));
    let wanted: Vec<&Wanted> = wanted.collect();
    let mut hooks = Vec::new();
    for Wanted { program, functions, is_optional, .. } in &wanted {
        for function in *functions {
            match found.code.probe(function) {
                Some(place) => hooks.push((program, place)),
                None if *is_optional => {}
                None => {
                    return Err(found.refused(&format!("has no symbol {function}: {reason}")));
                }
            }
        }
    }
    let names: Vec<&str> = wanted.iter().map(|wanted| wanted.program).collect();
    let pid = found.process.pid;
    let loaded = load(HOST, &names, pid, layout)?;
    let attach = |&(program, (path, offset)): &(&&str, (&Path, usize))| {
        let options = UprobeOpts::default();
        let program = loaded.program(program)?;
        Ok(program.attach_uprobe_with_opts(pid.cast_signed(), path, offset, options)?)
    };
    let links = hooks.iter().map(attach).collect::<Result<Vec<Link>>>()?;
    let target = found.target(kind, "uprobes");
    HostSession::new((loaded, links), target, Some(found.memory), decoder, options.measure)
}
