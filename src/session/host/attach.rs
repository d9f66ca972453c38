// SPDX-License-Identifier: MIT OR Apache-2.0
//! Loads and attaches the programs of a target.

use std::path::Path;

use libbpf_rs::{Link, OpenObject, UprobeOpts};

use super::HostSession;
use crate::error::{Failure, Kind, not_permitted};
use crate::machine::{System, missing_capabilities};
use crate::model::target::{HostClock, TargetInfo, TargetKind};
use crate::session::load::{self, Loaded, refusal};
use crate::session::read;
use anyhow::Result;

/// The map with the constants.
const CONSTANTS: &str = ".rodata";

/// The constants of the programs, `host_config` in bpf/host.bpf.c.
#[derive(Clone, Copy, Debug, Default)]
pub struct Constants {
    pub tgid: u32,
    pub request_cmd: u32,
    pub request_rsp: u32,
    pub qpair_qid: u32,
    pub qpair_ctrlr: u32,
}

/// A program, and a place to attach it to.
pub struct Hook<'a> {
    pub program: &'static str,
    pub path: &'a Path,
    /// In the file.
    pub offset: usize,
}

/// Opens bpf/host.bpf.c.
pub fn open() -> Result<OpenObject> {
    open_object(include_bytes!(concat!(env!("OUT_DIR"), "/host.bpf.o")))
}

/// Opens an object, if this process may load it.
pub fn open_object(object: &[u8]) -> Result<OpenObject> {
    let missing = missing_capabilities();
    if !missing.is_empty() {
        return Err(not_permitted(&missing));
    }
    load::open(object, None)
}

/// Loads these programs.
pub fn load(mut open: OpenObject, programs: &[&str]) -> Result<Loaded> {
    for mut program in open.progs_mut() {
        let wanted = programs.iter().any(|name| program.name() == *name);
        program.set_autoload(wanted);
    }
    Ok(Loaded(open.load().map_err(refusal)?))
}

/// Sets the constants: as many of them as the object has.
pub fn configure(open: &mut OpenObject, constants: &Constants) {
    let mut maps = open.maps_mut();
    let map = maps.find(|m| {
        let name = m.name().to_str();
        name.is_some_and(|name| name.ends_with(CONSTANTS))
    });
    let words = [
        constants.tgid,
        constants.request_cmd,
        constants.request_rsp,
        constants.qpair_qid,
        constants.qpair_ctrlr,
    ];
    if let Some(mut map) = map
        && let Some(value) = map.initial_value_mut()
    {
        let (places, _) = value.as_chunks_mut::<4>();
        for (place, word) in places.iter_mut().zip(words) {
            *place = word.to_ne_bytes();
        }
    }
}

/// Attaches a program of the loaded object to a process.
pub fn attach(loaded: &Loaded, pid: u32, hook: &Hook<'_>) -> Result<Link> {
    let program = loaded.program(hook.program)?;
    let (pid, options) = (pid.cast_signed(), UprobeOpts::default());
    Ok(program.attach_uprobe_with_opts(pid, hook.path, hook.offset, options)?)
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
        let loaded = load(open()?, &["nvmet_init", "nvmet_complete"])?;
        let stats = measure.then(read::enable_stats).flatten();
        let mut links = Vec::new();
        // the end first, so that no command is without its end
        for name in ["nvmet_complete", "nvmet_init"] {
            links.push(loaded.program(name)?.attach()?);
        }
        let target = TargetInfo {
            kind: TargetKind::Nvmet,
            by: "tracepoints".into(),
            clock: HostClock::Monotonic,
            resolution_ns: 1,
            version: Some(system.release().into()),
            ..TargetInfo::default()
        };
        Self::new(loaded, links, target, None, stats)
    }
}
