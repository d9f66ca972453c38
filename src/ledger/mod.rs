//! The accuracy ledger: what was seen, what became of it, what was lost, and whether it adds up.
//! Pure: counters in, sums out.

mod cost;
mod hooks;
mod trace;

use serde::Serialize;

pub use self::cost::OwnCost;
pub use self::cost::Runs;
pub use self::hooks::HookLine;
pub use self::hooks::MissingHook;
pub use self::hooks::Way;
use self::hooks::hook_lines;
use self::hooks::misses_known;
use self::hooks::misses_of;
use self::hooks::missing_hooks;
use self::hooks::ways;
pub use self::trace::Shown;
pub use self::trace::TraceBooks;
use crate::abi::Count;
use crate::abi::Counters;
use crate::path::milestone::Milestone;
use crate::probe::catalog::CATALOG;
use crate::probe::catalog::Sight;
use crate::probe::plan::AttachPlan;
use crate::probe::plan::Pairing;

/// What the final scan of the slots found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Scan {
    /// Set up and not completed.
    pub in_flight: u64,
    /// Completed and not ended.
    pub ending: u64,
}

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

/// The books. Every count is since the start of the run.
#[derive(Clone, Debug, PartialEq, Serialize)]
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
    /// Completions can go unseen: a command in flight at the end may have lost its own.
    pub may_lose_completions: bool,
    /// How each point that the cut wants is had.
    pub ways: Vec<Way>,
    /// What became of a trace's events.
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    pub trace: Option<TraceBooks>,
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
        let hits = |sight: Sight| -> u64 {
            let of_point = plan.points.iter().filter(|p| p.sight == sight);
            // a way may have a companion that belongs to another point
            let hooks = of_point.flat_map(|p| &p.hooks);
            hooks
                .filter(|&&h| CATALOG[h].sight == sight)
                .map(|&h| counters.hits[h])
                .sum()
        };
        let (filtered, untracked) = (get(Count::Filtered), get(Count::Untracked));
        let seen = hits(Sight::Point(Milestone::SetupOut)).saturating_sub(filtered + untracked);
        let matched = in_rows + get(Count::NoRow);
        let (requeued, overwritten) = (get(Count::Requeued), get(Count::Overwritten));
        let by_difference = difference(seen, &[matched, requeued, overwritten])
            .try_into()
            .unwrap_or(0);
        let Scan { in_flight, ending } = scan.unwrap_or(Scan {
            in_flight: by_difference,
            ending: 0,
        });
        let completions = hits(Sight::Point(Milestone::Complete));
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
            filtered,
            filtered_completions: get(Count::FilteredDone),
            untracked,
            untracked_completions: get(Count::UntrackedDone),
            no_row: get(Count::NoRow),
            requeue_events: hits(Sight::Requeue),
            late_doorbells: get(Count::LateDoorbell),
            early_irqs: get(Count::EarlyIrq),
            negative_intervals: get(Count::Negative),
            untrusted_starts: get(Count::StartUntrusted),
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
            may_lose_completions: plan.may_lose_completions(),
            ways: ways(plan),
            trace: None,
            own_cost: None,
            hooks: hook_lines(plan, counters, misses),
            missing_hooks: missing_hooks(plan),
        }
    }

    /// The books of a trace.
    #[must_use]
    pub fn with_trace(self, counters: &Counters, shown: &Shown) -> Self {
        Self {
            trace: Some(TraceBooks::new(counters, shown)),
            ..self
        }
    }

    /// What it cost, if that was looked at.
    #[must_use]
    pub fn with_cost(self, plan: &AttachPlan, cost: Option<(Vec<Runs>, u64)>) -> Self {
        let seen = self.seen;
        Self {
            own_cost: cost.map(|(runs, elapsed_ns)| OwnCost::new(plan, &runs, elapsed_ns, seen)),
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
        say(self.overwritten, "completions never seen");
        say(self.misfits, "contradictions to the BTF file");
        say(self.untracked, "commands outside the slot table");
        say(self.no_row, "commands without a row");
        say(self.recursion_misses, "program runs skipped by the kernel");
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
    use crate::probe::catalog::Family;
    use crate::probe::catalog::number_of;
    use crate::probe::plan::Policy;
    use crate::probe::plan::plan as planned;
    use crate::probe::plan::tests::everything;

    fn plan() -> AttachPlan {
        planned(Cut::Fine, &everything(), &Policy::default()).unwrap()
    }

    fn hook_number(program: &str) -> usize {
        number_of(program).unwrap()
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

    /// Each is skipped where the other runs; what the second did, the first has missed.
    #[test]
    fn what_a_second_instance_has_seen_is_not_missed() {
        let mut facts = everything();
        facts.softirq_completions = true;
        let plan = planned(Cut::Fine, &facts, &Policy::default()).unwrap();
        let (first, second) = (hook_number("complete_btf"), hook_number("complete_twin"));
        assert!(plan.hooks().contains(&second));
        for (skipped, acted, lost) in [
            ([3, 0], 3, 0),
            ([3, 2], 3, 0),
            ([3, 2], 2, 1),
            ([3, 1], 0, 1),
            // a run that ended between the two readings
            ([2, 1], 3, 0),
        ] {
            let mut misses = vec![0; CATALOG.len()];
            [misses[first], misses[second]] = skipped;
            let mut c = counters(0, 0, &[]);
            c.hits[second] = acted;
            let ledger = Ledger::new(&plan, &c, &misses, 0, None);
            assert_eq!(ledger.recursion_misses, lost, "{skipped:?} {acted}");
        }
    }

    #[test]
    fn where_losses_are_not_counted_nothing_is_called_exact() {
        let mut facts = everything();
        let policy = Policy {
            only: Some(Family::Kprobe),
            ..Policy::default()
        };
        for (counted, accuracy) in [(true, Accuracy::Exact), (false, Accuracy::Unknown)] {
            facts.misses_counted = counted;
            let plan = planned(Cut::Total, &facts, &policy).unwrap();
            let mut c = Counters::default();
            c.hits[hook_number("setup_out_kretprobe")] = 10;
            c.hits[hook_number("setup_in_kprobe")] = 10;
            c.hits[hook_number("complete_kprobe")] = 4;
            c.hits[hook_number("complete_batch_kprobe")] = 6;
            let ledger = Ledger::new(&plan, &c, &[], 10, Some(Scan::default()));
            assert_eq!((ledger.seen, ledger.completions), (10, 10));
            assert!(ledger.balance.unwrap().balanced);
            assert_eq!(ledger.accuracy(), accuracy);
        }
    }

    #[test]
    fn commands_without_an_end_are_suspect_where_completions_can_be_missed() {
        let policy = Policy {
            only: Some(Family::Tracepoint),
            ..Policy::default()
        };
        let plan = planned(Cut::Cheap, &everything(), &policy).unwrap();
        let mut c = Counters::default();
        c.hits[hook_number("setup_out_tp")] = 10;
        c.hits[hook_number("complete_tp")] = 9;
        let scan = Scan {
            in_flight: 1,
            ending: 0,
        };
        let ledger = Ledger::new(&plan, &c, &[], 9, Some(scan));
        assert!(ledger.balance.unwrap().balanced);
        assert!(ledger.degraded()[0].contains("without an end"));
    }
}
