//! The accuracy ledger: what was seen, what became of it, what was lost, and whether it adds up.
//! Pure: counters in, sums out.

use serde::Serialize;

use crate::abi::Count;
use crate::abi::Counters;
use crate::probe::catalog::CATALOG;
use crate::probe::catalog::Hook;
use crate::probe::plan::AttachPlan;

/// One hook's line in the books.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct HookLine {
    /// The point that it observes; none for hooks that only keep the books.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub point: Option<&'static str>,
    /// `tp_btf`, `fentry`, `fexit`.
    pub kind: &'static str,
    /// Function or tracepoint.
    pub target: &'static str,
    /// Times it fired for an NVMe request.
    pub hits: u64,
    /// Times the kernel skipped it because it was already running on that CPU.
    pub recursion_misses: u64,
}

/// A hook that could not be had.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct MissingHook {
    /// `tp_btf`, `fentry`, `fexit`.
    pub kind: &'static str,
    /// Function or tracepoint.
    pub target: &'static str,
    /// Why not.
    pub why: String,
}

/// What the final scan of the slots found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Scan {
    /// Set up and not completed.
    pub in_flight: u64,
    /// Completed and not ended.
    pub ending: u64,
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

/// The books. Every count is since the start of the run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Ledger {
    /// Commands that the driver set up and the filters let through.
    pub seen: u64,
    /// Of these, in the histograms (or finished without a free row, see `no_row`).
    pub matched: u64,
    /// Of these, not completed yet. Counted slot by slot at the end; before, by difference.
    pub in_flight: u64,
    /// Of these, completed but not ended by blk-mq yet (fine cut).
    pub ending: u64,
    /// Of these, turned away by the driver or taken back by blk-mq before they reached the device.
    pub requeued: u64,
    /// Of these, never seen to complete: another command took the slot.
    pub overwritten: u64,
    /// Completions that the hook saw.
    pub completions: u64,
    /// Completions without a start: in flight when we attached, or the start was lost.
    pub orphan_completions: u64,
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
    /// Interrupts not believed: the handler was already running at the doorbell.
    pub early_irqs: u64,
    /// Points out of order for no reason that we know.
    pub negative_intervals: u64,
    /// Starts not believed (start_time_ns of a retry, or in the future).
    pub untrusted_starts: u64,
    /// Doorbells lost: a task set up more commands at once than we keep.
    pub doorbell_list_full: u64,
    /// Per-command records that found no room in the ring.
    pub ring_drops: u64,
    /// Sum over the hooks: skipped by the kernel's re-entry guard.
    pub recursion_misses: u64,
    /// Whether it adds up; only when everything is detached and counted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub balance: Option<Balance>,
    /// What is attached.
    pub hooks: Vec<HookLine>,
    /// What is not, and why.
    pub missing_hooks: Vec<MissingHook>,
}

fn hook_number(point_program: &str) -> usize {
    CATALOG
        .iter()
        .position(|h| h.program == point_program)
        .unwrap_or(0)
}

fn difference(from: u64, parts: &[u64]) -> i64 {
    parts.iter().fold(from as i64, |rest, &n| rest - n as i64)
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
        let hits = |program| counters.hits[hook_number(program)];
        let (filtered, untracked) = (get(Count::Filtered), get(Count::Untracked));
        let seen = hits("setup_out_btf").saturating_sub(filtered + untracked);
        let matched = in_rows + get(Count::NoRow);
        let (requeued, overwritten) = (get(Count::Requeued), get(Count::Overwritten));
        let by_difference = difference(seen, &[matched, requeued, overwritten])
            .try_into()
            .unwrap_or(0);
        let Scan { in_flight, ending } = scan.unwrap_or(Scan {
            in_flight: by_difference,
            ending: 0,
        });
        let completions = hits("complete_btf");
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
        let miss = |number: usize| misses.get(number).copied().unwrap_or(0);
        Self {
            seen,
            matched,
            in_flight,
            ending,
            requeued,
            overwritten,
            completions,
            orphan_completions: get(Count::OrphanDone),
            filtered,
            filtered_completions: get(Count::FilteredDone),
            untracked,
            untracked_completions: get(Count::UntrackedDone),
            no_row: get(Count::NoRow),
            requeue_events: hits("requeue_btf"),
            late_doorbells: get(Count::LateDoorbell),
            early_irqs: get(Count::EarlyIrq),
            negative_intervals: get(Count::Negative),
            untrusted_starts: get(Count::StartUntrusted),
            doorbell_list_full: get(Count::PendingFull),
            ring_drops: get(Count::RingFull),
            recursion_misses: plan.hooks.iter().map(|&h| miss(h)).sum(),
            balance: scan.map(|_| Balance {
                commands_residual,
                completions_residual,
                balanced: commands_residual == 0 && completions_residual == 0,
            }),
            hooks: plan
                .hooks
                .iter()
                .map(|&number| {
                    let Hook {
                        kind,
                        target,
                        milestone,
                        ..
                    } = &CATALOG[number];
                    HookLine {
                        point: milestone.map(|m| m.name()),
                        kind: kind.name(),
                        target,
                        hits: counters.hits[number],
                        recursion_misses: miss(number),
                    }
                })
                .collect(),
            missing_hooks: plan
                .rejected
                .iter()
                .map(|r| MissingHook {
                    kind: CATALOG[r.hook].kind.name(),
                    target: CATALOG[r.hook].target,
                    why: r.why.clone(),
                })
                .collect(),
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
        say(self.overwritten, "completions never seen");
        say(self.untracked, "commands outside the slot table");
        say(self.no_row, "commands without a row");
        say(self.recursion_misses, "program runs skipped by the kernel");
        say(self.negative_intervals, "points out of order");
        say(self.doorbell_list_full, "doorbells not kept");
        say(self.ring_drops, "command records dropped");
        if let Some(off) = self.balance.filter(|b| !b.balanced) {
            reasons.push(format!(
                "the books are off by {} commands and {} completions",
                off.commands_residual, off.completions_residual
            ));
        }
        reasons
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::path::stage::Cut;
    use crate::probe::plan::StartSource;

    fn plan() -> AttachPlan {
        let hooks = (0..CATALOG.len()).collect();
        AttachPlan {
            cut: Cut::Fine,
            hooks,
            rejected: vec![],
            start: StartSource::Hook,
        }
    }

    fn counters(setups: u64, completions: u64, counts: &[(Count, u64)]) -> Counters {
        let mut c = Counters::default();
        c.hits[hook_number("setup_out_btf")] = setups;
        c.hits[hook_number("complete_btf")] = completions;
        for &(what, n) in counts {
            c.counts[what as usize] = n;
        }
        c
    }

    #[test]
    fn a_run_where_everything_has_its_place_balances() {
        let counts = [
            (Count::Filtered, 10),
            (Count::FilteredDone, 9),
            (Count::OrphanDone, 4),
            (Count::Requeued, 3),
            (Count::NoRow, 1),
        ];
        let c = counters(110, 9 + 4 + 90, &counts);
        let scan = Some(Scan {
            in_flight: 7,
            ending: 0,
        });
        let ledger = Ledger::new(&plan(), &c, &[], 89, scan);
        assert_eq!((ledger.seen, ledger.matched), (100, 90));
        assert!(ledger.balance.unwrap().balanced, "{ledger:?}");
        assert_eq!(ledger.degraded(), ["1 commands without a row"]);
    }

    #[test]
    fn a_lost_completion_is_off_balance_or_in_flight_and_never_vanishes() {
        let c = counters(100, 99, &[]);
        let scan = Some(Scan::default());
        let ledger = Ledger::new(&plan(), &c, &[], 99, scan);
        let balance = ledger.balance.unwrap();
        assert!(!balance.balanced);
        assert_eq!(balance.commands_residual, 1);
        assert!(ledger.degraded()[0].contains("off by 1"));
    }

    #[test]
    fn while_running_what_is_in_flight_is_the_difference() {
        let ledger = Ledger::new(&plan(), &counters(100, 80, &[]), &[], 80, None);
        assert_eq!(ledger.in_flight, 20);
        assert!(ledger.balance.is_none() && ledger.degraded().is_empty());
    }

    #[test]
    fn recursion_misses_are_summed_over_the_attached_hooks_and_degrade() {
        let mut misses = vec![0; CATALOG.len()];
        misses[hook_number("complete_btf")] = 2;
        let ledger = Ledger::new(&plan(), &counters(0, 0, &[]), &misses, 0, None);
        assert_eq!(ledger.recursion_misses, 2);
        assert_eq!(ledger.degraded(), ["2 program runs skipped by the kernel"]);
    }
}
