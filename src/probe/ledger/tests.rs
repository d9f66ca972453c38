// SPDX-License-Identifier: MIT OR Apache-2.0
use serde_json::{Value, from_str, from_value, to_string};

use super::*;
use crate::model::ledger::{Accuracy, Shown};
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
    let scan = Some(Scan { in_flight: 7, ending: 0 });
    let ledger = Ledger::new(&plan(), &c, &[], 89, scan);
    assert_eq!((ledger.seen, ledger.matched), (100, 90));
    assert!(ledger.balance.unwrap().balanced, "{ledger:?}");
    assert_eq!(ledger.degraded(), ["1 command without a row"]);
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

#[test]
fn commands_on_a_cpu_without_an_entry_degrade() {
    let c = counters(8, 8, &[(Count::NoCpu, 2)]);
    let ledger = Ledger::new(&plan(), &c, &[], 8, Some(Scan::default()));
    assert!(ledger.balance.unwrap().balanced, "{ledger:?}");
    assert_eq!(ledger.degraded(), ["2 commands without a row"]);
}

#[test]
fn a_command_whose_submitter_is_not_known_is_in_no_row_of_a_filter_by_submitter() {
    let counts = [(Count::UnseenSetup, 2), (Count::Unattributed, 1), (Count::FilteredDone, 1)];
    let c = counters(8, 10, &counts);
    let ledger = Ledger::new(&plan(), &c, &[], 9, Some(Scan::default()));
    assert!(ledger.balance.unwrap().balanced, "{ledger:?}");
    assert_eq!(ledger.degraded(), ["1 command without a row"]);
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
    let policy = Policy { only: Some(Method::Kprobe), ..Policy::default() };
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
    let policy = Policy { only: Some(Method::Tracepoint), ..Policy::default() };
    let plan = planned(StageSet::Basic, &everything(), &policy).unwrap();
    let mut c = Counters::of_hooks(CATALOG.len());
    c.hits[hook_number("setup_out_tp")] = 10;
    c.hits[hook_number("complete_tp")] = 9;
    let scan = Scan { in_flight: 1, ending: 0 };
    let ledger = Ledger::new(&plan, &c, &[], 9, Some(scan));
    assert!(ledger.balance.unwrap().balanced);
    assert_eq!(ledger.degraded(), ["1 command without a known end"]);
}

/// Reads the ledger back from its JSON: from text, from a value (as in a recording), and with a key
/// that a later version may add. Returns the JSON.
fn survives_storage(ledger: &Ledger) -> Value {
    let json = to_string(ledger).unwrap();
    let back: Ledger = from_str(&json).unwrap();
    assert_eq!(back, *ledger);
    assert_eq!(to_string(&back).unwrap(), json);
    let later = json.replacen('{', r#"{"of_a_later_version":{"a":[1,null]},"#, 1);
    assert_eq!(from_str::<Ledger>(&later).unwrap(), *ledger);
    let value: Value = from_str(&json).unwrap();
    let back: Ledger = from_value(value.clone()).unwrap();
    assert_eq!(to_string(&back).unwrap(), json);
    value
}

/// A plan with all that a ledger says of hooks: hooks that rarely fire, second instances, points by
/// a lesser method or none, and a start that no hook observes.
fn varied_plan() -> AttachPlan {
    let mut facts = everything();
    facts.preemption = Preemption::Full;
    facts.preemptible_tracepoints = true;
    facts.polled = true;
    facts.tracepoints.remove("block_io_start");
    facts.functions.remove("nvme_irq");
    let mut policy = Policy::default();
    for program in ["irq_in_kprobe", "complete_btf"] {
        let program = hook_number(program);
        policy.refused.insert(program, "not \"today\"\n".into());
    }
    planned(StageSet::Fine, &facts, &policy).unwrap()
}

#[test]
fn the_ledger_of_a_report_survives_storage() {
    let counts = [(Count::NoRow, 1), (Count::PendingFull, u64::MAX)];
    let c = counters(100, 90, &counts);
    for scan in [None, Some(Scan::default())] {
        let ledger = Ledger::new(&varied_plan(), &c, &[], 89, scan);
        let json = survives_storage(&ledger);
        assert_eq!(json.get("balance").is_some(), scan.is_some());
        assert!(json.get("submits_shown").is_none() && json.get("own_cost").is_none());
        // the ledger has every kind of entry
        let (hooks, missing) = (&ledger.hooks, &ledger.missing_hooks);
        assert!(hooks.iter().any(|h| h.may_stay_silent.is_some()));
        assert!(hooks.iter().any(|h| h.may_stay_silent.is_none()));
        assert!(hooks.iter().any(|h| h.by_second.is_some()));
        assert!(hooks.iter().any(|h| h.point.is_none()));
        assert!(missing.iter().any(|m| m.instead.is_some() && m.tried));
        assert!(missing.iter().any(|m| m.instead.is_none()));
        assert!(ledger.methods.iter().any(|m| m.method.is_none()));
    }
}

#[test]
fn the_ledger_of_a_trace_survives_storage() {
    let c = counters(3, 3, &[(Count::LostEvent, 2), (Count::NotShown, 1)]);
    let shown = Shown { submits: 3, commands: 2, past_count: 1, ..Shown::default() };
    let plan = varied_plan();
    // fractions that serde_json reads back to the last digit
    let runs = vec![Runs { count: 7, ns: 3 << 10 }; CATALOG.len()];
    let times = RunTimes { runs, elapsed_ns: 1 << 30 };
    let ledger = Ledger::new(&plan, &c, &[], 3, Some(Scan::default()))
        .with_trace(&c, &shown)
        .with_cost(&plan, Some(&times));
    let json = survives_storage(&ledger);
    assert_eq!(json["lost_events"], 2);
    assert!(json["own_cost"]["share_of_a_cpu"].is_f64());
}

/// A cost without a command has no cost per command.
#[test]
fn the_ledger_of_an_empty_trace_survives_storage() {
    let (plan, c) = (plan(), counters(0, 0, &[]));
    let times = RunTimes { runs: Vec::new(), elapsed_ns: 0 };
    let ledger = Ledger::new(&plan, &c, &[], 0, None)
        .with_trace(&c, &Shown::default())
        .with_cost(&plan, Some(&times));
    let json = survives_storage(&ledger);
    assert!(json["own_cost"]["ns_per_command"].is_null() && json["submits_shown"] == 0);
}

/// A recording of an earlier version lacks the fields that came later.
#[test]
fn a_ledger_that_lacks_a_field_has_its_default() {
    let ledger: Ledger = from_str(r#"{"seen":7,"later":true}"#).unwrap();
    assert_eq!((ledger.seen, ledger.matched, ledger.trace), (7, 0, None));
}

/// What is left of an object if its writer had none of its keys but these: the ledger of an older
/// version.
fn without(value: &mut Value, keep: &[&str]) {
    match value {
        Value::Object(all) => {
            all.retain(|key, _| keep.contains(&key.as_str()));
            all.values_mut().for_each(|inner| without(inner, keep));
        }
        Value::Array(all) => all.iter_mut().for_each(|inner| without(inner, keep)),
        _ => {}
    }
}

#[test]
fn the_ledger_of_an_older_version_has_zeroes_for_what_it_lacks() {
    let (plan, c) = (varied_plan(), counters(3, 3, &[(Count::LostEvent, 2)]));
    let times = RunTimes { runs: vec![Runs { count: 7, ns: 9 }; CATALOG.len()], elapsed_ns: 1 };
    let shown = Shown { commands: 2, ..Shown::default() };
    let ledger = Ledger::new(&plan, &c, &[], 3, Some(Scan::default()))
        .with_trace(&c, &shown)
        .with_cost(&plan, Some(&times));
    let mut value = serde_json::to_value(&ledger).unwrap();
    let lists = ["hooks", "methods", "missing_hooks", "own_cost", "programs", "balance"];
    without(&mut value, &[&lists[..], &["commands_shown"]].concat());
    let old: Ledger = from_value(value.clone()).unwrap();
    let trace = old.trace.unwrap();
    assert_eq!((trace.commands_shown, trace.lost_events), (2, 0));
    assert_eq!(old.hooks.len(), ledger.hooks.len());
    assert!(old.own_cost.is_some_and(|cost| !cost.programs.is_empty()));
    without(&mut value, &["hooks"]);
    let old: Ledger = from_value(value).unwrap();
    assert!(old.trace.is_none());
}
