// SPDX-License-Identifier: MIT OR Apache-2.0
//! Opens, configures and loads the BPF object, and explains why the kernel refuses it.

use std::mem::size_of_val;

use anyhow::Context;
use anyhow::Error;
use anyhow::Result;
use anyhow::anyhow;
use bytemuck::bytes_of;
use libbpf_rs::ErrorKind;
use libbpf_rs::MapCore;
use libbpf_rs::MapFlags;
use libbpf_rs::ObjectBuilder;
use libbpf_rs::OpenObject;

use super::Config;
use super::Layout;
use super::builds::Build;
use super::configure::configure;
use super::layout::slot_bytes;
use super::libbpf_log;
use super::loaded::Loaded;
use super::settings::TraceKind;
use crate::abi::MAX_STACKS;
use crate::abi::SCRATCHES;
use crate::abi::cell_bytes;
use crate::abi::fresh_cpu;
use crate::abi::nd_config;
use crate::error::Failure;
use crate::error::Kind;
use crate::machine::missing_capabilities;
use crate::probe::catalog::CATALOG;
use crate::probe::catalog::Method;
use crate::probe::catalog::number_of;
use crate::probe::facts::KernelFacts;
use crate::probe::plan::AttachPlan;
use crate::probe::plan::Pairing;

/// The map that contains the configuration.
const CONFIG: &str = ".rodata.config";

/// The program that user space runs (bpf/include/recover.bpf.h).
pub const SERVICE: &str = "service";

/// Why a session could not be opened.
#[derive(Debug)]
pub enum Trouble {
    /// The kernel refused this program (by number), for this reason. Another method may work.
    Refused(usize, String),
    /// No other method helps.
    Fatal(Error),
}

impl From<Error> for Trouble {
    fn from(error: Error) -> Self {
        Self::Fatal(error)
    }
}

fn load_trouble(error: &libbpf_rs::Error, plan: &AttachPlan) -> Trouble {
    let missing = missing_capabilities();
    if error.kind() == ErrorKind::PermissionDenied && !missing.is_empty() {
        return Trouble::Fatal(not_allowed(&missing));
    }
    if let Some((program, why)) = libbpf_log::culprit()
        && let Some(number) = number_of(&program).filter(|n| plan.hooks().contains(n))
    {
        return Trouble::Refused(number, format!("the kernel refuses the program: {why}"));
    }
    let detail = libbpf_log::last_complaint()
        .map(|l| format!(" ({l})"))
        .unwrap_or_default();
    let kind = match error.kind() {
        ErrorKind::PermissionDenied => Kind::Privilege,
        _ => Kind::Kernel,
    };
    Trouble::Fatal(Failure::error(
        kind,
        format!("this kernel refuses the BPF object: {error}{detail}; -vv shows libbpf's log"),
    ))
}

/// The error for a process that may not trace.
pub fn not_allowed(missing: &[&str]) -> Error {
    Failure::error(
        Kind::Privilege,
        format!(
            "tracing needs {}, which this process does not have: run it as root (sudo)",
            missing.join(" and ")
        ),
    )
}

/// Selects the programs of the plan, and the program `service`.
fn choose(object: &mut OpenObject, plan: &AttachPlan, facts: &KernelFacts) {
    let hooks = plan.hooks();
    for mut program in object.progs_mut() {
        let hook = hooks
            .iter()
            .map(|&h| &CATALOG[h])
            .find(|hook| program.name() == hook.program);
        program.set_autoload(hook.is_some() || program.name() == SERVICE);
        // by default libbpf searches the types of every module for each program
        if let Some(hook) = hook.filter(|h| h.kind.method() == Method::Fentry) {
            let target = format!(
                "{}:{}",
                facts.btf_with(hook.target.home()),
                hook.target.name()
            );
            // an error here occurs again in the load, which reports it
            let _ = program.set_attach_target(0, Some(target));
        }
    }
}

/// Sizes the maps for the machine.
fn size_maps(
    object: &mut OpenObject,
    plan: &AttachPlan,
    layout: &Layout,
    config: &Config<'_>,
) -> libbpf_rs::Result<()> {
    let stacks = config.trace.is_some_and(|t| t.stack.is_some());
    let sums = config.trace.is_some_and(|t| t.kind == TraceKind::Stacks);
    for mut map in object.maps_mut() {
        let entries = match map.name().to_str() {
            Some("slots") => {
                map.set_value_size(slot_bytes(plan.stage_set, config.trace.is_some()) as u32)?;
                layout.slots
            }
            Some("starts") if plan.pairing == Pairing::Request => layout.slots,
            Some("cells") => {
                map.set_value_size(cell_bytes(plan.stage_set) as u32)?;
                layout.rows * layout.shards
            }
            Some("cpus") => layout.cpus,
            Some("rows" | "free_rows") => layout.rows,
            Some("ring") => layout.ring_bytes,
            Some("scratches") if stacks => layout.cpus * SCRATCHES,
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
    let mut map = maps
        .find(|m| m.name() == CONFIG)
        .context("the BPF object has no configuration")?;
    let to = map
        .initial_value_mut()
        .filter(|to| to.len() == size_of_val(values));
    let to = to.context("the configuration of the BPF object has another size")?;
    to.copy_from_slice(bytes_of(values));
    Ok(())
}

/// Opens, configures and loads the object that the plan needs.
pub fn load(plan: &AttachPlan, layout: &Layout, config: &Config<'_>) -> Result<Loaded, Trouble> {
    libbpf_log::forget();
    let build = Build::of(plan, config);
    let values = configure(plan, layout, config)?;
    if let Some(name) = build.contradiction(&values) {
        let why = anyhow!("{build:?} was chosen for a run that sets `{name}`");
        return Err(Trouble::Fatal(why));
    }
    let mut builder = ObjectBuilder::default();
    builder
        .name("nvme_deep")
        .context("failed to name the BPF object")?;
    if let Some(custom) = config.custom_btf.filter(|_| build != Build::Tag) {
        builder
            .btf_custom_path(custom.path())
            .context("failed to hand the BTF over")?;
    }
    let mut open = builder
        .open_memory(build.object())
        .context("failed to open the BPF object")?;
    choose(&mut open, plan, config.facts);
    set_config(&mut open, &values)?;
    size_maps(&mut open, plan, layout, config).context("failed to size the maps")?;
    let object = open.load().map_err(|error| load_trouble(&error, plan))?;
    let loaded = Loaded(object);
    let free = loaded.map("free_rows")?;
    for row in 0..layout.rows {
        free.update(&[], &row.to_ne_bytes(), MapFlags::ANY)
            .context("failed to fill the list of free rows")?;
    }
    let cpus = loaded.map("cpus")?;
    for cpu in 0..layout.cpus {
        let value = fresh_cpu(cpu % layout.shards * layout.rows);
        cpus.update(&cpu.to_ne_bytes(), &value, MapFlags::ANY)
            .context("failed to give the CPUs their cells")?;
    }
    Ok(loaded)
}
