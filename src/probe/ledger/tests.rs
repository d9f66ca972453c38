// SPDX-License-Identifier: MIT OR Apache-2.0
use super::*;
use crate::model::ledger::Accuracy;
use crate::model::machine::Runs;
use crate::model::stage::StageSet;
use crate::probe::catalog::{CATALOG, Method, number_of};
use crate::probe::facts::Preemption;
use crate::probe::plan::tests::everything;
use crate::probe::plan::{Policy, plan as planned};

fn plan() -> AttachPlan {
    planned(StageSet::Fine, &everything(), &Policy::default()).unwrap()
}

fn hook_number(program: &str) -> usize {
    number_of(program).unwrap()
}

fn counters(setups: u64, completions: u64, counts: &[(Count, u64)]) -> Counters {
    let mut c = Counters { hits: vec![0; CATALOG.len()], ..Counters::default() };
    c.hits[hook_number("setup_out_btf")] = setups;
    c.hits[hook_number("complete_btf")] = completions;
    for &(what, n) in counts {
        c.counts[what as usize] = n;
    }
    c
}

#[test]
fn every_command_has_its_place_or_the_run_is_degraded() {
    use Count::{Filtered, FilteredDone, NoRow, OrphanDone, Requeued, UnseenSetup};
    let all = [(Filtered, 10), (FilteredDone, 9), (OrphanDone, 4), (Requeued, 3), (NoRow, 1)];
    let unknown = [(UnseenSetup, 2), (Count::Unattributed, 1), (FilteredDone, 1)];
    for (setups, completions, counts, rows, in_flight, residual, said) in [
        (110, 9 + 4 + 90, &all[..], 89, 7, 0, &["1 command without a row"][..]),
        (100, 99, &[], 99, 0, 1, &["off by 1"]),
        // a command whose submitter is not known is in no row of a filter by submitter
        (8, 10, &unknown, 9, 0, 0, &["1 command without a row"]),
    ] {
        let scan = Some(Scan { in_flight, ending: 0 });
        let ledger = Ledger::new(&plan(), &counters(setups, completions, counts), &[], rows, scan);
        let balance = ledger.balance.as_ref().unwrap();
        assert_eq!(balance.commands_residual, residual, "{ledger:?}");
        assert_eq!(balance.balanced, residual == 0, "{ledger:?}");
        let found = ledger.degraded();
        assert!(found.len() == said.len() && found[0].contains(said[0]), "{found:?}");
    }
    // while running, the difference is in flight
    let ledger = Ledger::new(&plan(), &counters(100, 80, &[]), &[], 80, None);
    assert_eq!(ledger.in_flight, 20);
    assert!(ledger.balance.is_none() && ledger.degraded().is_empty());
    // commands without an end are suspect where completions can be missed
    let policy = Policy { only: Some(Method::Tracepoint), ..Policy::default() };
    let plan = planned(StageSet::Basic, &everything(), &policy).unwrap();
    let mut c = Counters { hits: vec![0; CATALOG.len()], ..Counters::default() };
    c.hits[hook_number("setup_out_tp")] = 10;
    c.hits[hook_number("complete_tp")] = 9;
    let ledger = Ledger::new(&plan, &c, &[], 9, Some(Scan { in_flight: 1, ending: 0 }));
    assert!(ledger.balance.as_ref().unwrap().balanced);
    assert_eq!(ledger.degraded(), ["1 command without a known end"]);
}

/// 100 commands. The setup of 3 of them and the completion of 4 of them were skipped.
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
    // one more skipped setup that nothing has shown
    misses[hook_number("setup_out_btf")] = 4;
    let ledger = of(&misses);
    assert_eq!(ledger.unrecovered, 1);
    assert!(ledger.degraded()[0].contains("in no row"));
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
fn programs_add_up() {
    let plan = planned(StageSet::Total, &everything(), &Policy::default()).unwrap();
    let mut runs = vec![Runs::default(); CATALOG.len()];
    runs[hook_number("setup_out_btf")] = Runs { count: 10, ns: 2000 };
    runs[hook_number("complete_btf")] = Runs { count: 10, ns: 3000 };
    // not in the plan
    runs[hook_number("cqe_btf")] = Runs { count: 1, ns: 1 };
    let cost = OwnCost::new(&plan, &runs, 1_000_000, 10);
    assert_eq!((cost.run_ns, cost.ns_per_command), (5000, Some(500.0)));
    assert!((cost.share_of_a_cpu - 0.005).abs() < 1e-12);
    assert_eq!(OwnCost::new(&plan, &[], 1, 0).ns_per_command, None);
}
