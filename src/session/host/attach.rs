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
use crate::model::target::{HostClock, TargetInfo, TargetKind};
use crate::session::load::{self, Loaded, refusal};
use crate::session::read;
use crate::settings::{ChosenTarget, HostOptions};
use crate::target::functions::{NVMET, QEMU, SPDK, Wanted};
use crate::target::spdk::Layout;
use anyhow::{Error, Result};

/// bpf/host.bpf.c.
const HOST: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/host.bpf.o"));
/// The map with the constants.
const CONSTANTS: &str = ".rodata";
/// Offset of the command in QEMU's `struct NvmeRequest` (hw/nvme/nvme.h, 6.1 to 10.0).
const QEMU_REQUEST_CMD: u32 = 56;

/// The programs, and the functions of SPDK that pass on a function. In the order of
/// `ND_SPDK_SEND_MSG` and `ND_SPDK_EACH_CHANNEL`.
pub const CALLS: [(&str, &str); 2] =
    [("spdk_send_msg", "spdk_thread_send_msg"), ("spdk_each_channel", "spdk_for_each_channel")];

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
        ChosenTarget::Messages(pid) => messages(Found::at(system, pid)?),
    }
}

/// A program, and a place to attach it to: a file, and an offset in it.
type Hook<'a> = (&'static str, (&'a Path, usize));

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

/// Attaches programs of the loaded object to a process.
fn attach(loaded: &Loaded, pid: u32, hooks: &[Hook<'_>]) -> Result<Vec<Link>> {
    let attach = |(program, (path, offset)): &Hook<'_>| {
        let program = loaded.program(program)?;
        let (pid, options) = (pid.cast_signed(), UprobeOpts::default());
        Ok(program.attach_uprobe_with_opts(pid, path, *offset, options)?)
    };
    hooks.iter().map(attach).collect()
}

/// Traces the kernel's target. `measure`: also the run times of the programs.
fn nvmet(system: &System, measure: bool) -> Result<HostSession> {
    if system.module_identity("nvmet").is_none() {
        let text = "this machine has no kernel target: the module nvmet is not loaded";
        return Err(Failure::error(Kind::NoDevice, text));
    }
    let programs = NVMET.each_ref().map(|hook| hook.program);
    let loaded = load(HOST, &programs, 0, Layout::of(None))?;
    let stats = measure.then(read::enable_stats).flatten();
    let links = programs.iter().map(|name| Ok(loaded.program(name)?.attach()?));
    let links: Result<Vec<Link>> = links.collect();
    let target = TargetInfo {
        kind: TargetKind::Nvmet,
        by: "tracepoints".into(),
        clock: HostClock::Monotonic,
        resolution_ns: 1,
        version: Some(system.release().into()),
        ..TargetInfo::default()
    };
    HostSession::new((loaded, links?), target, None, Decoder::Records(&NVMET), stats)
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

    /// A function that must be there.
    fn probe(&self, symbol: &str, reason: &str) -> Result<(&Path, usize)> {
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
                hooks.push((wanted.program, place?));
            }
        }
        Ok(hooks)
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
    let chosen = programs.iter();
    let chosen: Vec<&Wanted> = chosen.filter(|w| !(w.is_inner && options.ends_only)).collect();
    let hooks = found.hooks(&chosen, reason)?;
    let names: Vec<&str> = chosen.iter().map(|wanted| wanted.program).collect();
    let pid = found.process.pid;
    let loaded = load(HOST, &names, pid, layout)?;
    let stats = options.measure.then(read::enable_stats).flatten();
    let links = attach(&loaded, pid, &hooks)?;
    let target = found.target(kind, "uprobes");
    let decoder = Decoder::Records(programs);
    HostSession::new((loaded, links), target, Some(found.memory), decoder, stats)
}

/// Counts the messages between the threads of a process of SPDK, by function.
fn messages(found: Found) -> Result<HostSession> {
    let hook =
        |(program, function)| Ok((program, found.probe(function, "it is no process of SPDK")?));
    let hooks: Vec<Hook<'_>> = CALLS.into_iter().map(hook).collect::<Result<_>>()?;
    let pid = found.process.pid;
    let loaded = load(HOST, &CALLS.map(|(program, _)| program), pid, Layout::of(None))?;
    let links = attach(&loaded, pid, &hooks)?;
    let target = found.target(TargetKind::Spdk, "uprobes");
    HostSession::new((loaded, links), target, Some(found.memory), Decoder::Calls(None), None)
}
