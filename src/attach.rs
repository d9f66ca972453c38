// SPDX-License-Identifier: MIT OR Apache-2.0
//! From what the kernel offers to an attached session: plan, try, and where the kernel refuses a
//! program all the same, plan again without it.

use std::io::Write;
use std::io::stderr;
use std::mem::MaybeUninit;
use std::path::Path;

use anyhow::Error;
use anyhow::Result;

use crate::exit::Failure;
use crate::exit::Kind;
use crate::host::Host;
use crate::host::kernel::Look;
use crate::host::may_read_module_btf;
use crate::host::sysfs::Controller;
use crate::options::Probing;
use crate::options::StackAt;
use crate::options::TraceKind;
use crate::options::Tracing;
use crate::path::milestone::Milestone;
use crate::probe::catalog::CATALOG;
use crate::probe::catalog::Family;
use crate::probe::catalog::Sight;
use crate::probe::facts::KernelFacts;
use crate::probe::plan::AttachPlan;
use crate::probe::plan::NoPlan;
use crate::probe::plan::Policy;
use crate::probe::plan::plan_with;
use crate::session::Config;
use crate::session::Layout;
use crate::session::Session;
use crate::session::Slot;
use crate::session::Trouble;

/// Each refusal costs a place for an object, which libbpf wants to stay where it is.
const ATTEMPTS: usize = 16;

/// Room for the objects of all attempts.
pub fn slots() -> Vec<Slot> {
    (0..ATTEMPTS).map(|_| MaybeUninit::uninit()).collect()
}

/// The error of a kernel that offers no way.
pub fn no_way(why: &NoPlan) -> Error {
    let reasons = why.reasons();
    Failure::error(
        Kind::Kernel,
        match why.only {
            Some(family) => format!(
                "--attach {} is not possible on this kernel: {reasons}; `nvme-deep doctor` shows the alternatives",
                family.name()
            ),
            None => format!(
                "no command can be followed on this kernel ({reasons}); `nvme-deep doctor` says \
                 what would help"
            ),
        },
    )
}

/// How closely the kernel must be looked at for this choice.
const fn look_for(only: Option<Family>) -> Look {
    match only {
        Some(Family::Kprobe) => Look::Symbols,
        _ => Look::Brief,
    }
}

/// The events of a trace besides commands.
fn sights(trace: &Tracing) -> Vec<Sight> {
    let wanted = |sight: &Sight| match sight {
        _ if trace.kind == TraceKind::Stacks => false,
        Sight::SqHead => trace.sq,
        Sight::AsyncEvent => trace.aen,
        _ => true,
    };
    Sight::EVENTS.into_iter().filter(wanted).collect()
}

/// Where a return probe is all there is for the setup, each stack goes through it.
fn warn_of_short_stacks(policy: &Policy, facts: &KernelFacts, plan: &AttachPlan) {
    let by_return = plan.family_of(Milestone::SetupOut) == Some(Family::Kprobe);
    if policy.stacks && by_return && !facts.sees_through_kretprobes() {
        let _ = writeln!(
            stderr(),
            "nvme-deep: stacks end at nvme_setup_cmd: this kernel (before 5.15) does not see \
             through a return probe, which --attach kprobe needs there"
        );
    }
}

/// Attaches what the options want, in the best way that this kernel allows. For those who may trace.
/// `irq_entry`: where interrupts come in, for stacks.
///
/// # Errors
/// A BTF file that can't be used; no way left. One sentence each, with its exit code.
pub fn attach<'obj>(
    slots: &'obj mut [Slot],
    host: &Host,
    options: &Probing,
    layout: &Layout,
    controllers: &[Controller],
    irq_entry: Option<(u64, u64)>,
) -> Result<Session<'obj>> {
    let file = options.attaching.btf.as_deref().map(Path::new);
    let (mut facts, types) = host
        .kernel_facts(
            file,
            may_read_module_btf(),
            look_for(options.attaching.only),
        )
        .map_err(|why| Failure::error(Kind::Usage, why))?;
    facts.recovers = facts.can_recover() && !options.attaching.no_recovery;
    if let Some(remark) = &types.remark {
        let _ = writeln!(stderr(), "nvme-deep: {remark}");
    }
    let config = Config {
        filter: &options.filter,
        lat: options.lat,
        split_size: options.split_size,
        commands: options.commands,
        trace: options.trace.as_ref(),
        irq_entry,
        measure: options.attaching.verbose > 0,
        ignore: &options.attaching.ignore,
        facts: &facts,
        custom_btf: types.custom.as_ref(),
    };
    let mut policy = Policy {
        only: options.attaching.only,
        stacks: options
            .trace
            .as_ref()
            .is_some_and(|t| t.stack == Some(StackAt::Submit)),
        ..Policy::default()
    };
    let events = options.trace.as_ref().map_or_else(Vec::new, sights);
    for slot in slots {
        let plan = plan_with(options.cut, &events, &facts, &policy).map_err(|why| no_way(&why))?;
        match Session::start(slot, plan, layout.clone(), &config, controllers) {
            Ok(session) => {
                warn_of_short_stacks(&policy, &facts, session.plan());
                return Ok(session);
            }
            Err(Trouble::Fatal(error)) => return Err(error),
            Err(Trouble::Refused(number, why)) => {
                if options.attaching.verbose > 0 {
                    let program = CATALOG[number].program;
                    let _ = writeln!(stderr(), "nvme-deep: {program}: {why}; trying another way");
                }
                policy.refused.insert(number, why);
            }
        }
    }
    Err(Failure::error(
        Kind::Kernel,
        format!(
            "this kernel refused {ATTEMPTS} programs one after the other; -v shows which, -vv why"
        ),
    ))
}
