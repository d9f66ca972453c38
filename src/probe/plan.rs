// SPDX-License-Identifier: MIT OR Apache-2.0
//! The planner: takes facts, a stage set and a policy; returns hooks and reasons. Pure.
//!
//! Two points are essential: setup_out (a command begins to count) and complete (it ends). Any
//! other point may be missing; the stages around it are then merged.
//!
//! Each point gets the best method that the kernel offers ([`super::catalog::CANDIDATES`]).
//! Commands are identified by the address of their request. If only classic tracepoints are left,
//! commands are identified by (controller, queue, tag), which is all that these print. That is a
//! separate mode.

use std::collections::BTreeMap;
use std::iter;

pub use super::attach_plan::{AttachPlan, NoPlan, PointPlan, Rejection, StartSource};
use super::catalog::{
    AttachKind, CANDIDATES, CATALOG, Candidate, EVENT_CANDIDATES, Hook, Method, OPTIONAL_TARGETS,
    Role, START_OF_BIOS, STARTS_OF_WAITS, number_of,
};
use super::facts::{KernelFacts, Preemption};
use super::reasons::{Reason, kprobes_work, why_not};
use crate::model::machine::Pairing;
use crate::model::point::Point;
use crate::model::stage::StageSet;

/// Constraints on the choice, from the user and from earlier attempts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Policy {
    /// Only this method (`--attach`).
    pub only: Option<Method>,
    /// Stacks at submission are wanted, as deep as possible.
    pub stacks: bool,
    /// Programs that the kernel has refused, by number, with its message.
    pub refused: BTreeMap<usize, String>,
}

/// Whether each command must be observed at its CQE, because its setup and its completion may both
/// be skipped: programs at tracepoints may be preempted, and tasks complete commands, those that poll
/// or the threads of interrupts. With polling, the program at the CQE is never preempted, because
/// nvme_poll() holds a spin lock there, and nvme_irq() is an interrupt handler. As a thread,
/// nvme_irq() can be preempted there. If the kernel skips all three programs of a command, only the misses
/// of its setup count it ([`AttachPlan::unrecovered`]). (On PREEMPT_RT
/// completions are hooked by kprobes.)
fn needs_witness(facts: &KernelFacts) -> bool {
    let in_tasks = facts.polled || facts.threaded_interrupts;
    facts.tracepoints_skip() && facts.preemption != Preemption::RealTime && in_tasks
}

/// Whether the second instance of this hook is needed: an interrupt, or the thread of another one, can
/// come while a task runs the program at the CQE. The second instance observes its commands.
fn needs_second(hook: &Hook, facts: &KernelFacts) -> bool {
    needs_witness(facts) && hook.role == Role::Point(Point::Cqe)
}

const fn is_essential(role: Role) -> bool {
    matches!(role, Role::Point(Point::SetupOut | Point::Complete))
}

struct Planner<'a> {
    stage_set: StageSet,
    /// The events that are wanted besides the points and requeues.
    events: &'a [Role],
    facts: &'a KernelFacts,
    policy: &'a Policy,
}

impl Planner<'_> {
    /// The programs of a candidate, without programs at functions that this kernel lacks and does not
    /// need; or why the candidate is rejected.
    fn take(&self, candidate: &Candidate, so_far: &[PointPlan]) -> Result<Vec<usize>, Rejection> {
        let reject = |hook: &str, why: Reason, tried| Rejection {
            method: candidate.method,
            hook: hook.to_owned(),
            why,
            tried,
        };
        let mut taken = Vec::new();
        let mut left_out = Vec::new();
        for program in candidate.programs {
            let Some(number) = number_of(program) else {
                continue;
            };
            let hook = &CATALOG[number];
            if hook.is_second() && !needs_second(hook, self.facts) {
                continue;
            }
            let name = format!("{} {}", hook.kind.name(), hook.target.name());
            if self.would_cut_stacks(hook) {
                return Err(reject(&name, Reason::TRUNCATES_STACKS, false));
            }
            if self.is_held_up(hook) {
                return Err(reject(&name, Reason::HELD_UP_TRAMPOLINE, false));
            }
            if self.may_miss_completions(hook) {
                return Err(reject(&name, Reason::HELD_UP_TRACEPOINT, false));
            }
            if self.is_exception(hook) {
                return Err(reject(&name, Reason::EXCEPTION, false));
            }
            if let Some(why) = self.policy.refused.get(&number) {
                return Err(reject(&name, why.clone().into(), true));
            }
            match why_not(hook, self.facts) {
                None => taken.push(number),
                Some(why) if why.is_absence && OPTIONAL_TARGETS.contains(&hook.target.name()) => {
                    left_out.push(number);
                }
                Some(why) => return Err(reject(&name, why, false)),
            }
        }
        if let Some(why) = self.would_starve(candidate, so_far) {
            return Err(reject(candidate.programs[0], why, false));
        }
        Ok(taken)
    }

    /// Whether a return probe of a submitting function would truncate the stacks that are taken in
    /// it. (If the setup itself is observed by a return probe, there is no alternative.)
    fn would_cut_stacks(&self, hook: &Hook) -> bool {
        self.policy.stacks
            && hook.kind == AttachKind::Kretprobe
            && hook.role == Role::Point(Point::Doorbell)
            && !self.facts.sees_through_kretprobes()
    }

    /// Whether a kprobe is to be used instead of this trampoline. Unless a method is given,
    /// functions are hooked by kprobes on PREEMPT_RT: their programs cannot be preempted, and
    /// interrupt handlers are threads there, so nothing nests. (6.1-rt, four jobs on four CPUs:
    /// trampolines missed up to 161 of 4162 calls, two instances of each still 77, kprobes none.)
    fn is_held_up(&self, hook: &Hook) -> bool {
        self.policy.only.is_none()
            && self.facts.preemption == Preemption::RealTime
            && matches!(hook.kind, AttachKind::Fentry | AttachKind::Fexit)
            && kprobes_work(self.facts)
    }

    /// Whether a kprobe is to be used instead of this tracepoint. On PREEMPT_RT from 7.0 on,
    /// programs at tracepoints are preempted too. One point must observe every command, so
    /// completions are hooked by kprobes there.
    fn may_miss_completions(&self, hook: &Hook) -> bool {
        self.policy.only.is_none()
            && self.facts.preemption == Preemption::RealTime
            && self.facts.tracepoints_skip()
            && hook.role == Role::Point(Point::Complete)
            && matches!(hook.kind, AttachKind::TpBtf | AttachKind::RawTp)
            && kprobes_work(self.facts)
    }

    /// Whether this is a kprobe on the way of each command, where kprobes are exceptions. Unless a method
    /// is given, the point is left out. On PREEMPT_RT nothing else is exact.
    fn is_exception(&self, hook: &Hook) -> bool {
        self.facts.kprobes_are_exceptions
            && self.policy.only.is_none()
            && self.facts.preemption != Preemption::RealTime
            && hook.kind.method() == Method::Kprobe
            && matches!(hook.role, Role::Point(_))
    }

    /// Why this kprobe of the completing side would miss events; `None` if it would not. Unless a
    /// method is given, kprobes are used on one side only: on the submitting side, programs of the
    /// completing side would interrupt them, and be skipped.
    fn would_starve(&self, candidate: &Candidate, so_far: &[PointPlan]) -> Option<Reason> {
        let free = self.policy.only.is_none() && self.facts.preemption != Preemption::RealTime;
        let at_completion = match candidate.role {
            Role::Point(point) => point >= Point::Irq,
            // these run in tasks, so they do not interrupt the kprobes of the submitting side
            Role::Timeout | Role::Cancel | Role::State => false,
            _ => true,
        };
        let submits_by_kprobe = so_far
            .iter()
            .any(|p| p.method == Some(Method::Kprobe) && p.point().is_some_and(|p| p < Point::Irq));
        let starved =
            free && candidate.method == Method::Kprobe && at_completion && submits_by_kprobe;
        starved.then_some(Reason::STARVED)
    }

    /// Whether the candidate is one for this run: some are only for the waits of bios, if these are observed.
    fn is_for(&self, candidate: &Candidate, so_far: &[PointPlan]) -> bool {
        let of_waits = |program: &&str| STARTS_OF_WAITS.contains(program);
        let is_bio = |p: &PointPlan| p.point() == Some(Point::Bio) && p.method.is_some();
        let has_bios = self.stage_set == StageSet::Full && so_far.iter().any(is_bio);
        has_bios || !candidate.programs.iter().any(of_waits)
    }

    fn decide(
        &self,
        role: Role,
        candidates: &[Candidate],
        so_far: &[PointPlan],
        allowed: impl Fn(Method) -> bool,
    ) -> PointPlan {
        let mut rejected = Vec::new();
        for candidate in candidates.iter().filter(|c| c.role == role) {
            if !allowed(candidate.method) || !self.is_for(candidate, so_far) {
                continue;
            }
            match self.take(candidate, so_far) {
                Ok(hooks) => {
                    // other kernels have another function for the same method
                    rejected
                        .retain(|r: &Rejection| r.method != candidate.method || !r.why.is_absence);
                    return PointPlan { role, method: Some(candidate.method), hooks, rejected };
                }
                Err(rejection) => rejected.push(rejection),
            }
        }
        // (see explain_tag_pairing() for classic tracepoints)
        let only = self.policy.only.filter(|m| allowed(*m) && *m != Method::Tracepoint);
        if let (true, Some(method)) = (rejected.is_empty(), only) {
            rejected.push(Rejection {
                method,
                hook: role.name().to_owned(),
                why: Reason::NO_HOOK,
                tried: false,
            });
        }
        PointPlan { role, method: None, hooks: Vec::new(), rejected }
    }

    /// The points of the stage set at which nothing can wait on this kernel.
    fn absent(&self) -> Vec<(Point, Reason)> {
        let lacks = |point| {
            let mechanism = self.facts.lacks_mechanism(point)?;
            Some((point, Reason::missing(mechanism.name)))
        };
        let wanted = Point::ALL.into_iter().filter(|p| self.stage_set.has_point(*p));
        wanted.filter_map(lacks).collect()
    }

    fn points(&self, pairing: Pairing) -> Vec<PointPlan> {
        let by_tag = pairing == Pairing::Tag;
        let allowed = |method: Method| {
            (method == Method::Tracepoint) == by_tag
                && self.policy.only.is_none_or(|only| only == method)
        };
        let mut points: Vec<PointPlan> = Vec::new();
        let witness = needs_witness(self.facts) && !by_tag;
        let wanted = |p: &Point| self.stage_set.has_point(*p) || *p == Point::Cqe && witness;
        let there = |p: &Point| self.facts.lacks_mechanism(*p).is_none();
        for point in Point::ALL.into_iter().filter(wanted).filter(there) {
            let decided = self.decide(Role::Point(point), CANDIDATES, &points, allowed);
            points.push(decided);
        }
        let besides = iter::once(Role::Requeue).chain(self.events.iter().copied());
        for role in besides {
            let decided = self.decide(role, EVENT_CANDIDATES, &points, allowed);
            points.push(decided);
        }
        points
    }
}

/// Decides what to attach for a stage set.
///
/// # Errors
/// If the kernel lacks what every stage set needs, or the policy excludes it.
pub fn plan(
    stage_set: StageSet,
    facts: &KernelFacts,
    policy: &Policy,
) -> Result<AttachPlan, NoPlan> {
    plan_with(stage_set, &[], facts, policy)
}

/// Decides what to attach for a stage set, and for other events.
///
/// # Errors
/// As [`plan`]. Events that are not available are not an error.
pub fn plan_with(
    stage_set: StageSet,
    events: &[Role],
    facts: &KernelFacts,
    policy: &Policy,
) -> Result<AttachPlan, NoPlan> {
    let planner = Planner { stage_set, events, facts, policy };
    let mut failed: Vec<PointPlan> = Vec::new();
    for pairing in [Pairing::Request, Pairing::Tag] {
        let points = planner.points(pairing);
        let (lacking, _): (Vec<_>, Vec<_>) =
            points.iter().cloned().partition(|p| is_essential(p.role) && p.method.is_none());
        if !lacking.is_empty() {
            failed.extend(lacking);
            continue;
        }
        let mut plan = AttachPlan {
            stage_set,
            pairing,
            points,
            absent: planner.absent(),
            start: StartSource::None,
            misses_counted: facts.misses_counted,
            recovers: pairing == Pairing::Request && facts.recovers,
            nests: facts.programs_nest(),
            shares_cells: false,
        };
        join_waits(&mut plan);
        if plan.has(Point::Bio) {
            // the table of bios has the submitters
            plan.points.retain(|part| part.role != Role::Submitter);
        }
        if pairing == Pairing::Request {
            plan.start = start_source(stage_set, facts, &plan);
        } else {
            explain_tag_pairing(&mut plan, &failed);
        }
        return Ok(plan);
    }
    // a pairing for which the only method has no hooks rejects nothing
    let point = failed
        .iter()
        .find(|p| !p.rejected.is_empty())
        .and_then(PointPlan::point)
        .unwrap_or(Point::SetupOut);
    let rejected =
        failed.into_iter().filter(|p| p.point() == Some(point)).flat_map(|p| p.rejected).collect();
    Err(NoPlan { point, only: policy.only, rejected })
}

/// Leaves out the points before the request that cannot be told apart: all, if the allocation of
/// requests is not observed or the bio is not; those before a wait that is not observed.
fn join_waits(plan: &mut AttachPlan) {
    let lacks = |point| plan.method_of(point) != Some(Method::Fentry);
    let none = plan.pairing == Pairing::Tag || lacks(Point::Start) || lacks(Point::Bio);
    let waits = plan.points.iter().filter_map(PointPlan::point);
    let mut waits = waits.filter(|point| *point > Point::Bio && *point < Point::Start);
    let end = waits.rfind(|&point| lacks(point));
    for part in &mut plan.points {
        let Some(point) = part.point().filter(|point| *point < Point::Start) else {
            continue;
        };
        let joins = point > Point::Bio && end.is_some_and(|end| point < end);
        if part.method.is_none() || !(none || joins) {
            continue;
        }
        (part.method, part.hooks) = (None, Vec::new());
        part.rejected.push(Rejection {
            method: Method::Fentry,
            hook: point.name().to_owned(),
            why: if none { Reason::NO_START } else { Reason::JOINED },
            tried: false,
        });
    }
}

/// The source of start times. 6.5 added block_io_start (5a80bd075f3b), 6.9 made start_time_ns a
/// time cached per plug (06b23f92af87). So the field is used only on kernels without the
/// tracepoint, where it is exact.
fn start_source(stage_set: StageSet, facts: &KernelFacts, plan: &AttachPlan) -> StartSource {
    if stage_set == StageSet::Total {
        StartSource::None
    } else if let Some(start) = plan.point(Point::Start).filter(|p| p.method.is_some()) {
        let by_bio = number_of(START_OF_BIOS).is_some_and(|n| start.hooks.contains(&n));
        match by_bio {
            true => StartSource::Bio,
            false => StartSource::Hook,
        }
    } else if facts.tracepoints.contains("block_io_start") {
        StartSource::None
    } else {
        StartSource::Field
    }
}

/// Adds why the better methods are not available, and that classic tracepoints have no hook for the
/// other points.
fn explain_tag_pairing(plan: &mut AttachPlan, failed: &[PointPlan]) {
    for point in &mut plan.points {
        let before = failed.iter().find(|f| f.role == point.role);
        if let Some(before) = before {
            point.rejected.splice(0..0, before.rejected.iter().cloned());
        }
        if point.method.is_none() {
            point.rejected.push(Rejection {
                method: Method::Tracepoint,
                hook: point.name().to_owned(),
                why: match point.role {
                    Role::Timeout | Role::Cancel | Role::State => Reason::NO_CLASSIC,
                    role if role.is_context() => Reason::NO_CLASSIC,
                    _ => Reason::UNIDENTIFIED,
                },
                tried: false,
            });
        }
    }
}

#[cfg(test)]
#[path = "plan_tests.rs"]
pub(crate) mod tests;

#[cfg(test)]
#[path = "waits_tests.rs"]
mod waits_tests;
