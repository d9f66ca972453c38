// SPDX-License-Identifier: MIT OR Apache-2.0
//! Converts the plan and the settings to the configuration of the BPF side
//! (bpf/include/config_abi.h).

use std::path::Path;

use bytemuck::Zeroable;

use super::configure_who::{add_who, groups};
use super::{Config, Layout};
use crate::abi::{nd_config, nd_container, nd_mode, nd_stack_at, nd_trace, wait_bits};
use crate::error::{CgroupError, Error, Result};
use crate::machine::container;
use crate::model::filter::Filter;
use crate::model::point::{Pattern, Point};
use crate::model::run::Pairing;
use crate::model::stack::StackAt;
use crate::model::stage::StageSet;
use crate::nvme::opcode::QueueKind;
use crate::probe::catalog::{Method, Role, number_of};
use crate::probe::facts::{KernelFacts, Preemption};
use crate::probe::plan::{AttachPlan, StartSource};
use crate::settings::{Also, Mode, Settings};

/// For tests: a program ignores one event in this many.
const IGNORE_EVERY: u32 = 97;

/// A thread's name, in the form in which the BPF side compares it.
pub(super) fn words_of(name: &str) -> [u64; 2] {
    let mut padded = [0; 16];
    padded.iter_mut().zip(name.bytes()).for_each(|(to, b)| *to = b);
    let (low, high) = padded.split_at(8);
    let word = |b: &[u8]| b.try_into().map_or(0, u64::from_ne_bytes);
    [word(low), word(high)]
}

/// Whether a completion's status and result can be read: classic tracepoints print them; otherwise
/// they are behind the request, in a struct of the driver.
pub const fn status_is_known(plan: &AttachPlan, facts: &KernelFacts) -> bool {
    matches!(plan.pairing, Pairing::Tag) || facts.nvme_core_types.is_known()
}

/// Whether the run counts failed and retried commands.
pub fn counts_status(plan: &AttachPlan, config: &Config<'_>) -> bool {
    matches!(config.settings.also(), Also::CountErrors | Also::TopCounters)
        && status_is_known(plan, config.facts)
}

/// Whether the run counts the commands of each queue, and reports the slowest.
pub fn has_top_counters(plan: &AttachPlan, config: &Config<'_>) -> bool {
    config.settings.also() == Also::TopCounters
        && plan.pairing == Pairing::Request
        && config.facts.nvme_core_types.is_known()
}

/// How commands are looked at singly, if they are.
const fn kind(settings: &Settings) -> Option<nd_trace> {
    Some(match &settings.mode {
        Mode::Histograms(histograms) => match histograms.also {
            Also::Commands => nd_trace::ND_TRACE_COMMANDS,
            Also::Nothing | Also::CountErrors | Also::TopCounters => return None,
        },
        Mode::Events(events) if events.pairs => nd_trace::ND_TRACE_PAIRS,
        Mode::Events(_) => nd_trace::ND_TRACE_EVENTS,
        Mode::Stacks(..) => nd_trace::ND_TRACE_STACKS,
        Mode::Flight(_) => nd_trace::ND_TRACE_FLIGHT,
    })
}

fn add_trace(c: &mut nd_config, kind: nd_trace, plan: &AttachPlan, config: &Config<'_>) {
    let (stack, outcome) = (config.settings.stack(), config.settings.outcome());
    let at = match stack.map(|stack| stack.at) {
        None => nd_stack_at::ND_STACK_NONE,
        Some(StackAt::Submit) => nd_stack_at::ND_STACK_SUBMIT,
        Some(StackAt::Complete) => nd_stack_at::ND_STACK_COMPLETE,
    };
    (c.trace, c.stack) = (kind.0 as u8, at.0 as u8);
    c.stack_at_entry = u8::from(plan.method_of(Point::SetupOut) == Some(Method::Kprobe));
    if let Some(stack) = stack.filter(|stack| stack.period > 1) {
        c.sample_below = (u64::from(u32::MAX) / u64::from(stack.period)) as u32;
    }
    if let Some((first, end)) = config.irq_entry {
        c.irq_first = first;
        c.irq_end = end;
    }
    c.verdict = u8::from(status_is_known(plan, config.facts));
    c.slow_ns = outcome.slow.map_or(0, |t| t.as_nanos() as u64);
    c.errors = u8::from(outcome.errors);
}

fn add_filter(c: &mut nd_config, filter: &Filter) {
    let Filter { ctrls, nsids, opcodes, qids, no_admin, no_io, pids, comm, cgroup, lba, .. } =
        filter;
    c.targ_any = u8::from(*filter != Filter::default());
    c.targ_no_admin = u8::from(*no_admin);
    c.targ_no_io = u8::from(*no_io);
    c.targ_pid_count = pids.len() as u32;
    for (to, &pid) in c.targ_pids.iter_mut().zip(pids) {
        *to = pid;
    }
    if let Some(name) = comm {
        c.targ_by_comm = 1;
        c.targ_comm = words_of(name);
    }
    c.targ_by_cgroup = u8::from(cgroup.is_some());
    if let Some((first, last)) = *lba {
        c.targ_by_lba = 1;
        c.targ_lba_first = first;
        c.targ_lba_last = last;
    }
    c.targ_by_ctrl = u8::from(!ctrls.is_empty());
    for &ctrl in ctrls {
        c.targ_ctrls[(ctrl >> 6) as usize & 3] |= 1 << (ctrl & 63);
    }
    c.targ_by_opcode = u8::from(!opcodes.is_empty());
    for op in opcodes {
        let admin = usize::from(op.queue == QueueKind::Admin);
        c.targ_opcodes[admin][usize::from(op.code >> 6)] |= 1 << (op.code & 63);
    }
    c.targ_nsid_count = nsids.len() as u32;
    for (to, &nsid) in c.targ_nsids.iter_mut().zip(nsids) {
        *to = nsid;
    }
    c.targ_qid_count = qids.len() as u32;
    for (to, &qid) in c.targ_qids.iter_mut().zip(qids) {
        *to = qid.into();
    }
}

/// Adds the settings of programs that pair by request (all but classic tracepoints).
fn add_request(c: &mut nd_config, plan: &AttachPlan, config: &Config<'_>) -> Result<()> {
    let (facts, types) = (config.facts, &config.facts.nvme_core_types);
    c.start_hook = u8::from(plan.start == StartSource::Hook);
    c.start_bio = u8::from(plan.start == StartSource::Bio);
    c.start_field = u8::from(matches!(plan.start, StartSource::Field | StartSource::Bio));
    c.doorbell = match plan.method_of(Point::Doorbell) {
        None => 0,
        Some(Method::Kprobe) => 2,
        Some(_) => 1,
    };
    c.end = u8::from(plan.has(Point::End));
    c.lossy = u8::from(plan.may_lose_completions());
    c.recover = u8::from(plan.recovers);
    c.nests = u8::from(plan.nests);
    c.setup_skips = u8::from(plan.recovers && facts.tracepoints_skip());
    let preempted = facts.preemption >= Preemption::Full;
    let by_exit = plan.method_of(Point::Doorbell) == Some(Method::Fentry);
    c.exit_skips = u8::from(preempted && by_exit);
    c.irq_count = u8::from(facts.preemption == Preemption::Full);
    c.context = u8::from(config.settings.context());
    c.hard_irq = u8::from(!facts.threaded_interrupts);
    c.softirq = u8::from(facts.preemption != Preemption::RealTime);
    for program in &config.settings.attaching.ignore {
        let number =
            number_of(program).ok_or_else(|| Error::UnknownProgram { program: program.clone() })?;
        c.test_ignore[number / 64] |= 1 << (number % 64);
        c.test_ignore_every = IGNORE_EVERY;
    }
    c.by_name = u8::from(!types.is_known());
    c.check_fit = u8::from(types.is_known() && !types.is_the_kernels());
    c.rq_second = u8::from(facts.rq_is_second);
    c.cmd_arg = u8::from(facts.command_is_argument);
    Ok(())
}

/// Adds the settings of classic tracepoints: offsets of fields in their formats. A missing field is an error.
fn add_fields(c: &mut nd_config, plan: &AttachPlan, config: &Config<'_>) -> Result<()> {
    let facts = config.facts;
    let field = |event: &'static str, field: &'static str| {
        facts
            .events
            .as_ref()
            .and_then(|events| events.get(event)?.get(field).copied())
            .ok_or(Error::NoField { event, field })
    };
    let (setup, done) = ("nvme/nvme_setup_cmd", "nvme/nvme_complete_rq");
    c.tp_setup_ctrl = field(setup, "ctrl_id")?;
    c.tp_setup_qid = field(setup, "qid")?;
    c.tp_setup_opcode = field(setup, "opcode")?;
    c.tp_setup_cid = field(setup, "cid")?;
    c.tp_setup_nsid = field(setup, "nsid")?;
    c.tp_setup_cdw10 = field(setup, "cdw10")?;
    c.tp_done_ctrl = field(done, "ctrl_id")?;
    c.tp_done_qid = field(done, "qid")?;
    c.tp_done_cid = field(done, "cid")?;
    c.tp_done_status = field(done, "status")?;
    c.tp_done_retries = field(done, "retries")?;
    if !config.settings.is_trace() {
        return Ok(());
    }
    c.tp_setup_flags = field(setup, "flags")?;
    c.tp_setup_metadata = field(setup, "metadata")?;
    c.tp_done_result = field(done, "result")?;
    c.tp_done_flags = field(done, "flags")?;
    if plan.has_role(Role::SqHead) {
        let sq = "nvme/nvme_sq";
        c.tp_sq_ctrl = field(sq, "ctrl_id")?;
        c.tp_sq_qid = field(sq, "qid")?;
        c.tp_sq_head = field(sq, "sq_head")?;
        c.tp_sq_tail = field(sq, "sq_tail")?;
    }
    if plan.has_role(Role::AsyncEvent) {
        let event = "nvme/nvme_async_event";
        c.tp_async_ctrl = field(event, "ctrl_id")?;
        c.tp_async_result = field(event, "result")?;
    }
    Ok(())
}

/// The id of a container's cgroup, if bios can be attributed to it: the io controller is enabled there,
/// and requests can be read.
fn container_id(path: &Path, plan: &AttachPlan) -> Result<Option<u64>> {
    if plan.pairing == Pairing::Tag || !container::attributes_io(path) {
        return Ok(None);
    }
    let found = container::cgroup_id(path).map_err(|error| Error::Cgroup {
        path: path.to_owned(),
        error: CgroupError::Unreadable(error),
    })?;
    Ok(Some(found))
}

/// The points before the request that commands have.
pub fn waits_of(plan: &AttachPlan) -> Pattern {
    plan.known_waits().filter_map(Point::pattern_bit).sum()
}

/// Returns the configuration of a run.
///
/// # Errors
/// If a test names a program that does not exist, or an event lacks a field.
pub fn configure(plan: &AttachPlan, layout: &Layout, config: &Config<'_>) -> Result<nd_config> {
    let mut c = nd_config::zeroed();
    let mode = match plan.stage_set {
        StageSet::Total => nd_mode::ND_MODE_TOTAL,
        StageSet::Basic => nd_mode::ND_MODE_BASIC,
        StageSet::Fine | StageSet::Full => nd_mode::ND_MODE_FINE,
    };
    c.mode = mode.0;
    c.atomic = u8::from(layout.cells.atomic() || plan.needs_atomics());
    c.rows = layout.cells.rows as u16;
    if let Some(sparse) = layout.cells.sparse {
        c.sparse = 1;
        c.own_cells = sparse.own as u16;
    }
    c.windows = u8::from(layout.windows.is_some());
    c.waits = u8::from(plan.has(Point::Bio));
    c.wait_points = wait_bits(waits_of(plan));
    let settings = config.settings;
    c.split_size = u8::from(settings.split_size());
    if let Some(kind) = kind(settings) {
        add_trace(&mut c, kind, plan, config);
    }
    c.count_status = u8::from(counts_status(plan, config));
    c.details = u8::from(has_top_counters(plan, config));
    if let Some(lat) = settings.lat() {
        c.lat = 1;
        c.lat_min_us = lat.min_us.into();
        c.lat_shift = lat.shift;
    }
    add_filter(&mut c, &settings.filter);
    if let Some(path) = &settings.filter.container {
        let id = container_id(path, plan)?;
        let by = match id {
            Some(_) => nd_container::ND_CONTAINER_BIO,
            None => nd_container::ND_CONTAINER_TASK,
        };
        (c.targ_container, c.targ_cgroup_id) = (by.0 as u8, id.unwrap_or(0));
    }
    c.by = groups(plan, config)?;
    add_who(&mut c, plan, config)?;
    match plan.pairing {
        Pairing::Request => add_request(&mut c, plan, config)?,
        Pairing::Tag => add_fields(&mut c, plan, config)?,
    }
    Ok(c)
}
