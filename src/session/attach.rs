// SPDX-License-Identifier: MIT OR Apache-2.0
//! From the facts of the kernel to an attached session: plan, try, and if the kernel refuses a
//! program, plan again without it.

use std::path::Path;

use super::{Config, Layout, Session, StartError, kernel_facts};
use crate::error::{no_method, unsupported};
use crate::machine::clock::is_slow;
use crate::machine::kernel::Look;
use crate::machine::{System, cgroups, may_read_module_btf};
use crate::model::machine::{ControllerInfo, Pairing};
use crate::model::origin::Who;
use crate::model::point::Point;
use crate::model::stack::StackAt;
use crate::model::stage::StageSet;
use crate::probe::catalog::{CATALOG, Method, Role};
use crate::probe::facts::{KernelFacts, PreemptionSource};
use crate::probe::plan::{AttachPlan, Policy, plan_with};
use crate::settings::{Events, ExtraEvents, Mode, OriginDetail, Settings};
use anyhow::Result;

/// Maximum number of attempts; each refusal of a program takes one.
const ATTEMPTS: usize = 16;

/// How much of the kernel's data this choice requires.
const fn look_for(only: Option<Method>) -> Look {
    match only {
        Some(Method::Kprobe) => Look::Symbols,
        _ => Look::Brief,
    }
}

/// The roles of events other than commands.
fn roles(events: &Events) -> Vec<Role> {
    let wanted = |role: &Role| match role {
        Role::SqHead => events.sq,
        Role::AsyncEvent => events.aen,
        _ => true,
    };
    let roles = Role::EVENTS.into_iter().filter(wanted);
    match events.detail.context {
        true => roles.chain(Role::CONTEXT).collect(),
        false => roles.collect(),
    }
}

/// What is observed besides the points and requeues.
pub(super) fn events(settings: &Settings) -> Vec<Role> {
    let submitter =
        (settings.observed_origin() == OriginDetail::Submitters).then_some(Role::Submitter);
    events_of(settings).into_iter().chain(submitter).collect()
}

/// The same, but the submitters.
fn events_of(settings: &Settings) -> Vec<Role> {
    match &settings.mode {
        Mode::Events(events) => roles(events),
        Mode::Histograms(histograms) => match histograms.extra {
            ExtraEvents::CountErrors | ExtraEvents::TopCounters => {
                vec![Role::Timeout, Role::Cancel]
            }
            ExtraEvents::Nothing | ExtraEvents::Commands => vec![],
        },
        Mode::Stacks(..) | Mode::Flight(_) => vec![],
    }
}

/// A remark if stacks are truncated. This is the case if the setup is observed by a return probe,
/// and the kernel cannot unwind through it.
fn short_stacks(policy: &Policy, facts: &KernelFacts, plan: &AttachPlan) -> Option<String> {
    let by_return = plan.method_of(Point::SetupOut) == Some(Method::Kprobe);
    (policy.stacks && by_return && !facts.sees_through_kretprobes()).then(|| {
        "stacks end at nvme_setup_cmd: this kernel (before 5.15) does not see through a return \
         probe, which --attach kprobe needs there"
            .into()
    })
}

/// A remark, with `-v`, if the preemption mode is not known.
fn unknown_mode(verbose: bool, facts: &KernelFacts) -> Option<&'static str> {
    (verbose && facts.preemption_source == PreemptionSource::Unknown)
        .then_some("the kernel's preemption mode is not known, and counts as full")
}

/// A remark if readings of the clock are slow.
fn slow_clock(system: &System) -> Option<String> {
    let source = system.clock_source().filter(|source| is_slow(source))?;
    Some(format!(
        "the kernel's clock ({source}) takes about 1 us or more to read, which makes all stages longer"
    ))
}

/// A remark if the commands of a cgroup are selected by their task.
fn by_task(config: &Config<'_>, plan: &AttachPlan) -> Option<&'static str> {
    let path = config.settings.filter.cgroup.as_ref()?;
    if plan.pairing == Pairing::Tag {
        return Some(
            "--cgroup selects by the task that calls the driver, which for writeback is a kernel \
             thread: classic tracepoints do not show the cgroup of the I/O",
        );
    }
    (!cgroups::attributes_io(path)).then_some(
        "--cgroup selects writeback by the task that submits it, which is a kernel thread: the io \
         controller is not enabled for this cgroup (`echo +io` to cgroup.subtree_control of its \
         parents)",
    )
}

/// A remark if groups and filters by process go by the callers.
fn callers(settings: &Settings, session: &Session) -> Option<String> {
    let why = match settings.stage_set == StageSet::Full && settings.counts() {
        true => "with --stages=full: use --stages=fine",
        false => "here",
    };
    (settings.asks_process() && session.origin().who() == Who::Caller).then(|| {
        format!(
            "processes are the callers of the driver, which may be kernel threads: submitters are not \
             observed {why}"
        )
    })
}

/// A remark if commands count for the cgroups of tasks.
fn cgroups_by_task(config: &Config<'_>, origin: OriginDetail) -> Option<&'static str> {
    let by_cgroup = config.settings.by().iter().any(|by| by.is_cgroup());
    let of_cgroups = by_cgroup || origin != OriginDetail::Nobody && !config.settings.asks_who();
    let has_io = config.system.cgroups_have_io();
    (of_cgroups && has_io == Some(false)).then_some(
        "a command has the cgroup of its task, not the one that is charged for its I/O; for writeback that \
         is a kernel thread: the io controller is not in the unified hierarchy (a kernel without \
         CONFIG_BLK_CGROUP, or blkio of version 1)",
    )
}

/// A remark if device mapper may hide submitters: its own types are not those that the programs read, or not
/// described.
fn hidden_submitters(config: &Config<'_>, origin: OriginDetail) -> Option<String> {
    if origin != OriginDetail::Submitters {
        return None;
    }
    let name = config.system.mapped_device()?;
    let follows = config.custom_btf.is_some_and(|b| b.follows_device_mapper);
    (!follows).then(|| {
        format!(
            "device mapper ({name}) may hide submitters: its kernel threads count as the submitters of what \
             they submit (the BTF in use does not describe dm_mod, or as it was before Linux 5.18)"
        )
    })
}

/// What this kernel does not show, of a run that leaves it out.
fn left_out(settings: &Settings, session: &Session) -> Option<String> {
    let (plan, origin) = (session.plan(), session.origin());
    let by_tag = plan.pairing == Pairing::Tag;
    let wanted = settings.origin();
    let lacks_origin = |detail| settings.leaves_out() && origin < detail && detail <= wanted;
    let lacks = [
        (plan.lacks_waits(), "waits before the request"),
        (settings.context() && by_tag, "conditions"),
        (lacks_origin(OriginDetail::Submitters), "submitters"),
        (lacks_origin(OriginDetail::Cgroups), "cgroups"),
    ];
    let lacks: Vec<&str> = lacks.into_iter().filter_map(|(is, what)| is.then_some(what)).collect();
    (settings.leaves_out() && !lacks.is_empty())
        .then(|| format!("not observed here: {} (`nvme-deep doctor` says why)", lacks.join(", ")))
}

/// Attaches what the settings require, by the best methods of this kernel. The process must be
/// permitted to trace. `irq_entry`: the kernel's interrupt entry code, for stacks. `notice`
/// receives remarks for the user.
///
/// # Errors
/// If a BTF file cannot be used, or no method is left.
pub fn attach(
    system: &System,
    options: &Settings,
    layout: &Layout,
    controllers: &[ControllerInfo],
    irq_entry: Option<(u64, u64)>,
    notice: &mut dyn FnMut(&str),
) -> Result<Session> {
    let file = options.attaching.btf.as_deref().map(Path::new);
    let (mut facts, types) =
        kernel_facts(system, file, may_read_module_btf(), look_for(options.attaching.only))?;
    if let Some(why) = facts.unsupported() {
        return Err(unsupported(why));
    }
    facts.recovers = facts.can_recover() && !options.attaching.test_no_recovery;
    let verbose = options.attaching.verbose > 0;
    let remarks = [types.remark.as_deref(), unknown_mode(verbose, &facts)];
    remarks.into_iter().flatten().for_each(&mut *notice);
    let config = Config {
        settings: options,
        system,
        irq_entry,
        facts: &facts,
        custom_btf: types.custom.as_ref(),
    };
    let mut policy = Policy {
        only: options.attaching.only,
        stacks: options.stack().is_some_and(|s| s.at == StackAt::Submit),
        ..Policy::default()
    };
    let events = events(options);
    for _ in 0..ATTEMPTS {
        let plan = plan_with(options.stage_set, &events, &facts, &policy)
            .map_err(|why| no_method(&why))?;
        match Session::start(plan, layout.clone(), &config, controllers) {
            Ok(session) => {
                let remarks = [
                    slow_clock(system),
                    short_stacks(&policy, &facts, session.plan()),
                    callers(options, &session),
                    by_task(&config, session.plan()).map(str::to_owned),
                    left_out(options, &session),
                    cgroups_by_task(&config, session.origin()).map(str::to_owned),
                    hidden_submitters(&config, session.origin()),
                    session.no_timer().map(|why| format!("gaps are not observed: {why}")),
                ];
                remarks.iter().flatten().for_each(|text| notice(text));
                return Ok(session);
            }
            Err(StartError::Fatal(error)) => return Err(error),
            Err(StartError::Refused(number, why)) => {
                if verbose {
                    let program = CATALOG[number].program;
                    notice(&format!("{program}: {why}; trying another method"));
                }
                policy.refused.insert(number, why.to_string());
            }
        }
    }
    let text = format!(
        "this kernel refused {ATTEMPTS} programs one after the other; -v shows which, -vv why"
    );
    Err(unsupported(text))
}
