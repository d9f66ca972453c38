// SPDX-License-Identifier: MIT OR Apache-2.0
//! Commands that are in flight after the run.

use nvme_deep::diagnose::report::{Diagnosis, Stuck, diagnose};
use nvme_deep::machine::inflight::StuckState;
use nvme_deep::model::ledger::Accuracy;

use super::load::Load;
use super::plants::{facts, named};

const S: u64 = 1_000_000_000;
const READ: u8 = 2;
const DEALLOCATE: u8 = 9;

fn read(age_ns: u64, verdict: StuckState) -> Stuck {
    Stuck {
        qid: 2,
        cid: Some(7),
        kind: Some((1, READ)),
        age_ns,
        verdict: Some(verdict),
        ..Stuck::default()
    }
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
    for (verdict, rule) in rules {
        let both = [read(4 * S, verdict), read(3 * S, verdict)];
        let diagnosis = after(&both);
        assert_eq!(named(&diagnosis), [rule]);
        let evidence = &diagnosis.causes[0].finding.evidence;
        let evidence: Vec<_> = evidence.iter().map(|e| (&*e.name, &*e.value)).collect();
        let wanted = [("commands stuck now", "2"), ("age of the oldest", "4.00s")];
        assert_eq!(evidence[..2], wanted, "{verdict:?}");
        assert!(evidence.contains(&("commands", "qid 2 cid 7")), "{evidence:?}");
        let finding = &diagnosis.causes[0].finding;
        assert!(rule != "lost-interrupt" || finding.advice.contains("here 2 "), "{finding:?}");
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
    for verdict in unknown {
        let stuck = Stuck { verdict, ..read(5 * S, StuckState::Held) };
        let diagnosis = after(&[stuck]);
        assert!(named(&diagnosis).is_empty(), "{verdict:?}");
        let why = diagnosis.not_judged.iter();
        let why: Vec<_> = why.filter(|judged| judged.rule == "held-by-device").collect();
        assert!(why[0].why.contains("in flight for 5.00s"), "{why:?}");
    }
}

#[test]
fn commands_that_always_take_long_are_not_stuck() {
    let deallocate =
        |age_ns| Stuck { kind: Some((1, DEALLOCATE)), ..read(age_ns, StuckState::Held) };
    assert!(named(&after(&[deallocate(9 * S)])).is_empty());
    assert_eq!(named(&after(&[deallocate(11 * S)])), ["held-by-device"]);
    // reads of 100 ms
    let mut facts = facts(&Load::default(), &[]);
    for stratum in &mut facts.strata {
        stratum.begun_p50_ns = S / 10;
    }
    facts.in_flight = vec![read(19 * S / 10, StuckState::Held)];
    assert!(named(&diagnose(&facts)).is_empty());
}
