// SPDX-License-Identifier: MIT OR Apache-2.0
//! Hooks in the ledger: which are attached, which are not, and why.

use serde::Deserialize;
use serde::Serialize;

use crate::model::counters::Counters;
use crate::model::milestone::Milestone;
use crate::model::untrusted::Untrusted;
use crate::probe::catalog::CATALOG;
use crate::probe::plan::AttachPlan;
use crate::probe::plan::PointPlan;
use crate::probe::plan::StartSource;

/// A hook in the ledger.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct HookLine {
    /// The point that it observes; `None` for hooks that observe no point.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub point: Option<Untrusted>,
    /// `tp_btf`, `fentry`, `fexit`, `raw_tp`, `kprobe`, `kretprobe`, `tp`.
    pub kind: Untrusted,
    /// Function or tracepoint.
    pub target: Untrusted,
    /// Number of times that it fired for an NVMe request.
    pub hits: u64,
    /// Of these, hits of the second instance of the program, for events at which the kernel skipped
    /// the first. `None` if there is no second instance.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub by_second: Option<u64>,
    /// Runs that the kernel skipped, because the program was already running on that CPU, or, for
    /// kprobe and tracepoint programs, because any such program was. With a second instance, the
    /// events that both instances missed.
    pub recursion_misses: u64,
    /// Whether the kernel counts these misses. If not, their number is not known.
    pub misses_known: bool,
    /// Why it may have no hits although commands passed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seldom: Option<Untrusted>,
}

/// The attach method of a point.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct PointMethod {
    /// The point; for hooks without a point their role, such as `requeue`.
    pub point: Untrusted,
    /// `fentry`, `rawtp`, `kprobe`, `tracepoint`; `start_time_ns` for a start that is read from the
    /// request; `None`: not observed.
    pub method: Option<Untrusted>,
}

/// An attach method that was not available for a point.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct MissingHook {
    /// The point; for hooks without a point their role, such as `requeue`.
    pub point: Untrusted,
    /// The method: `fentry`, `rawtp`, `kprobe`, `tracepoint`.
    pub method: Untrusted,
    /// The hook that is not available.
    pub hook: Untrusted,
    /// The reason.
    pub why: Untrusted,
    /// The method seemed possible, and the kernel refused it.
    pub tried: bool,
    /// The method that is used instead; `None`: the point is not observed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub instead: Option<Untrusted>,
}

pub(super) fn misses_known(plan: &AttachPlan, hook: usize) -> bool {
    plan.misses_counted || !CATALOG[hook].kind.method().loses()
}

/// Number of events that a hook missed because the kernel skipped it. With a second instance, an
/// event is missed only if both instances were skipped. That is at most the misses of the second
/// instance, and at most the misses of the first minus the hits of the second, which acts only if
/// the first was skipped.
pub(super) fn misses_of(
    plan: &AttachPlan,
    counters: &Counters,
    misses: &[u64],
    number: usize,
) -> u64 {
    let miss = |n: usize| misses.get(n).copied().unwrap_or(0);
    let second = CATALOG[number].other().filter(|t| plan.hooks().contains(t));
    second.map_or(miss(number), |t| {
        let unseen = miss(number).saturating_sub(counters.hits_of(t));
        miss(t).min(unseen)
    })
}

pub(super) fn hook_lines(plan: &AttachPlan, counters: &Counters, misses: &[u64]) -> Vec<HookLine> {
    let hooks = plan.hooks();
    let line = |&number: &usize| {
        let hook = &CATALOG[number];
        let second = hook.other().filter(|t| hooks.contains(t));
        HookLine {
            point: hook.role.point().map(|p| p.name().into()),
            kind: hook.kind.name().into(),
            target: hook.target.name().into(),
            hits: counters.hits_of(number) + second.map_or(0, |t| counters.hits_of(t)),
            by_second: second.map(|t| counters.hits_of(t)),
            recursion_misses: misses_of(plan, counters, misses, number),
            misses_known: misses_known(plan, number),
            seldom: hook.seldom().map(Into::into),
        }
    };
    let firsts = hooks.iter().filter(|&&h| !CATALOG[h].is_second());
    firsts.map(line).collect()
}

fn method_of(point: &PointPlan, plan: &AttachPlan) -> Option<&'static str> {
    let by_field = point.point() == Some(Milestone::Start) && plan.start == StartSource::Field;
    match point.method {
        Some(method) => Some(method.name()),
        None => by_field.then_some("start_time_ns"),
    }
}

pub(super) fn methods(plan: &AttachPlan) -> Vec<PointMethod> {
    let method = |point| PointMethod {
        point: PointPlan::name(point).into(),
        method: method_of(point, plan).map(Into::into),
    };
    plan.points.iter().map(method).collect()
}

pub(super) fn missing_hooks(plan: &AttachPlan) -> Vec<MissingHook> {
    let mut missing = Vec::new();
    for point in &plan.points {
        let instead = method_of(point, plan);
        missing.extend(point.rejected.iter().map(|r| MissingHook {
            point: point.name().into(),
            method: r.method.name().into(),
            hook: r.hook.as_str().into(),
            why: r.why.to_string().into(),
            tried: r.tried,
            instead: instead.map(Into::into),
        }));
    }
    missing
}
