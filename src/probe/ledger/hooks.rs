// SPDX-License-Identifier: MIT OR Apache-2.0
//! The hooks of a plan, as the ledger lists them.

use crate::model::counters::Counters;
use crate::model::ledger::{HookLine, MissingHook, PointMethod};
use crate::model::point::Point;
use crate::probe::catalog::CATALOG;
use crate::probe::plan::{AttachPlan, PointPlan, StartSource};

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
    let by_field = point.point() == Some(Point::Start) && plan.start == StartSource::Field;
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
