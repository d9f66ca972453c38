// SPDX-License-Identifier: MIT OR Apache-2.0
//! Opens, configures and loads the BPF object, and explains why the kernel refuses it; the facts of the kernel
//! that this depends on.

use super::builds::Build;
use super::configure::{configure, counts_status, has_top_counters};
use super::{Config, Layout, Rings, groups, libbpf_log};
use crate::abi::{
    BIOS, MAX_CANDIDATES, MAX_CTRLS, MAX_GROUPS, MAX_STACKS, RING_CPUS, SUBMITTERS, fresh_cpu,
    nd_config, nd_limit, nd_who,
};
use crate::error::{Failure, Kind, failed, in_brackets, not_permitted};
use crate::machine::elf::section;
use crate::machine::inflight::Memory;
use crate::machine::kernel::{Look, VARIABLE, of_value};
use crate::machine::types::{CustomBtf, Types};
use crate::machine::{System, missing_capabilities};
use crate::model::machine::Pairing;
use crate::probe::catalog::{CATALOG, Method, number_of};
use crate::probe::facts::{KernelFacts, Preemption, PreemptionSource};
use crate::probe::plan::{AttachPlan, StartSource};
use crate::session::activity::TICK;
use crate::session::configure::{cell_stride, lru_entries, start_bytes};
use anyhow::{Context, Error, Result, anyhow};
use bytemuck::bytes_of;
use libbpf_rs::libbpf_sys::bpf_map_create_opts;
use libbpf_rs::{
    ErrorKind, MapCore, MapFlags, MapHandle, MapType, Object, ObjectBuilder, OpenObject,
    ProgramInput, ProgramMut,
};
use std::mem::{size_of, size_of_val};
use std::os::fd::{AsFd, AsRawFd};
use std::path::Path;

/// The map that contains the configuration.
const CONFIG: &str = ".rodata.config";

/// Whether a run observes something.
type Observes = fn(&nd_config) -> bool;

/// Maps of what only some runs observe.
const MAPS_OF: [(&[&str], Observes); 6] = [
    (&["failures"], |c| c.count_status != 0),
    (&["queue_counts", "slow_bar"], |c| c.details != 0),
    (&["activities", "disks"], |c| c.context != 0),
    (&["submitters"], |c| u32::from(c.who) & nd_who::ND_WHO_SUBMITTER.0 != 0),
    (&["bios", "begun", ".bss.waits"], |c| c.waits != 0),
    (&["groups", "free_groups", "candidates"], |c| c.by != 0),
];

/// The program that user space runs (bpf/include/recover.bpf.h).
pub const CONTROL: &str = "control";

/// Why the kernel refused a program.
#[derive(Debug, thiserror::Error)]
pub enum Refusal {
    /// The verifier rejected it.
    #[error("the kernel refuses the program: {reason}")]
    Load {
        /// The verifier's reason.
        reason: String,
    },
    /// It could not be attached.
    #[error("the kernel does not attach it: {error:#}{}", in_brackets(.log.as_deref()))]
    Attach {
        /// The error.
        error: Error,
        /// The line of libbpf's log that has the reason.
        log: Option<String>,
    },
}

/// Why a session could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The kernel refused this program (by number). Another method may work.
    #[error("{1}")]
    Refused(usize, Refusal),
    /// No other method helps.
    #[error(transparent)]
    Fatal(#[from] Error),
}

/// Adds the remedy to a line of libbpf's log, if it is about a map.
fn with_remedy(log: String) -> String {
    if !log.contains("failed to create: -EPERM") {
        return log;
    }
    format!("{log}: before Linux 5.11, maps are locked memory: raise the limit, `ulimit -l`")
}

/// Why the kernel refused an object, as far as the error and libbpf's log show it.
pub fn refusal(error: libbpf_rs::Error) -> Error {
    let missing = missing_capabilities();
    let denied = error.kind() == ErrorKind::PermissionDenied;
    if denied && !missing.is_empty() {
        return not_permitted(&missing);
    }
    let log = libbpf_log::last_complaint().map(with_remedy);
    let log = in_brackets(log.as_deref());
    let text = format!("this kernel refuses the BPF object: {error}{log}; -vv shows libbpf's log");
    Failure::error(if denied { Kind::Privilege } else { Kind::Kernel }, text)
}

fn load_trouble(error: libbpf_rs::Error, plan: &AttachPlan) -> StartError {
    let is_denied =
        error.kind() == ErrorKind::PermissionDenied && !missing_capabilities().is_empty();
    if !is_denied
        && let Some((program, reason)) = libbpf_log::culprit()
        && let Some(number) = number_of(&program).filter(|n| plan.hooks().contains(n))
    {
        return StartError::Refused(number, Refusal::Load { reason });
    }
    StartError::Fatal(refusal(error))
}

/// Selects the programs of the plan, and the program `control`.
fn choose(object: &mut OpenObject, plan: &AttachPlan, config: &Config<'_>) -> Result<()> {
    let facts = config.facts;
    let hooks = plan.hooks();
    for program in hooks.iter().map(|&hook| CATALOG[hook].program) {
        if !object.progs().any(|p| p.name() == program) {
            return Err(anyhow!("the object has no program `{program}`"));
        }
    }
    let timer = config.settings.has_timers();
    for mut program in object.progs_mut() {
        let hook = hooks.iter().map(|&h| &CATALOG[h]).find(|hook| program.name() == hook.program);
        let used = hook.is_some() || program.name() == CONTROL || timer && program.name() == TICK;
        program.set_autoload(used);
        // by default libbpf searches the types of every module for each program
        if let Some(hook) = hook.filter(|h| h.kind.method() == Method::Fentry) {
            let target = format!("{}:{}", facts.btf_with(hook.target.home()), hook.target.name());
            // an error here occurs again in the load, which reports it
            let _ = program.set_attach_target(0, Some(target));
        }
    }
    Ok(())
}

/// Leaves out the maps that no program of the run uses: the verifier removes the code that would.
fn leave_out(object: &mut OpenObject, values: &nd_config) -> libbpf_rs::Result<()> {
    let unused: Vec<&str> = MAPS_OF
        .iter()
        .filter(|(_, observes)| !observes(values))
        .flat_map(|(maps, _)| maps.iter().copied())
        .collect();
    for mut map in object.maps_mut() {
        if unused.iter().any(|name| map.name() == *name) {
            map.set_autocreate(false)?;
        }
    }
    Ok(())
}

/// Sizes the maps for the machine.
fn size_maps(
    object: &mut OpenObject,
    plan: &AttachPlan,
    layout: &Layout,
    config: &Config<'_>,
) -> libbpf_rs::Result<()> {
    let stacks = config.settings.stack().is_some();
    let sums = config.settings.sums_stacks();
    for mut map in object.maps_mut() {
        let entries = match map.name().to_str() {
            Some("slots") => {
                map.set_value_size(layout.slot_bytes as u32)?;
                layout.slots
            }
            Some("starts") if plan.pairing == Pairing::Request => {
                map.set_value_size(start_bytes(config.settings) as u32)?;
                layout.slots
            }
            Some("cells") => {
                map.set_value_size(cell_stride(plan.stage_set) as u32)?;
                layout.cells.count()
            }
            Some("cpus" | "activities") => layout.cpus,
            Some("rows" | "free_rows") => layout.cells.rows,
            Some("free_groups") => MAX_GROUPS,
            Some("rings") => layout.cpus.div_ceil(RING_CPUS),
            Some("failures") if counts_status(plan, config) => MAX_CTRLS,
            Some("queue_counts") if has_top_counters(plan, config) => layout.queue_counts(),
            Some("submitters") => lru_entries(SUBMITTERS, layout.cpus),
            Some("candidates") => lru_entries(MAX_CANDIDATES, layout.cpus),
            Some("begun") if plan.start == StartSource::Bio => BIOS as u32,
            Some("scratches") if stacks => layout.cpus,
            Some("stacks") if stacks => MAX_STACKS,
            Some("stack_sums") if sums => MAX_STACKS,
            _ => continue,
        };
        map.set_max_entries(entries)?;
    }
    Ok(())
}

/// Sets the configuration of the object: the whole content of one map.
fn set_config(object: &mut OpenObject, values: &nd_config) -> Result<()> {
    let mut maps = object.maps_mut();
    let mut map =
        maps.find(|m| m.name() == CONFIG).context("the BPF object has no configuration")?;
    let to = map.initial_value_mut().filter(|to| to.len() == size_of_val(values));
    let to = to.context("the configuration of the BPF object has another size")?;
    to.copy_from_slice(bytes_of(values));
    Ok(())
}

/// The configuration of a run, and the build for it.
pub fn prepare(
    plan: &AttachPlan,
    layout: &Layout,
    config: &Config<'_>,
) -> Result<(nd_config, Build)> {
    let values = configure(plan, layout, config)?;
    let build = Build::of(plan, config, &values)?;
    Ok((values, build))
}

/// Opens an object, with these types instead of the kernel's.
pub fn open(object: &[u8], types: Option<&CustomBtf>) -> Result<OpenObject> {
    libbpf_log::forget();
    let mut builder = ObjectBuilder::default();
    builder.name("nvme_deep").map_err(failed("name the BPF object"))?;
    if let Some(types) = types {
        builder.btf_custom_path(types.path()).map_err(failed("pass the BTF to libbpf"))?;
    }
    builder.open_memory(object).map_err(failed("open the BPF object"))
}

/// Opens, configures and loads the object that the plan needs.
pub fn load(plan: &AttachPlan, layout: &Layout, config: &Config<'_>) -> Result<Loaded, StartError> {
    let (values, build) = prepare(plan, layout, config)?;
    let custom = config.custom_btf.filter(|_| build.reads_types());
    let mut object = build.object().map_err(failed("open the BPF object"))?;
    if reads_kernel_data(&object) && !config.system.lists_variables() {
        hide_kernel_data(&mut object);
    }
    let mut open = open(&object, custom)?;
    choose(&mut open, plan, config)?;
    set_config(&mut open, &values)?;
    leave_out(&mut open, &values).map_err(failed("size the maps"))?;
    size_maps(&mut open, plan, layout, config).map_err(failed("size the maps"))?;
    let object = open.load().map_err(|error| load_trouble(error, plan))?;
    let loaded = Loaded(object);
    fill(&loaded, "free_rows", 0..layout.cells.rows)?;
    if !config.settings.kernel_groups().is_empty() {
        fill(&loaded, "free_groups", groups::numbers(layout))?;
    }
    assign_cells(&loaded, layout, plan)?;
    Ok(loaded)
}

/// Writes free numbers to a map.
fn fill(loaded: &Loaded, map: &'static str, numbers: impl Iterator<Item = u32>) -> Result<()> {
    let free = loaded.map(map)?;
    for number in numbers {
        free.update(&[], &number.to_ne_bytes(), MapFlags::ANY)
            .map_err(failed(format!("fill map `{map}`")))?;
    }
    Ok(())
}

/// Gives each CPU the cells of its group.
fn assign_cells(loaded: &Loaded, layout: &Layout, plan: &AttachPlan) -> Result<()> {
    let cells = &layout.cells;
    let cpus = loaded.map("cpus")?;
    for cpu in 0..layout.cpus {
        let group = cells.group_of(cpu);
        let shares = cells.is_shared(group) || plan.needs_atomics();
        cpus.update(&cpu.to_ne_bytes(), &fresh_cpu(group * cells.rows, shares), MapFlags::ANY)
            .map_err(failed("assign histogram cells to CPUs"))?;
    }
    Ok(())
}

/// Creates the rings of events, and assigns them to the groups of CPUs. CPUs that come online later
/// share the rings of the others.
pub fn create_rings(loaded: &Loaded, layout: &Layout) -> Result<Vec<MapHandle>> {
    let options =
        bpf_map_create_opts { sz: size_of::<bpf_map_create_opts>() as u64, ..Default::default() };
    let Rings { count, bytes } = layout.rings;
    let create = |_| MapHandle::create(MapType::RingBuf, Some("events"), 0, 0, bytes, &options);
    let rings: Vec<_> = (0..count)
        .map(create)
        .collect::<libbpf_rs::Result<_>>()
        .map_err(failed(format!("create a ring buffer of {bytes} bytes")))?;
    assign_rings(&loaded.map("rings")?, &rings)
        .map_err(failed("assign the ring buffers to the CPUs"))?;
    Ok(rings)
}

/// Assigns the rings to the groups of CPUs in turn. After an update of a map of maps the kernel waits until no
/// program uses the former one, some 20 ms: once for a batch. 5.10 refuses batches of these, 6.1 takes them.
fn assign_rings(groups: &MapHandle, rings: &[MapHandle]) -> libbpf_rs::Result<()> {
    let count = groups.max_entries();
    let descriptor = |ring: &MapHandle| ring.as_fd().as_raw_fd().to_ne_bytes();
    let keys: Vec<[u8; 4]> = (0..count).map(u32::to_ne_bytes).collect();
    let values = rings.iter().map(descriptor).cycle().take(keys.len());
    let values: Vec<[u8; 4]> = values.collect();
    let any = MapFlags::ANY;
    let batch = groups.update_batch(keys.as_flattened(), values.as_flattened(), count, any, any);
    if batch.is_ok() {
        return Ok(());
    }
    keys.iter().zip(&values).try_for_each(|(key, value)| groups.update(key, value, any))
}

/// One of the builds, loaded. A map has the same name in every build that contains it.
pub struct Loaded(pub Object);

impl Loaded {
    /// Returns a map by name.
    pub fn map(&self, name: &str) -> Result<MapHandle> {
        let map = self.0.maps().find(|m| m.name() == name);
        let map = map.with_context(|| format!("the object has no map `{name}`"))?;
        MapHandle::try_from(&map).map_err(failed(format!("open map `{name}`")))
    }

    /// Returns a program by name.
    pub fn program(&self, name: &str) -> Result<ProgramMut<'_>> {
        let program = self.0.progs_mut().find(|p| p.name() == name);
        program.with_context(|| format!("the object has no program `{name}`"))
    }

    /// Runs a program that is not attached (BPF_PROG_TEST_RUN), and returns its return value.
    pub fn run(&self, name: &str, args: [u64; 2]) -> Result<u32> {
        let mut args = args.map(u64::to_ne_bytes).concat();
        let input = ProgramInput { context_in: Some(&mut args), ..ProgramInput::default() };
        let output = self.program(name)?.test_run(input);
        Ok(output.map_err(failed(format!("run the program `{name}`")))?.return_value)
    }
}

/// Maximum number of bytes per run.
const WINDOW: usize = nd_limit::ND_MEMORY_WINDOW.0 as usize;

const PROGRAM: &str = "read_memory";

/// The memory of the running kernel.
pub struct KernelMemory {
    loaded: Loaded,
    window: MapHandle,
}

impl KernelMemory {
    /// Loads the program.
    ///
    /// # Errors
    /// If the kernel refuses it.
    pub fn open() -> Result<Self> {
        let object = open(include_bytes!(concat!(env!("OUT_DIR"), "/memory.bpf.o")), None)?;
        let loaded = Loaded(object.load().map_err(refusal)?);
        let window = loaded.map("window")?;
        Ok(Self { loaded, window })
    }

    /// Reads at most one window.
    fn read_window(&self, at: u64, to: &mut [u8]) -> Result<bool> {
        if self.loaded.run(PROGRAM, [at, to.len() as u64])? != 0 {
            return Ok(false);
        }
        let bytes = self.window.lookup(&0_u32.to_ne_bytes(), MapFlags::ANY);
        let bytes = bytes.map_err(failed("read map `window`"))?;
        let bytes = bytes.unwrap_or_default();
        let Some(bytes) = bytes.get(..to.len()) else {
            return Ok(false);
        };
        to.copy_from_slice(bytes);
        Ok(true)
    }
}

impl Memory for KernelMemory {
    fn read(&mut self, at: u64, to: &mut [u8]) -> bool {
        let starts = (0_u64..).map(|n| at.wrapping_add(n * WINDOW as u64));
        // an error here is one of the whole run, which other reads have, too
        starts
            .zip(to.chunks_mut(WINDOW))
            .all(|(at, part)| self.read_window(at, part).unwrap_or(false))
    }
}

/// All of them (bpf/include/kernel.bpf.h).
pub const VARIABLES: [&str; 3] = ["kstat", "__preempt_count", "pcpu_hot"];

/// The sections that have their names.
const SECTIONS: [&str; 2] = [".strtab", ".BTF"];

/// The places of their names in the object.
fn names(object: &[u8]) -> Vec<usize> {
    let start = object.as_ptr().addr();
    let sections = SECTIONS.iter().filter_map(|name| section(object, name));
    let places = |section: &[u8]| -> Vec<usize> {
        let at = section.as_ptr().addr() - start;
        let is_one = |text: &[u8]| VARIABLES.iter().any(|name| name.as_bytes() == text);
        let mut next = at;
        let texts = section.split(|&byte| byte == 0).map(|text| {
            let this = next;
            next += text.len() + 1;
            (this, text)
        });
        let found = texts.filter(|(_, text)| is_one(text));
        found.map(|(at, _)| at).collect()
    };
    sections.flat_map(places).collect()
}

/// Whether programs of the object read variables of the kernel.
pub fn reads_kernel_data(object: &[u8]) -> bool {
    !names(object).is_empty()
}

/// Renames the variables, so that libbpf finds none.
pub fn hide_kernel_data(object: &mut [u8]) {
    for at in names(object) {
        object[at] = b'N';
    }
}

/// The preemption mode in the kernel's memory. `None`: the kernel has no such variable, does not list
/// it (CONFIG_KALLSYMS_ALL, no CAP_SYSLOG), or lets no program read it (lockdown=confidentiality).
fn preemption(system: &System) -> Option<Preemption> {
    let [at] = system.addresses([VARIABLE]).ok()?;
    let at = at?;
    let mut value = [0; 4];
    let is_read = KernelMemory::open().ok()?.read(at, &mut value);
    is_read.then(|| of_value(i32::from_ne_bytes(value))).flatten()
}

/// What [`System::kernel_facts`] finds, and the preemption mode if nothing else shows it.
///
/// # Errors
/// If the user's BTF file cannot be used.
pub fn kernel_facts(
    system: &System,
    file: Option<&Path>,
    may_use_module_btf: bool,
    look: Look,
) -> Result<(KernelFacts, Types)> {
    let (mut facts, types) = system.kernel_facts(file, may_use_module_btf, look)?;
    if facts.preemption_source == PreemptionSource::Unknown
        && let Some(mode) = preemption(system)
    {
        facts.preemption = mode;
        facts.preemption_source = PreemptionSource::Memory;
    }
    Ok((facts, types))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_map_that_is_not_permitted_has_a_remedy() {
        let with = |log: &str| with_remedy(log.into());
        assert!(with("map 'slots': failed to create: -EPERM").ends_with("`ulimit -l`"));
        assert_eq!(
            with("map 'slots': failed to create: -EINVAL"),
            "map 'slots': failed to create: -EINVAL"
        );
    }
}
