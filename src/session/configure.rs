// SPDX-License-Identifier: MIT OR Apache-2.0
//! Converts the plan and the settings to the configuration of the BPF side
//! (bpf/include/abi.h).

use super::{Config, Layout};
use crate::abi::{
    BEGUN_BYTES, BIO_BYTES, BIOS, LINE, PAUSE_BYTES, SLOT_BASIC, SLOT_FINE, SLOT_FULL, SLOT_ORIGIN,
    SLOT_TRACE, START_BY_BYTES, START_BYTES, START_FULL_BYTES, SUBMITTER_BYTES, SUBMITTERS,
    by_bits, by_size, cell_bytes, nd_by, nd_by_cgroup, nd_config, nd_mode, nd_stack_at, nd_trace,
    nd_who, wait_bits,
};
use crate::error::{unreadable_cgroup, unsupported};
use crate::machine::cgroups;
use crate::model::filter::Filter;
use crate::model::group::By;
use crate::model::machine::Pairing;
use crate::model::point::{Pattern, Point};
use crate::model::stack::StackAt;
use crate::model::stage::StageSet;
use crate::nvme::opcode::QueueKind;
use crate::probe::catalog::{Method, Role, number_of};
use crate::probe::facts::{KernelFacts, Preemption};
use crate::probe::plan::{AttachPlan, StartSource};
use crate::settings::{ExtraEvents, Mode, OriginDetail, Settings};
use anyhow::{Context, Result};
use bytemuck::Zeroable;
use std::path::Path;

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
    matches!(config.settings.extra(), ExtraEvents::CountErrors | ExtraEvents::TopCounters)
        && status_is_known(plan, config.facts)
}

/// Whether the run counts the commands of each queue, and reports the slowest.
pub fn has_top_counters(plan: &AttachPlan, config: &Config<'_>) -> bool {
    config.settings.extra() == ExtraEvents::TopCounters
        && plan.pairing == Pairing::Request
        && config.facts.nvme_core_types.is_known()
}

/// How commands are looked at singly, if they are.
fn kind(settings: &Settings) -> Option<nd_trace> {
    Some(match &settings.mode {
        Mode::Histograms(histograms) => match histograms.extra {
            _ if settings.counts_events() => nd_trace::ND_TRACE_PAIRS,
            ExtraEvents::Commands => nd_trace::ND_TRACE_COMMANDS,
            ExtraEvents::Nothing | ExtraEvents::CountErrors | ExtraEvents::TopCounters => {
                return None;
            }
        },
        Mode::Events(events) if events.submits => nd_trace::ND_TRACE_EVENTS,
        Mode::Events(_) => nd_trace::ND_TRACE_PAIRS,
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
    c.slow_ns = outcome.slow.map_or(0, |t| t.as_nanos() as u64);
    c.errors = u8::from(outcome.errors);
}

fn add_filter(c: &mut nd_config, filter: &Filter) {
    let Filter { nsids, opcodes, qids, no_admin, no_io, pids, comms, lba, .. } = filter;
    c.targ_any = u8::from(*filter != Filter::default());
    c.targ_no_admin = u8::from(*no_admin);
    c.targ_no_io = u8::from(*no_io);
    c.targ_pid_count = pids.len() as u32;
    for (to, &pid) in c.targ_pids.iter_mut().zip(pids) {
        *to = pid;
    }
    c.targ_comm_count = comms.len() as u32;
    for (to, name) in c.targ_comms.iter_mut().zip(comms) {
        *to = words_of(name);
    }
    if let Some((first, last)) = *lba {
        c.targ_by_lba = 1;
        c.targ_lba_first = first;
        c.targ_lba_last = last;
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
    for program in &config.settings.attaching.test_ignore {
        let number = number_of(program).with_context(|| format!("no program `{program}`"))?;
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
            .ok_or_else(|| unsupported(format!("the format of {event} has no field `{field}`")))
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

/// Adds the cgroup of the filter. Bios can be attributed to it if the io controller is enabled there, and
/// requests can be read.
fn add_cgroup(c: &mut nd_config, path: &Path, plan: &AttachPlan) -> Result<()> {
    let by_bio = plan.pairing == Pairing::Request && cgroups::attributes_io(path);
    let by = if by_bio { nd_by_cgroup::ND_CGROUP_BIO } else { nd_by_cgroup::ND_CGROUP_TASK };
    c.targ_by_cgroup = by.0 as u8;
    let id = cgroups::cgroup_id(path);
    c.targ_cgroup_id = id.map_err(|error| unreadable_cgroup(path, &error))?;
    Ok(())
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
        StageSet::Total | StageSet::Host | StageSet::Join => nd_mode::ND_MODE_TOTAL,
        StageSet::Basic => nd_mode::ND_MODE_BASIC,
        StageSet::Fine | StageSet::Full => nd_mode::ND_MODE_FINE,
    };
    c.mode = mode.0;
    c.rows = layout.cells.rows as u16;
    c.waits = u8::from(plan.has(Point::Bio));
    c.wait_points = wait_bits(waits_of(plan));
    let settings = config.settings;
    if let Some(kind) = kind(settings) {
        add_trace(&mut c, kind, plan, config);
    }
    c.count_status = u8::from(counts_status(plan, config));
    c.details = u8::from(has_top_counters(plan, config));
    add_filter(&mut c, &settings.filter);
    if let Some(path) = &settings.filter.cgroup {
        add_cgroup(&mut c, path, plan)?;
    }
    c.by = groups(plan, config)?;
    for by in settings.kernel_groups() {
        if let By::Size(limits) = by {
            c.by_size = by_size(*limits);
        }
    }
    add_origin(&mut c, plan, config)?;
    match plan.pairing {
        Pairing::Request => add_request(&mut c, plan, config)?,
        Pairing::Tag => add_fields(&mut c, plan, config)?,
    }
    Ok(c)
}

/// Why cgroups cannot be told apart.
const NO_HIERARCHY: &str = "cgroups and containers of commands need cgroups of version 2, which this \
                            machine has not mounted: use processes";

/// The properties by which commands are grouped.
pub(crate) fn groups(plan: &AttachPlan, config: &Config<'_>) -> Result<u16> {
    let by = config.settings.kernel_groups();
    if !config.settings.by().is_empty() && plan.pairing == Pairing::Tag {
        return Err(unsupported(
            "--by does not work with classic tracepoints, which do not show the request: use another \
             method (`nvme-deep doctor` says what it lacks), or `record` and `latency --by --from`",
        ));
    }
    let mut bits = by_bits(by);
    // also if single commands are grouped here
    if config.settings.by().iter().any(|by| by.is_cgroup()) {
        let has_io = config.system.cgroups_have_io();
        let has_io = has_io.ok_or(unsupported(NO_HIERARCHY))?;
        // without groups in the kernel the setting would make every command one of a group
        bits |= if has_io && bits != 0 { nd_by::ND_BY_BIO.0 } else { 0 };
    }
    Ok(bits as u16)
}

/// What the run observes of who caused commands, and why not all that it asks for.
pub(crate) fn shown_origin(
    plan: &AttachPlan,
    config: &Config<'_>,
) -> (OriginDetail, Option<&'static str>) {
    let settings = config.settings;
    let asked = settings.observed_origin();
    // the slowest commands need the types of the driver, too
    let has_types = config.facts.vmlinux_btf
        && (!settings.reports_submitters() || has_top_counters(plan, config));
    let has_cgroups = config.system.cgroups_have_io().is_some();
    match asked {
        OriginDetail::Nobody => (asked, None),
        _ if plan.pairing == Pairing::Tag || !has_types => {
            let why = "cgroups of commands and submitters need a kernel that describes itself \
                       (CONFIG_DEBUG_INFO_BTF), and another method than classic tracepoints: \
                       `nvme-deep doctor` says what is missing";
            (OriginDetail::Nobody, Some(why))
        }
        OriginDetail::Submitters if plan.sees_submitters() => (asked, None),
        OriginDetail::Submitters => {
            let why = "the submissions of bios cannot be observed here (tp_btf block_bio_queue)";
            let most = if has_cgroups { OriginDetail::Cgroups } else { OriginDetail::Nobody };
            (settings.origin().min(most), Some(why))
        }
        OriginDetail::Cgroups if has_cgroups => (asked, None),
        OriginDetail::Cgroups => (OriginDetail::Nobody, Some(NO_HIERARCHY)),
    }
}

/// Adds what is observed of who caused commands.
pub(crate) fn add_origin(c: &mut nd_config, plan: &AttachPlan, config: &Config<'_>) -> Result<()> {
    let settings = config.settings;
    let (who, lacks) = shown_origin(plan, config);
    if let Some(why) = lacks.filter(|_| who < settings.required_origin()) {
        return Err(unsupported(why));
    }
    if who == OriginDetail::Nobody {
        return Ok(());
    }
    let has_io = config.system.cgroups_have_io();
    let mut bits = 0;
    if settings.origin() != OriginDetail::Nobody {
        bits |= nd_who::ND_WHO_ORIGIN.0;
    }
    if who == OriginDetail::Submitters {
        bits |= nd_who::ND_WHO_SUBMITTER.0;
    }
    if has_io == Some(true) {
        bits |= nd_who::ND_WHO_BIO.0;
    }
    c.who = bits as u8;
    let filters = settings.filter.selects_who() && who == OriginDetail::Submitters;
    c.targ_submitter = u8::from(filters);
    Ok(())
}

/// Memory that a hash map of the kernel needs per entry, besides key and value.
pub const HASH_ENTRY: usize = 64;

/// Entries of an LRU map that a CPU keeps to itself, free ones or the last that it made
/// (`LOCAL_FREE_TARGET` of kernel/bpf/bpf_lru_list.c).
const LRU_OF_CPU: u32 = 128;

/// The size of an LRU map for `entries`. With many CPUs the kernel would evict entries that were just
/// made.
pub const fn lru_entries(entries: u32, cpus: u32) -> u32 {
    entries + cpus * LRU_OF_CPU
}

/// Slot size of a stage set, or of a trace. `origin`: it observes who caused each command.
pub const fn slot_bytes(stage_set: StageSet, trace: bool, origin: bool) -> usize {
    match (stage_set, trace) {
        _ if origin => SLOT_ORIGIN,
        (StageSet::Full, true) => SLOT_FULL,
        // the waits are in place of the submission
        (_, true) | (StageSet::Full, false) => SLOT_TRACE,
        (StageSet::Fine, false) => SLOT_FINE,
        (_, false) => SLOT_BASIC,
    }
}

/// Bytes of a start entry.
pub fn start_bytes(settings: &Settings) -> usize {
    match settings.stage_set {
        StageSet::Full if settings.follows_submitters() => START_BY_BYTES,
        StageSet::Full => START_FULL_BYTES,
        _ => START_BYTES,
    }
}

/// Memory of the bios that have no request yet, and of the tasks that wait.
pub const fn bio_bytes(stage_set: StageSet) -> usize {
    match stage_set {
        StageSet::Full => BIOS * (2 * HASH_ENTRY + BIO_BYTES + BEGUN_BYTES) + PAUSE_BYTES,
        _ => 0,
    }
}

/// Memory of the submitters of bios.
pub const fn submitter_bytes(origin: OriginDetail, cpus: u32) -> usize {
    let entries = lru_entries(SUBMITTERS, cpus) as usize;
    match origin {
        OriginDetail::Submitters => entries * (HASH_ENTRY + SUBMITTER_BYTES),
        OriginDetail::Nobody | OriginDetail::Cgroups => 0,
    }
}

/// Bytes of a row's cell in the map: whole cache lines.
pub const fn cell_stride(stage_set: StageSet) -> usize {
    cell_bytes(stage_set).next_multiple_of(LINE)
}
