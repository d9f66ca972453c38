// SPDX-License-Identifier: MIT OR Apache-2.0
//! Runs that do not suffice for a verdict.

use nvme_deep::diagnose::{Outcome, RULES, Status, diagnose};
use nvme_deep::model::activity::TagWaits;
use nvme_deep::model::event::EventKind;
use nvme_deep::model::ledger::Accuracy;

use super::causes::Cause;
use super::load::Load;
use super::plants::{PLANTS, facts, judged, named};

/// Rules that need no statistics.
const INCIDENTS: [&str; 5] =
    ["lost-interrupt", "doorbell-unseen", "held-by-device", "path-failover", "errors-timeout"];

#[test]
fn few_commands_are_not_known() {
    let load = Load { seconds: 0.3, ..Load::default() };
    let diagnosis = diagnose(&facts(&load, &[Cause::Scheduler]));
    assert_eq!(diagnosis.outcome, Outcome::Unknown);
    let says = "I/O commands finished, and 200 are needed";
    assert!(diagnosis.headline.contains(says), "{}", diagnosis.headline);
    assert_eq!(diagnosis.of(Status::Inconclusive).count(), RULES.len());
}

/// One command failed, and nothing else can be said.
#[test]
fn a_note_alone_is_no_verdict() {
    let load = Load { seconds: 0.3, ..Load::default() };
    let diagnosis = diagnose(&facts(&load, &[Cause::OneError]));
    assert_eq!(diagnosis.of(Status::Noted).count(), 1);
    assert_eq!(diagnosis.outcome, Outcome::Unknown);
}

#[test]
fn commands_without_stages_are_not_known() {
    let mut run = Load::default().run(&[Cause::Scheduler]);
    for event in &mut run.events {
        if let EventKind::Command(_, _, outcome) = &mut event.what {
            outcome.timeline = None;
        }
    }
    let diagnosis = judged(run);
    assert_eq!(diagnosis.outcome, Outcome::Unknown);
    assert_eq!(diagnosis.headline, "No verdict: no stages were observed.");
}

#[test]
fn nothing_at_all_is_not_known() {
    let mut run = Load::default().run(&[]);
    run.events.clear();
    let diagnosis = judged(run);
    assert_eq!(diagnosis.outcome, Outcome::Unknown);
}

/// A degraded ledger: times are not judged; commands that went astray are named all the same.
#[test]
fn of_a_degraded_run_only_incidents_are_named() {
    let degraded = || Accuracy::Degraded(vec!["7 commands without a row".into()]);
    for plant in PLANTS {
        let diagnosis = diagnose(&plant.load(1).run(&[plant.cause]).facts(degraded()));
        if INCIDENTS.contains(&plant.rule) {
            assert_eq!(named(&diagnosis), [plant.rule]);
        } else {
            assert_eq!(diagnosis.outcome, Outcome::Unknown, "{}", plant.rule);
            let says = "No verdict: the recording is not exact (7 commands without a row).";
            assert_eq!(diagnosis.headline, says);
        }
    }
}

#[test]
fn a_kernel_that_does_not_count_misses_is_no_obstacle() {
    let run = Load::default().run(&[Cause::Scheduler]);
    assert_eq!(named(&diagnose(&run.facts(Accuracy::Unknown))), ["scheduler"]);
}

/// Activity is counted for all disks; the recording has the commands of one.
#[test]
fn what_disks_without_commands_waited_for_is_not_judged() {
    let mut run = Load::default().run(&[]);
    let waits = run.activity.waits.as_mut().unwrap();
    let other = TagWaits { ctrl: 1, waited: waits[0].requests, sum_ns: u64::MAX / 4, ..waits[0] };
    waits.push(other);
    let diagnosis = judged(run);
    assert_eq!(diagnosis.outcome, Outcome::Nothing, "{}", diagnosis.headline);
}

/// The recording has half of the commands; all waits and splits are counted.
#[test]
fn with_a_filter_waits_and_splits_are_not_known() {
    for cause in [Cause::TagWait, Cause::Split] {
        let mut load = Load::default();
        load.place.has_waits = false;
        let mut run = load.run(&[cause]);
        let mut nth = 0;
        run.events.retain(|_| {
            nth += 1;
            nth % 2 == 0
        });
        let diagnosis = judged(run);
        assert_eq!(diagnosis.outcome, Outcome::Nothing, "{}", diagnosis.headline);
        let unknown: Vec<&str> = diagnosis.of(Status::Inconclusive).map(|v| v.rule).collect();
        assert!(unknown.contains(&"tag-wait"), "{unknown:?}");
        assert!(unknown.contains(&"split"), "{unknown:?}");
    }
}
