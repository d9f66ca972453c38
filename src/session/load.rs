//! Open, configure, load; and what a refusal of the kernel means to the user.

use std::mem::MaybeUninit;

use anyhow::Context;
use anyhow::Error;
use anyhow::Result;
use libbpf_rs::ErrorKind;
use libbpf_rs::MapCore;
use libbpf_rs::MapFlags;
use libbpf_rs::OpenObject;
use libbpf_rs::skel::OpenSkel;
use libbpf_rs::skel::SkelBuilder;

use super::Config;
use super::Layout;
use super::libbpf_log;
use crate::abi::SLOT_CHEAP;
use crate::abi::SLOT_FINE;
use crate::abi::cell_bytes;
use crate::abi::skel::NvmeDeepSkel;
use crate::abi::skel::NvmeDeepSkelBuilder;
use crate::abi::skel::OpenNvmeDeepSkel;
use crate::abi::skel::types::rodata;
use crate::exit::Failure;
use crate::exit::Kind;
use crate::host::may_read_module_btf;
use crate::host::missing_capabilities;
use crate::nvme::opcode::QueueKind;
use crate::options::Filter;
use crate::path::milestone::Milestone;
use crate::path::stage::Cut;
use crate::probe::catalog::CATALOG;
use crate::probe::catalog::Hook;
use crate::probe::plan::AttachPlan;
use crate::probe::plan::StartSource;

/// Where libbpf keeps the object; must outlive the session.
pub type Slot = MaybeUninit<OpenObject>;

/// Bytes of the ring of single commands, only there if asked for.
const RING_BYTES: u32 = 16 << 20;

/// Slot size of a cut.
pub const fn slot_bytes(cut: Cut) -> usize {
    match cut {
        Cut::Total | Cut::Cheap => SLOT_CHEAP,
        Cut::Fine => SLOT_FINE,
    }
}

fn filters(ro: &mut rodata, filter: &Filter) {
    let Filter {
        ctrls,
        nsids,
        opcodes,
        qids,
        no_admin,
    } = filter;
    ro.targ_no_admin = u8::from(*no_admin);
    ro.targ_by_ctrl = u8::from(!ctrls.is_empty());
    for &c in ctrls {
        ro.targ_ctrls[(c >> 6) as usize & 3] |= 1 << (c & 63);
    }
    ro.targ_by_opcode = u8::from(!opcodes.is_empty());
    for op in opcodes {
        let admin = usize::from(op.queue == QueueKind::Admin);
        ro.targ_opcodes[admin][usize::from(op.code >> 6)] |= 1 << (op.code & 63);
    }
    ro.targ_nsid_count = nsids.len() as u32;
    ro.targ_nsids
        .iter_mut()
        .zip(nsids)
        .for_each(|(to, &n)| *to = n);
    ro.targ_qid_count = qids.len() as u32;
    ro.targ_qids
        .iter_mut()
        .zip(qids)
        .for_each(|(to, &n)| *to = n.into());
}

fn constants(ro: &mut rodata, plan: &AttachPlan, layout: &Layout, config: &Config<'_>) {
    ro.cfg_mode = match plan.cut {
        Cut::Total => 0,
        Cut::Cheap => 1,
        Cut::Fine => 2,
    };
    ro.cfg_shards = layout.shards;
    ro.cfg_rows = layout.rows;
    ro.cfg_atomic = u8::from(layout.atomic());
    ro.cfg_start_hook = u8::from(plan.start == StartSource::Hook);
    ro.cfg_start_field = u8::from(plan.start == StartSource::Field);
    ro.cfg_doorbell = u8::from(plan.has(Milestone::Doorbell));
    ro.cfg_end = u8::from(plan.has(Milestone::End));
    ro.cfg_split_size = u8::from(config.split_size);
    ro.cfg_commands = u8::from(config.commands);
    if let Some(lat) = config.lat {
        ro.cfg_lat = 1;
        ro.cfg_lat_min_us = lat.min_us.into();
        ro.cfg_lat_shift = lat.shift;
    }
    filters(ro, config.filter);
}

fn sizes(
    open: &mut OpenNvmeDeepSkel<'_>,
    plan: &AttachPlan,
    layout: &Layout,
    commands: bool,
) -> libbpf_rs::Result<()> {
    let maps = &mut open.maps;
    maps.slots.set_value_size(slot_bytes(plan.cut) as u32)?;
    maps.slots.set_max_entries(layout.slots)?;
    maps.starts.set_max_entries(layout.slots)?;
    maps.cells.set_value_size(cell_bytes(plan.cut) as u32)?;
    maps.cells.set_max_entries(layout.rows * layout.shards)?;
    maps.cpus.set_max_entries(layout.cpus)?;
    maps.rows.set_max_entries(layout.rows)?;
    maps.free_rows.set_max_entries(layout.rows)?;
    if commands {
        maps.ring.set_max_entries(RING_BYTES)?;
    }
    Ok(())
}

fn load_failure(error: &libbpf_rs::Error) -> Error {
    let missing = missing_capabilities();
    if error.kind() == ErrorKind::PermissionDenied && !missing.is_empty() {
        return not_allowed(&missing);
    }
    if !may_read_module_btf() {
        return Failure::error(
            Kind::Privilege,
            "the NVMe driver is a module, and the kernel lets only CAP_SYS_ADMIN look up the BTF \
             of modules, which this process does not have: run it as root (sudo)",
        );
    }
    let detail = libbpf_log::last_complaint()
        .map(|l| format!(" ({l})"))
        .unwrap_or_default();
    let kind = match error.kind() {
        ErrorKind::PermissionDenied => Kind::Privilege,
        _ => Kind::Kernel,
    };
    Failure::error(
        kind,
        format!("this kernel refuses the BPF programs: {error}{detail}; -vv shows libbpf's log"),
    )
}

/// The error of a process that may not trace.
pub fn not_allowed(missing: &[&str]) -> Error {
    Failure::error(
        Kind::Privilege,
        format!(
            "tracing needs {}, which this process does not have: run it as root (sudo)",
            missing.join(" and ")
        ),
    )
}

/// The error of a hook that can't be done without.
pub fn attach_failure(hook: &Hook, error: &Error) -> Error {
    Failure::error(
        Kind::Kernel,
        format!(
            "failed to attach {} to `{}`, without which no command can be followed: {error:#}; \
             -vv shows libbpf's log",
            hook.kind.name(),
            hook.target
        ),
    )
}

/// Opens, configures and loads the object.
pub fn load<'obj>(
    slot: &'obj mut Slot,
    plan: &AttachPlan,
    layout: &Layout,
    config: &Config<'_>,
) -> Result<NvmeDeepSkel<'obj>> {
    let mut open = NvmeDeepSkelBuilder::default()
        .open(slot)
        .context("failed to open the BPF object")?;
    let wanted: Vec<&str> = plan.hooks.iter().map(|&h| CATALOG[h].program).collect();
    for mut program in open.open_object_mut().progs_mut() {
        let want = program
            .name()
            .to_str()
            .is_some_and(|name| wanted.contains(&name));
        program.set_autoload(want);
    }
    let ro = open
        .maps
        .rodata_data
        .as_deref_mut()
        .context("the BPF object has no constants")?;
    constants(ro, plan, layout, config);
    sizes(&mut open, plan, layout, config.commands).context("failed to size the maps")?;
    let skel = open.load().map_err(|error| load_failure(&error))?;
    for row in 0..layout.rows {
        skel.maps
            .free_rows
            .update(&[], &row.to_ne_bytes(), MapFlags::ANY)
            .context("failed to fill the list of free rows")?;
    }
    Ok(skel)
}
