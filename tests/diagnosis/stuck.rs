// SPDX-License-Identifier: MIT OR Apache-2.0
//! Commands that are in flight after the run.

use nvme_deep::diagnose::{Affected, Diagnosis, Stuck, diagnose};
use nvme_deep::machine::inflight::StuckState;
use nvme_deep::model::ids::NamespaceId;
use nvme_deep::model::ledger::Accuracy;

use super::load::Load;
use super::plants::{facts, named, said};

const S: u64 = 1_000_000_000;
const READ: u8 = 2;
const DEALLOCATE: u8 = 9;

fn stuck(code: u8, age_ns: u64, state: Option<StuckState>) -> Stuck {
    let affected = Affected {
        qid: 2,
        cid: Some(7),
        disk: NamespaceId::new(0, 1),
        code: Some(code),
        begin_ns: 100 * S - age_ns,
        end_ns: 100 * S,
        ..Affected::default()
    };
    Stuck { affected, state }
}

fn read(age_ns: u64, state: StuckState) -> Stuck {
    stuck(READ, age_ns, Some(state))
}

/// The diagnosis of a healthy load with these commands in flight after it.
fn after(stuck: &[Stuck]) -> Diagnosis {
    let mut facts = facts(&Load::default(), &[]);
    facts.in_flight = stuck.to_vec();
    diagnose(&facts)
}

#[test]
fn each_verdict_has_its_rule() {
    let rules = [
        (StuckState::Answered, "lost-interrupt"),
        (StuckState::NotFetched, "doorbell-unseen"),
        (StuckState::Held, "held-by-device"),
    ];
    for (state, rule) in rules {
        let both = [read(4 * S, state), read(3 * S, state)];
        let diagnosis = after(&both);
        assert_eq!(named(&diagnosis), [rule]);
        let found = said(&diagnosis, rule);
        let evidence = &found.evidence;
        let evidence: Vec<_> = evidence.iter().map(|e| (&*e.name, &*e.value)).collect();
        let wanted = [("commands stuck now", "2"), ("age of the oldest", "4.00s")];
        assert_eq!(evidence[..2], wanted, "{state:?}");
        assert_eq!(serde_json::to_value(found).unwrap()["where"][0]["cid"], 7);
        assert!(rule != "lost-interrupt" || found.advice.contains("here 2 "), "{found:?}");
    }
}

#[test]
fn a_controller_that_finishes_nothing_is_named() {
    let mut run = Load::default().run(&[]);
    run.events.clear();
    let mut facts = run.facts(Accuracy::Exact);
    facts.in_flight = vec![read(2 * S, StuckState::Held)];
    assert_eq!(named(&diagnose(&facts)), ["held-by-device"]);
}

#[test]
fn what_is_not_proved_is_no_cause() {
    let unknown = [Some(StuckState::NotProvable), Some(StuckState::Unknown), None];
    for state in unknown {
        let diagnosis = after(&[stuck(READ, 5 * S, state)]);
        assert!(named(&diagnosis).is_empty(), "{state:?}");
        let held = said(&diagnosis, "held-by-device");
        assert!(held.text.contains("in flight for 5.00s"), "{held:?}");
    }
}

#[test]
fn commands_that_always_take_long_are_not_stuck() {
    let deallocate = |age_ns| stuck(DEALLOCATE, age_ns, Some(StuckState::Held));
    assert!(named(&after(&[deallocate(9 * S)])).is_empty());
    assert_eq!(named(&after(&[deallocate(11 * S)])), ["held-by-device"]);
    // reads of 100 ms
    let mut facts = facts(&Load::default(), &[]);
    for class in &mut facts.classes.all {
        class.begun_p50_ns = S / 10;
    }
    facts.in_flight = vec![read(19 * S / 10, StuckState::Held)];
    assert!(named(&diagnose(&facts)).is_empty());
}
