// SPDX-License-Identifier: MIT OR Apache-2.0
//! Open, configure, load; and what a refusal of the kernel means to the user.

use std::mem::MaybeUninit;

use anyhow::Context;
use anyhow::Error;
use anyhow::Result;
use anyhow::anyhow;
use libbpf_rs::ErrorKind;
use libbpf_rs::MapCore;
use libbpf_rs::MapFlags;
use libbpf_rs::OpenObject;
use libbpf_rs::skel::OpenSkel;
use libbpf_rs::skel::SkelBuilder;

use super::Config;
use super::Layout;
use super::layout::slot_bytes;
use super::libbpf_log;
use super::loaded::Loaded;
use crate::abi::MAX_STACKS;
use crate::abi::SCRATCHES;
use crate::abi::cell_bytes;
use crate::abi::fresh_cpu;
use crate::abi::skel::NvmeDeepSkelBuilder;
use crate::abi::skel_basic::NvmeDeepBasicSkelBuilder;
use crate::abi::skel_fine::NvmeDeepFineSkelBuilder;
use crate::abi::skel_plain::NvmeDeepPlainSkelBuilder;
use crate::abi::skel_total::NvmeDeepTotalSkelBuilder;
use crate::abi::skel_tp::OpenTracepointSkel;
use crate::abi::skel_tp::TracepointSkelBuilder;
use crate::abi::skel_tp::types::rodata as tp_rodata;
use crate::abi::skel_trace::NvmeDeepTraceSkelBuilder;
use crate::error::Failure;
use crate::error::Kind;
use crate::machine::missing_capabilities;
use crate::model::milestone::Milestone;
use crate::model::stack::StackAt;
use crate::model::stage::StageSet;
use crate::nvme::opcode::QueueKind;
use crate::probe::catalog::CATALOG;
use crate::probe::catalog::Method;
use crate::probe::catalog::Role;
use crate::probe::catalog::number_of;
use crate::probe::facts::KernelFacts;
use crate::probe::facts::Preemption;
use crate::probe::plan::AttachPlan;
use crate::probe::plan::Pairing;
use crate::probe::plan::StartSource;
use crate::session::settings::Filter;
use crate::session::settings::TraceKind;

/// The program that user space runs (bpf/include/recover.bpf.h).
pub const SERVICE: &str = "service";

/// For tests: how often a program ignores an event.
const IGNORE_EVERY: u32 = 97;

/// Where libbpf keeps the object; must outlive the session.
pub type Slot = MaybeUninit<OpenObject>;

/// A thread's name as the kernel side compares it.
fn words_of(name: [u8; 16]) -> [u64; 2] {
    let (low, high) = name.split_at(8);
    let word = |b: &[u8]| b.try_into().map_or(0, u64::from_ne_bytes);
    [word(low), word(high)]
}

/// Whether a completion's status and result can be read: classic tracepoints print them, else they
/// are behind the request, in a struct of the driver's.
pub const fn verdict_is_known(plan: &AttachPlan, facts: &KernelFacts) -> bool {
    matches!(plan.pairing, Pairing::Tag) || facts.nvme_core_types.is_known()
}

/// Sets the constants that both objects have. A macro, because each skeleton has a type of its own
/// for the same variables.
macro_rules! constants {
    ($ro:expr, $plan:expr, $layout:expr, $config:expr) => {{
        let (ro, plan, layout, config) = ($ro, $plan, $layout, $config);
        ro.cfg_mode = match plan.stage_set {
            StageSet::Total => 0,
            StageSet::Basic => 1,
            StageSet::Fine => 2,
        };
        ro.cfg_atomic = u8::from(layout.atomic() || plan.needs_atomics());
        ro.cfg_split_size = u8::from(config.split_size);
        ro.cfg_commands = u8::from(config.commands);
        if let Some(trace) = config.trace {
            ro.cfg_trace = match trace.kind {
                TraceKind::Events => 1,
                TraceKind::Pairs => 2,
                TraceKind::Stacks => 3,
            };
            ro.cfg_stack = match trace.stack {
                None => 0,
                Some(StackAt::Submit) => 1,
                Some(StackAt::Complete) => 2,
            };
            ro.cfg_stack_at_entry =
                u8::from(plan.method_of(Milestone::SetupOut) == Some(Method::Kprobe));
            if trace.one_in > 1 {
                ro.cfg_sample_below = (u64::from(u32::MAX) / u64::from(trace.one_in)) as u32;
            }
            if let Some((first, end)) = config.irq_entry {
                ro.cfg_irq_first = first;
                ro.cfg_irq_end = end;
            }
            ro.cfg_verdict = u8::from(verdict_is_known(plan, config.facts));
            ro.cfg_slow_ns = trace.slow.map_or(0, |t| t.as_nanos() as u64);
            ro.cfg_errors = u8::from(trace.errors);
        }
        if let Some(lat) = config.lat {
            ro.cfg_lat = 1;
            ro.cfg_lat_min_us = lat.min_us.into();
            ro.cfg_lat_shift = lat.shift;
        }
        let Filter {
            ctrls,
            nsids,
            opcodes,
            qids,
            no_admin,
            no_io,
            pids,
            comm,
            cgroup,
            lba,
        } = config.filter;
        ro.targ_any = u8::from(*config.filter != Filter::default());
        ro.targ_no_admin = u8::from(*no_admin);
        ro.targ_no_io = u8::from(*no_io);
        ro.targ_pid_count = pids.len() as u32;
        for (to, &pid) in ro.targ_pids.iter_mut().zip(pids) {
            *to = pid;
        }
        if let Some(name) = comm {
            let mut padded = [0; 16];
            padded
                .iter_mut()
                .zip(name.bytes())
                .for_each(|(to, b)| *to = b);
            ro.targ_by_comm = 1;
            ro.targ_comm = words_of(padded);
        }
        ro.targ_by_cgroup = u8::from(cgroup.is_some());
        if let Some((first, last)) = *lba {
            ro.targ_by_lba = 1;
            ro.targ_lba_first = first;
            ro.targ_lba_last = last;
        }
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
        for (to, &nsid) in ro.targ_nsids.iter_mut().zip(nsids) {
            *to = nsid;
        }
        ro.targ_qid_count = qids.len() as u32;
        for (to, &qid) in ro.targ_qids.iter_mut().zip(qids) {
            *to = qid.into();
        }
    }};
}

/// Sizes the maps that both objects use.
macro_rules! sizes {
    ($maps:expr, $plan:expr, $layout:expr, $config:expr) => {{
        let (maps, plan, layout, config) = ($maps, $plan, $layout, $config);
        maps.slots
            .set_value_size(slot_bytes(plan.stage_set, config.trace.is_some()) as u32)?;
        maps.slots.set_max_entries(layout.slots)?;
        maps.cells
            .set_value_size(cell_bytes(plan.stage_set) as u32)?;
        maps.cells.set_max_entries(layout.rows * layout.shards)?;
        maps.cpus.set_max_entries(layout.cpus)?;
        maps.rows.set_max_entries(layout.rows)?;
        maps.free_rows.set_max_entries(layout.rows)?;
        maps.ring.set_max_entries(layout.ring_bytes)?;
        if let Some(trace) = config.trace {
            if trace.stack.is_some() {
                maps.scratches.set_max_entries(layout.cpus * SCRATCHES)?;
                maps.stacks.set_max_entries(MAX_STACKS)?;
            }
            if trace.kind == TraceKind::Stacks {
                maps.stack_sums.set_max_entries(MAX_STACKS)?;
            }
        }
    }};
}

/// Opens, configures and loads an object that follows requests; `$zero` are the constants that its
/// build has as zeroes. A macro as above: there are six, one of them without calls of kernel
/// functions, for kernels that only a file describes.
macro_rules! load_request {
    ($builder:expr, [$($zero:ident)*], $slot:expr, $plan:expr, $layout:expr, $config:expr) => {{
        let (mut builder, plan, config) = ($builder, $plan, $config);
        if let Some(custom) = config.custom_btf {
            builder
                .object_builder_mut()
                .btf_custom_path(custom.path())
                .context("failed to hand the BTF over")?;
        }
        let mut open = builder
            .open($slot)
            .context("failed to open the BPF object")?;
        choose(open.open_object_mut(), plan, config.facts);
        let ro = open.maps.rodata_data.as_deref_mut();
        let ro = ro.context("the BPF object has no constants")?;
        constants!(&mut *ro, plan, $layout, config);
        let (facts, types) = (config.facts, &config.facts.nvme_core_types);
        ro.cfg_start_hook = u8::from(plan.start == StartSource::Hook);
        ro.cfg_start_field = u8::from(plan.start == StartSource::Field);
        ro.cfg_doorbell = match plan.method_of(Milestone::Doorbell) {
            None => 0,
            Some(Method::Kprobe) => 2,
            Some(_) => 1,
        };
        ro.cfg_end = u8::from(plan.has(Milestone::End));
        ro.cfg_lossy = u8::from(plan.may_lose_completions());
        ro.cfg_recover = u8::from(plan.recovers);
        ro.cfg_setup_skips = u8::from(plan.recovers && facts.tracepoints_skip());
        let preempted = facts.preemption >= Preemption::Full;
        let by_exit = plan.method_of(Milestone::Doorbell) == Some(Method::Fentry);
        ro.cfg_exit_skips = u8::from(preempted && by_exit);
        ro.cfg_irq_count = u8::from(facts.preemption == Preemption::Full);
        for program in config.ignore {
            let number = number_of(program).with_context(|| format!("no program `{program}`"))?;
            ro.test_ignore |= 1 << number;
            ro.test_ignore_every = IGNORE_EVERY;
        }
        ro.cfg_by_name = u8::from(!types.is_known());
        ro.cfg_check_fit = u8::from(types.is_known() && !types.is_the_kernels());
        ro.cfg_rq_second = u8::from(facts.rq_is_second);
        ro.cfg_cmd_arg = u8::from(facts.command_is_argument);
        let zeroes: &[(&str, u32)] = &[$((stringify!($zero), ro.$zero.into())),*];
        if let Some((name, value)) = zeroes.iter().find(|(_, value)| *value != 0) {
            let why = anyhow!("a build for usual cases was taken for another one: {name} is {value}");
            return Err(Trouble::Fatal(why));
        }
        let sized: libbpf_rs::Result<()> = (|| {
            sizes!(&mut open.maps, plan, $layout, config);
            open.maps.starts.set_max_entries($layout.slots)
        })();
        sized.context("failed to size the maps")?;
        Box::new(open.load().map_err(|error| load_trouble(&error, plan))?)
    }};
}

/// The same for the builds of usual cases: `$zero` beyond what all of these have.
macro_rules! load_usual {
    ($builder:expr, [$($zero:ident)*], $slot:expr, $plan:expr, $layout:expr, $config:expr) => {
        load_request!(
            $builder,
            [cfg_lossy cfg_by_name cfg_check_fit cfg_rq_second cfg_cmd_arg cfg_split_size
             cfg_commands cfg_lat cfg_stack_at_entry test_ignore_every targ_any targ_by_lba
             $($zero)*],
            $slot, $plan, $layout, $config
        )
    };
}

/// Where the events have their fields; what a format lacks is an error.
fn event_fields(ro: &mut tp_rodata, plan: &AttachPlan, config: &Config<'_>) -> Result<()> {
    let facts = config.facts;
    let field = |event: &str, name: &str| {
        facts
            .events
            .as_ref()
            .and_then(|events| events.get(event)?.get(name).copied())
            .with_context(|| format!("the format of {event} has no field `{name}`"))
    };
    let (setup, done) = ("nvme/nvme_setup_cmd", "nvme/nvme_complete_rq");
    ro.tp_setup_ctrl = field(setup, "ctrl_id")?;
    ro.tp_setup_qid = field(setup, "qid")?;
    ro.tp_setup_opcode = field(setup, "opcode")?;
    ro.tp_setup_cid = field(setup, "cid")?;
    ro.tp_setup_nsid = field(setup, "nsid")?;
    ro.tp_setup_cdw10 = field(setup, "cdw10")?;
    ro.tp_done_ctrl = field(done, "ctrl_id")?;
    ro.tp_done_qid = field(done, "qid")?;
    ro.tp_done_cid = field(done, "cid")?;
    if config.trace.is_none() {
        return Ok(());
    }
    ro.tp_setup_flags = field(setup, "flags")?;
    ro.tp_setup_metadata = field(setup, "metadata")?;
    ro.tp_done_result = field(done, "result")?;
    ro.tp_done_status = field(done, "status")?;
    ro.tp_done_retries = field(done, "retries")?;
    ro.tp_done_flags = field(done, "flags")?;
    if plan.has_role(Role::SqHead) {
        let sq = "nvme/nvme_sq";
        ro.tp_sq_ctrl = field(sq, "ctrl_id")?;
        ro.tp_sq_qid = field(sq, "qid")?;
        ro.tp_sq_head = field(sq, "sq_head")?;
        ro.tp_sq_tail = field(sq, "sq_tail")?;
    }
    if plan.has_role(Role::AsyncEvent) {
        let event = "nvme/nvme_async_event";
        ro.tp_async_ctrl = field(event, "ctrl_id")?;
        ro.tp_async_result = field(event, "result")?;
    }
    Ok(())
}

/// Why a session could not be opened: a program that the kernel refuses, so that another way may be
/// taken, or something that no other way will mend.
#[derive(Debug)]
pub enum Trouble {
    /// The kernel refused this program (by number), and said so.
    Refused(usize, String),
    /// The end of it.
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

/// Only what the plan names is loaded.
fn choose(object: &mut OpenObject, plan: &AttachPlan, facts: &KernelFacts) {
    let hooks = plan.hooks();
    for mut program in object.progs_mut() {
        let hook = hooks
            .iter()
            .map(|&h| &CATALOG[h])
            .find(|hook| program.name() == hook.program);
        program.set_autoload(hook.is_some() || program.name() == SERVICE);
        // left to itself libbpf looks through the types of every module for each program
        if let Some(hook) = hook.filter(|h| h.kind.method() == Method::Fentry) {
            let target = format!("{}:{}", facts.btf_with(hook.home), hook.target);
            // what goes wrong here goes wrong again in the load, and is told there
            let _ = program.set_attach_target(0, Some(target));
        }
    }
}

/// Whether a build for the usual cases will do: what these have as zeroes (bpf/include/config.bpf.h),
/// `constants!` and `load_request!` leave at zero.
fn is_usual(plan: &AttachPlan, config: &Config<'_>) -> bool {
    let facts = config.facts;
    facts.vmlinux_btf
        && facts.nvme_core_types.is_the_kernels()
        && !facts.rq_is_second
        && !facts.command_is_argument
        && !plan.may_lose_completions()
        && plan.method_of(Milestone::SetupOut) != Some(Method::Kprobe)
        && *config.filter == Filter::default()
        && config.lat.is_none()
        && !config.split_size
        && !config.commands
        && config.ignore.is_empty()
}

/// Loads the build for a usual case: where [`is_usual`].
fn load_the_usual<'obj>(
    slot: &'obj mut Slot,
    plan: &AttachPlan,
    layout: &Layout,
    config: &Config<'_>,
) -> Result<Loaded<'obj>, Trouble> {
    Ok(match (config.trace, plan.stage_set) {
        (None, StageSet::Total) => {
            let builder = NvmeDeepTotalSkelBuilder::default();
            Loaded::Total(load_usual!(
                builder,
                [cfg_trace cfg_stack cfg_verdict cfg_end
                 cfg_start_hook cfg_start_field cfg_doorbell],
                slot, plan, layout, config
            ))
        }
        (None, StageSet::Basic) => {
            let builder = NvmeDeepBasicSkelBuilder::default();
            Loaded::Basic(load_usual!(
                builder,
                [cfg_trace cfg_stack cfg_verdict cfg_end],
                slot, plan, layout, config
            ))
        }
        (None, StageSet::Fine) => {
            let builder = NvmeDeepFineSkelBuilder::default();
            Loaded::Fine(load_usual!(
                builder,
                [cfg_trace cfg_stack cfg_verdict],
                slot, plan, layout, config
            ))
        }
        (Some(_), _) => {
            let builder = NvmeDeepTraceSkelBuilder::default();
            Loaded::Trace(load_usual!(builder, [], slot, plan, layout, config))
        }
    })
}

/// Opens, configures and loads the object that the plan needs.
pub fn load<'obj>(
    slot: &'obj mut Slot,
    plan: &AttachPlan,
    layout: &Layout,
    config: &Config<'_>,
) -> Result<Loaded<'obj>, Trouble> {
    libbpf_log::forget();
    let loaded = match plan.pairing {
        Pairing::Request if is_usual(plan, config) => load_the_usual(slot, plan, layout, config)?,
        Pairing::Request if config.facts.vmlinux_btf => {
            let builder = NvmeDeepSkelBuilder::default();
            Loaded::Request(load_request!(builder, [], slot, plan, layout, config))
        }
        Pairing::Request => {
            let builder = NvmeDeepPlainSkelBuilder::default();
            Loaded::Plain(load_request!(builder, [], slot, plan, layout, config))
        }
        Pairing::Tag => {
            let builder = TracepointSkelBuilder::default();
            let mut open = builder
                .open(slot)
                .context("failed to open the BPF object")?;
            choose(open.open_object_mut(), plan, config.facts);
            let ro = open.maps.rodata_data.as_deref_mut();
            let ro = ro.context("the BPF object has no constants")?;
            constants!(&mut *ro, plan, layout, config);
            event_fields(ro, plan, config)?;
            tag_sizes(&mut open, plan, layout, config).context("failed to size the maps")?;
            let skel = open.load().map_err(|error| load_trouble(&error, plan))?;
            Loaded::Tag(Box::new(skel))
        }
    };
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

fn tag_sizes(
    open: &mut OpenTracepointSkel<'_>,
    plan: &AttachPlan,
    layout: &Layout,
    config: &Config<'_>,
) -> libbpf_rs::Result<()> {
    sizes!(&mut open.maps, plan, layout, config);
    Ok(())
}
