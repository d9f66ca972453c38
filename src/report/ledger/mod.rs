// SPDX-License-Identifier: MIT OR Apache-2.0
//! The accuracy ledger: what was seen, what became of it, what was lost, and whether it adds up.
//! Pure: counters in, sums out.

mod cost;
mod hooks;
mod trace;

use serde::Serialize;

pub use self::cost::OwnCost;
pub use self::hooks::HookLine;
pub use self::hooks::MissingHook;
pub use self::hooks::PointMethod;
use self::hooks::hook_lines;
use self::hooks::methods;
use self::hooks::misses_known;
use self::hooks::misses_of;
use self::hooks::missing_hooks;

pub use self::trace::Shown;
pub use self::trace::TraceLedger;
use crate::model::counters::Count;
use crate::model::counters::Counters;
use crate::model::milestone::Milestone;
use crate::model::run::RunTimes;
use crate::model::run::Scan;
use crate::probe::catalog::CATALOG;
use crate::probe::catalog::Role;
use crate::probe::plan::AttachPlan;
use crate::probe::plan::Pairing;

/// What the numbers are worth.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Accuracy {
    /// Nothing was lost.
    Exact,
    /// Nothing is known to be lost, but what these ways lose, this kernel does not count.
    Unknown,
    /// Something was lost, in these phrases.
    Degraded(Vec<String>),
}

/// The two sums that must come to nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Balance {
    /// seen - matched - in_flight - ending - requeued - overwritten.
    pub commands_residual: i64,
    /// completions - matched - ending - orphans - filtered - untracked.
    pub completions_residual: i64,
    /// Both are zero.
    pub balanced: bool,
}

/// The ledger. Every count is since the start of the run.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Ledger {
    /// Commands that the driver set up and the filters let through.
    pub seen: u64,
    /// Of these, in the histograms (or finished without a free row, see `no_row`).
    pub matched: u64,
    /// Of these, not completed yet. Counted slot by slot at the end; before, by difference.
    pub in_flight: u64,
    /// Of these, completed but not ended by blk-mq yet (fine stage set).
    pub ending: u64,
    /// Of these, set up again without having completed: the driver refused them, or blk-mq took them
    /// back, before they reached the device.
    pub requeued: u64,
    /// Of these, in no row: another command took the slot, and nothing shows how this one ended.
    pub overwritten: u64,
    /// Completions, observed or not.
    pub completions: u64,
    /// Completions of commands that were set up before the run began, or after it ended.
    pub orphan_completions: u64,
    /// Of the commands seen, those whose set-up the kernel skipped: their CQE or their completion
    /// shows them.
    pub unseen_setups: u64,
    /// Of the completions, those that the kernel skipped: the command's generation shows them.
    pub unseen_completions: u64,
    /// Of the commands matched, those without any interval.
    pub unmeasured: u64,
    /// Commands whose set-up was skipped, where a filter asks for the submitter: in no row.
    pub unattributed: u64,
    /// At most so many commands are in no row, as both their set-up and their completion were
    /// skipped.
    pub unrecovered: u64,
    /// Commands that a filter turned away.
    pub filtered: u64,
    /// Their completions.
    pub filtered_completions: u64,
    /// Commands of controllers, queues or tags that the slot table has no room for.
    pub untracked: u64,
    /// Their completions.
    pub untracked_completions: u64,
    /// Matched, but in no row: the row table was full.
    pub no_row: u64,
    /// blk-mq's requeues of NVMe requests: retries, and commands taken back.
    pub requeue_events: u64,
    /// Doorbells not believed: the interrupt came before the submitting function returned.
    pub late_doorbells: u64,
    /// Doorbells not used: one before was not observed, so it is not known whose they are.
    pub unsure_doorbells: u64,
    /// Interrupts not believed: the handler was already running at the doorbell.
    pub early_irqs: u64,
    /// Points out of order for no reason that we know.
    pub negative_intervals: u64,
    /// Starts not believed (start_time_ns of a retry, or in the future).
    pub discarded_starts: u64,
    /// Doorbells lost: a task set up more commands at once than we keep, or (kprobes) the return of
    /// the submitting function was not seen.
    pub doorbell_list_full: u64,
    /// Queues that contradict the type information from a file: not believed.
    pub misfits: u64,
    /// Records that found no room in the ring.
    pub ring_drops: u64,
    /// Sum over the hooks: skipped by the kernel's guards.
    pub recursion_misses: u64,
    /// Whether that is all by which a command can be lost. Not where kprobes or classic tracepoints
    /// begin or end commands on a kernel that does not count what these miss (before 6.7).
    pub misses_known: bool,
    /// The points between which totals are measured, as far as a command was seen at them.
    #[serde(rename = "total_span")]
    pub span: (Milestone, Milestone),
    /// How completions find their setup: `request`, or `tag` with classic tracepoints.
    pub pairing: Pairing,
    /// Whether it adds up; only when everything is detached and counted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub balance: Option<Balance>,
    /// Commands of which a program was skipped are looked for, and counted in their row.
    pub recovers: bool,
    /// Completions can go unseen: a command in flight at the end may have lost its own.
    pub may_lose_completions: bool,
    /// The attach method of each point of the stage set.
    pub methods: Vec<PointMethod>,
    /// What became of a trace's events.
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    pub trace: Option<TraceLedger>,
    /// What all this costs, where it was asked for (`-v`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub own_cost: Option<OwnCost>,
    /// What is attached.
    pub hooks: Vec<HookLine>,
    /// What is not, and why.
    pub missing_hooks: Vec<MissingHook>,
}

fn difference(from: u64, parts: &[u64]) -> i64 {
    parts.iter().fold(from as i64, |rest, &n| rest - n as i64)
}

/// Set-ups that the kernel skipped and that nothing has shown yet: their commands are in flight, or
/// their completions were skipped too.
pub fn unrecovered(plan: &AttachPlan, counters: &Counters, misses: &[u64]) -> u64 {
    let point = plan.point(Milestone::SetupOut).filter(|_| plan.recovers);
    let hooks = point.into_iter().flat_map(|p| &p.hooks);
    let skipped: u64 = hooks.filter_map(|&hook| misses.get(hook)).sum();
    skipped.saturating_sub(counters.get(Count::UnseenSetup))
}

impl Ledger {
    /// Draws it up. `in_rows` is the number of commands in the histograms, `misses` the kernel's
    /// recursion misses by hook number; `scan` is there once everything is detached.
    #[expect(clippy::too_many_lines, reason = "one struct literal, a line an entry")]
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
            // a way may have a companion that belongs to another point
            let hooks = of_point.flat_map(|p| &p.hooks);
            hooks
                .filter(|&&h| CATALOG[h].role == role)
                .map(|&h| counters.hits_of(h))
                .sum()
        };
        let (filtered, untracked) = (get(Count::Filtered), get(Count::Untracked));
        let (unseen_setups, unattributed) = (get(Count::UnseenSetup), get(Count::Unattributed));
        let seen = (hits(Role::Point(Milestone::SetupOut)) + unseen_setups)
            .saturating_sub(filtered + unattributed + untracked);
        let matched = in_rows + get(Count::NoRow);
        let (requeued, overwritten) = (get(Count::Requeued), get(Count::Overwritten));
        let by_difference = difference(seen, &[matched, requeued, overwritten])
            .try_into()
            .unwrap_or(0);
        let Scan { in_flight, ending } = scan.unwrap_or(Scan {
            in_flight: by_difference,
            ending: 0,
        });
        let unseen_completions = get(Count::UnseenComplete);
        let completions = hits(Role::Point(Milestone::Complete)) + unseen_completions;
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
            // while it runs, most of these are in flight
            unrecovered: scan.map_or(0, |_| unrecovered(plan, counters, misses)),
            filtered,
            filtered_completions: get(Count::FilteredDone),
            untracked,
            untracked_completions: get(Count::UntrackedDone),
            no_row: get(Count::NoRow),
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
                .filter(|&h| !CATALOG[h].is_twin())
                .map(|h| misses_of(plan, counters, misses, h))
                .sum(),
            misses_known: [Milestone::SetupOut, Milestone::Complete]
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
            recovers: plan.recovers,
            may_lose_completions: plan.may_lose_completions(),
            methods: methods(plan),
            trace: None,
            own_cost: None,
            hooks: hook_lines(plan, counters, misses),
            missing_hooks: missing_hooks(plan),
        }
    }

    /// Those in rows that have no interval; a trace counts them itself.
    #[must_use]
    pub fn with_unmeasured(self, unmeasured: u64) -> Self {
        Self { unmeasured, ..self }
    }

    /// Adds the ledger of a trace.
    #[must_use]
    pub fn with_trace(self, counters: &Counters, shown: &Shown) -> Self {
        Self {
            trace: Some(TraceLedger::new(counters, shown)),
            ..self
        }
    }

    /// What it cost, if that was looked at.
    #[must_use]
    pub fn with_cost(self, plan: &AttachPlan, times: Option<&RunTimes>) -> Self {
        let seen = self.seen;
        Self {
            own_cost: times.map(|t| OwnCost::new(plan, &t.runs, t.elapsed_ns, seen)),
            ..self
        }
    }

    /// What the numbers are worth.
    pub fn accuracy(&self) -> Accuracy {
        let reasons = self.degraded();
        if !reasons.is_empty() {
            Accuracy::Degraded(reasons)
        } else if self.misses_known {
            Accuracy::Exact
        } else {
            Accuracy::Unknown
        }
    }

    /// What makes the numbers less than exact, one phrase each. Empty: they are exact.
    pub fn degraded(&self) -> Vec<String> {
        let mut reasons = Vec::new();
        let mut say = |n: u64, what: &str| {
            if n > 0 {
                reasons.push(format!("{n} {what}"));
            }
        };
        say(self.overwritten, "commands without a known end");
        say(
            self.unrecovered,
            "commands may be in no row: the kernel skipped all programs that would show them",
        );
        say(
            self.unattributed,
            "commands in no row: their submitter, which a filter asks for, was not observed",
        );
        say(self.misfits, "contradictions to the BTF file");
        say(self.untracked, "commands outside the slot table");
        say(self.no_row, "commands without a row");
        if !self.recovers {
            say(self.recursion_misses, "program runs skipped by the kernel");
        }
        say(self.negative_intervals, "points out of order");
        say(self.doorbell_list_full, "doorbells not kept");
        match &self.trace {
            None => say(self.ring_drops, "command records dropped"),
            Some(trace) => trace.flaws().into_iter().for_each(|(n, what)| say(n, what)),
        }
        if self.may_lose_completions && self.balance.is_some() {
            say(
                self.in_flight,
                "commands without an end, in flight or their completion missed",
            );
        }
        if let Some(off) = self.balance.filter(|b| !b.balanced) {
            reasons.push(format!(
                "the ledger is off by {} commands and {} completions",
                off.commands_residual, off.completions_residual
            ));
        }
        reasons
    }
}

#[cfg(test)]
mod tests;
