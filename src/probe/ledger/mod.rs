// SPDX-License-Identifier: MIT OR Apache-2.0
//! Builds the accuracy ledger of a run. Pure: counters in, sums out.

mod cost;
mod hooks;

use self::hooks::{hook_lines, methods, misses_known, misses_of, missing_hooks};
use crate::model::counters::{Count, Counters};
use crate::model::ledger::{Balance, Ledger, OwnCost};
use crate::model::point::Point;
use crate::model::run::{RunTimes, Scan};
use crate::probe::catalog::{CATALOG, Role};
use crate::probe::plan::AttachPlan;

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
            no_cpu: get(Count::NoCpu),
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
            misses_known: [Point::SetupOut, Point::Complete]
                .into_iter()
                .filter_map(|point| plan.point(point))
                .flat_map(|p| &p.hooks)
                .all(|&h| misses_known(plan, h)),
            span: plan.span(),
            pairing: plan.pairing,
            balance: scan.map(|_| Balance {
                commands_residual,
                completions_residual,
                balanced: commands_residual == 0 && completions_residual == 0,
            }),
            uncovered: 0,
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

#[cfg(test)]
mod tests;
