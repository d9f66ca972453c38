// SPDX-License-Identifier: MIT OR Apache-2.0
use super::*;
use crate::model::stage::StageSet;
use crate::probe::catalog::CATALOG;
use crate::probe::catalog::Method;
use crate::probe::catalog::number_of;
use crate::probe::facts::Preemption;
use crate::probe::plan::Policy;
use crate::probe::plan::plan as planned;
use crate::probe::plan::tests::everything;

fn plan() -> AttachPlan {
    planned(StageSet::Fine, &everything(), &Policy::default()).unwrap()
}

fn hook_number(program: &str) -> usize {
    number_of(program).unwrap()
}

fn counters(setups: u64, completions: u64, counts: &[(Count, u64)]) -> Counters {
    let mut c = Counters::of_hooks(CATALOG.len());
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
fn skipped_programs_degrade_where_nothing_shows_their_commands() {
    let mut misses = vec![0; CATALOG.len()];
    misses[hook_number("complete_btf")] = 2;
    let mut plan = plan();
    let ledger = Ledger::new(&plan, &counters(0, 0, &[]), &misses, 0, None);
    assert_eq!(ledger.recursion_misses, 2);
    assert!(ledger.degraded().is_empty());
    plan.recovers = false;
    let ledger = Ledger::new(&plan, &counters(0, 0, &[]), &misses, 0, None);
    assert_eq!(ledger.degraded(), ["2 program runs skipped by the kernel"]);
}

/// 100 commands. The set-up of 3 of them and the completion of 4 of them were skipped.
#[test]
fn what_was_skipped_and_found_is_in_the_sums() {
    let mut misses = vec![0; CATALOG.len()];
    misses[hook_number("setup_out_btf")] = 3;
    misses[hook_number("complete_btf")] = 4;
    let counts = [(Count::UnseenSetup, 3), (Count::UnseenComplete, 4)];
    let c = counters(97, 96, &counts);
    let of = |misses: &[u64]| {
        Ledger::new(&plan(), &c, misses, 100, Some(Scan::default())).with_unmeasured(7)
    };
    let ledger = of(&misses);
    assert_eq!((ledger.seen, ledger.completions), (100, 100));
    assert!(ledger.balance.unwrap().balanced, "{ledger:?}");
    assert_eq!(ledger.accuracy(), Accuracy::Exact);
    // one more skipped set-up that nothing has shown
    misses[hook_number("setup_out_btf")] = 4;
    let ledger = of(&misses);
    assert_eq!(ledger.unrecovered, 1);
    assert!(ledger.degraded()[0].contains("in no row"));
}

#[test]
fn a_command_whose_submitter_is_not_known_is_in_no_row_of_a_filter_by_submitter() {
    let counts = [
        (Count::UnseenSetup, 2),
        (Count::Unattributed, 1),
        (Count::FilteredDone, 1),
    ];
    let c = counters(8, 10, &counts);
    let ledger = Ledger::new(&plan(), &c, &[], 9, Some(Scan::default()));
    assert!(ledger.balance.unwrap().balanced, "{ledger:?}");
    assert!(ledger.degraded()[0].contains("submitter"));
}

/// The second instance acts only on events at which the first was skipped: these are not lost.
#[test]
fn what_a_second_instance_has_seen_is_not_missed() {
    let mut facts = everything();
    facts.preemption = Preemption::Full;
    facts.preemptible_tracepoints = true;
    facts.polled = true;
    let plan = planned(StageSet::Fine, &facts, &Policy::default()).unwrap();
    let (first, second) = (hook_number("cqe_btf"), hook_number("cqe_second"));
    assert!(plan.hooks().contains(&second));
    for (skipped, acted, lost) in [
        ([3, 0], 3, 0),
        ([3, 2], 3, 0),
        ([3, 2], 2, 1),
        ([3, 1], 0, 1),
        // a run that ended between the two readings of the counters
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
        only: Some(Method::Kprobe),
        ..Policy::default()
    };
    for (counted, accuracy) in [(true, Accuracy::Exact), (false, Accuracy::Unknown)] {
        facts.misses_counted = counted;
        let plan = planned(StageSet::Total, &facts, &policy).unwrap();
        let mut c = Counters::of_hooks(CATALOG.len());
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
        only: Some(Method::Tracepoint),
        ..Policy::default()
    };
    let plan = planned(StageSet::Basic, &everything(), &policy).unwrap();
    let mut c = Counters::of_hooks(CATALOG.len());
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
