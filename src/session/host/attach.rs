// SPDX-License-Identifier: MIT OR Apache-2.0
//! Loads and attaches the programs of a target.

use std::path::Path;

use libbpf_rs::{Link, UprobeOpts};

use super::HostSession;
use crate::error::{Failure, Kind, not_permitted};
use crate::machine::{System, missing_capabilities};
use crate::model::target::{HostClock, TargetInfo, TargetKind};
use crate::session::load::{self, Loaded, refusal};
use crate::session::read;
use crate::target::functions::NVMET;
use crate::target::spdk::Layout;
use anyhow::Result;

/// bpf/host.bpf.c.
pub const HOST: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/host.bpf.o"));
/// The map with the constants.
const CONSTANTS: &str = ".rodata";

/// A program, and a place to attach it to.
pub struct Hook<'a> {
    pub program: &'static str,
    pub path: &'a Path,
    /// In the file.
    pub offset: usize,
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

/// Attaches programs of the loaded object to a process.
pub fn attach(loaded: &Loaded, pid: u32, hooks: &[Hook<'_>]) -> Result<Vec<Link>> {
    let attach = |hook: &Hook<'_>| {
        let program = loaded.program(hook.program)?;
        let (pid, options) = (pid.cast_signed(), UprobeOpts::default());
        Ok(program.attach_uprobe_with_opts(pid, hook.path, hook.offset, options)?)
    };
    hooks.iter().map(attach).collect()
}

impl HostSession {
    /// Traces the kernel's target. `measure`: also the run times of the programs.
    ///
    /// # Errors
    /// If it is not loaded, or the kernel refuses the programs.
    pub fn nvmet(system: &System, measure: bool) -> Result<Self> {
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
        Self::new((loaded, links?, &NVMET), target, None, stats)
    }
}
