// SPDX-License-Identifier: MIT OR Apache-2.0
//! Builds the accuracy ledger of a run. Pure: counters in, sums out.

use crate::model::counters::{Count, Counters};
use crate::model::ledger::{
    Balance, HookLine, Ledger, MissingHook, OwnCost, PointMethod, ProgramCost,
};
use crate::model::machine::{RunTimes, Runs, Scan};
use crate::model::point::Point;
use crate::probe::catalog::{CATALOG, Role};
use crate::probe::plan::{AttachPlan, PointPlan, StartSource};

fn difference(from: u64, parts: &[u64]) -> i64 {
    parts.iter().fold(from as i64, |rest, &n| rest - n as i64)
}

impl Ledger {
    /// Builds the ledger. `in_rows` is the number of commands in the histograms. `misses` are the
    /// kernel's recursion misses by hook number. `scan` is available after all hooks are detached.
    pub fn new(
        plan: &AttachPlan,
        counters: &Counters,
        misses: &[u64],
        in_rows: u64,
        scan: Option<Scan>,
    ) -> Self {
        let get = |what| counters.get(what);
        let hits = |role: Role| -> u64 {
            let of_point = plan.points.iter().filter(|p| p.role == role);
            // a method may include a hook of another point
            let hooks = of_point.flat_map(|p| &p.hooks);
            hooks.filter(|&&h| CATALOG[h].role == role).map(|&h| counters.hits_of(h)).sum()
        };
        let (filtered, untracked) = (get(Count::Filtered), get(Count::Untracked));
        let (unseen_setups, unattributed) = (get(Count::UnseenSetup), get(Count::Unattributed));
        let seen = (hits(Role::Point(Point::SetupOut)) + unseen_setups)
            .saturating_sub(filtered + unattributed + untracked);
        let matched = in_rows + get(Count::NoRow);
        let (requeued, overwritten) = (get(Count::Requeued), get(Count::Overwritten));
        let by_difference =
            difference(seen, &[matched, requeued, overwritten]).try_into().unwrap_or(0);
        let Scan { in_flight, ending } =
            scan.unwrap_or(Scan { in_flight: by_difference, ending: 0 });
        let unseen_completions = get(Count::UnseenComplete);
        let completions = hits(Role::Point(Point::Complete)) + unseen_completions;
        let commands_residual =
            difference(seen, &[matched, in_flight, ending, requeued, overwritten]);
        let completions_residual = difference(
            completions,
            &[
                matched,
                ending,
                get(Count::OrphanDone),
                get(Count::FilteredDone),
                get(Count::UntrackedDone),
            ],
        );
        Self {
            seen,
            matched,
            in_flight,
            ending,
            requeued,
            overwritten,
            completions,
            orphan_completions: get(Count::OrphanDone),
            unseen_setups,
            unseen_completions,
            unmeasured: get(Count::Unmeasured),
            unattributed,
            // during the run, most of these are in flight
            unrecovered: scan.map_or(0, |_| plan.unrecovered(counters, misses)),
            filtered,
            filtered_completions: get(Count::FilteredDone),
            by_task: get(Count::ByTask),
            untracked,
            untracked_completions: get(Count::UntrackedDone),
            no_row: get(Count::NoRow),
            fewer_points: get(Count::FewerPoints),
            unseen_bios: get(Count::NoBio),
            unstored_bios: get(Count::BiosFull),
            unpaired_waits: get(Count::UnpairedWait),
            requeue_events: hits(Role::Requeue),
            late_doorbells: get(Count::LateDoorbell),
            unsure_doorbells: get(Count::UnsureDoorbell),
            early_irqs: get(Count::EarlyIrq),
            negative_intervals: get(Count::Negative),
            discarded_starts: get(Count::StartUntrusted),
            doorbell_list_full: get(Count::PendingFull),
            misfits: get(Count::Misfit),
            ring_drops: get(Count::RingFull) + get(Count::LostSubmit) + get(Count::LostEvent),
            recursion_misses: plan
                .hooks()
                .into_iter()
                .filter(|&h| !CATALOG[h].is_second() && !CATALOG[h].role.is_context())
                .map(|h| misses_of(plan, counters, misses, h))
                .sum(),
            imported: false,
            misses_known: [Point::SetupOut, Point::Complete]
                .into_iter()
                .filter_map(|point| plan.point(point))
                .flat_map(|p| &p.hooks)
                .all(|&h| misses_known(plan, h)),
            span: plan.span(),
            pairing: plan.pairing,
            shares_cells: plan.shares_cells,
            balance: scan.map(|_| Balance {
                commands_residual,
                completions_residual,
                balanced: commands_residual == 0 && completions_residual == 0,
            }),
            uncovered: 0,
            selected: None,
            recovers: plan.recovers,
            may_lose_completions: plan.may_lose_completions(),
            methods: methods(plan),
            trace: None,
            own_cost: None,
            hooks: hook_lines(plan, counters, misses),
            missing_hooks: missing_hooks(plan),
        }
    }

    /// Adds the cost of the programs, if it was measured.
    #[must_use]
    pub fn with_cost(self, plan: &AttachPlan, times: Option<&RunTimes>) -> Self {
        let seen = self.seen;
        Self { own_cost: times.map(|t| OwnCost::new(plan, &t.runs, t.elapsed_ns, seen)), ..self }
    }
}

impl OwnCost {
    /// Computes the cost. `runs` is by hook number, over `elapsed_ns`, for this number of commands.
    pub fn new(plan: &AttachPlan, runs: &[Runs], elapsed_ns: u64, commands: u64) -> Self {
        let of = |&number: &usize| {
            let Runs { count, ns } = runs.get(number).copied().unwrap_or_default();
            ProgramCost {
                kind: CATALOG[number].kind.name().into(),
                target: CATALOG[number].target.name().into(),
                runs: count,
                run_ns: ns,
            }
        };
        Self::of(plan.hooks().iter().map(of).collect(), elapsed_ns, commands)
    }

    /// The cost of these programs.
    pub fn of(programs: Vec<ProgramCost>, elapsed_ns: u64, commands: u64) -> Self {
        let run_ns = programs.iter().map(|p| p.run_ns).sum::<u64>();
        Self {
            programs,
            run_ns,
            ns_per_command: (commands > 0).then(|| run_ns as f64 / commands as f64),
            share_of_a_cpu: run_ns as f64 / (elapsed_ns as f64).max(1.0),
        }
    }
}

pub(crate) fn misses_known(plan: &AttachPlan, hook: usize) -> bool {
    plan.misses_counted || !CATALOG[hook].kind.method().loses()
}

/// Number of events that a hook missed because the kernel skipped it. With a second instance, an
/// event is missed only if both instances were skipped. That is at most the misses of the second
/// instance, and at most the misses of the first minus the hits of the second, which acts only if
/// the first was skipped.
pub(crate) fn misses_of(
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

pub(crate) fn hook_lines(plan: &AttachPlan, counters: &Counters, misses: &[u64]) -> Vec<HookLine> {
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
            may_stay_silent: hook.may_stay_silent().map(Into::into),
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

pub(crate) fn methods(plan: &AttachPlan) -> Vec<PointMethod> {
    let method = |point| PointMethod {
        point: PointPlan::name(point).into(),
        method: method_of(point, plan).map(Into::into),
    };
    plan.points.iter().map(method).collect()
}

pub(crate) fn missing_hooks(plan: &AttachPlan) -> Vec<MissingHook> {
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

#[cfg(test)]
mod tests;
