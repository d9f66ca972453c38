// SPDX-License-Identifier: MIT OR Apache-2.0
//! Requests that wait in a scheduler: for the scheduler, or for the device's full queue.

use nvme_deep::diagnose::report::{Diagnosis, diagnose};
use nvme_deep::model::ledger::Accuracy;

use super::causes::Cause;
use super::draft::DEVICE;
use super::load::{Load, Run};
use super::plants::{named, said};

/// 32 commands for a queue that has room for 7.
fn crowded(seed: u64) -> Run {
    let mut load =
        Load { seed, queues: 1, jobs: 4, depth: 8, pause_ns: 1e3, seconds: 2.0, ..Load::default() };
    load.stages[DEVICE] = 1e6;
    load.run(&[Cause::FullDevice])
}

fn why<'d>(diagnosis: &'d Diagnosis, rule: &str) -> &'d str {
    &said(diagnosis, rule).text
}

#[test]
fn requests_that_wait_for_a_full_device_do_not_wait_for_the_scheduler() {
    for seed in 1..4 {
        let found = diagnose(&crowded(seed).facts(Accuracy::Exact));
        assert_eq!(named(&found), ["tag-wait"]);
        let text = why(&found, "scheduler");
        assert!(text.contains("full queue: 7 of 7 in flight"), "{text}");
        let cause = said(&found, "tag-wait");
        let sentence = &cause.text;
        assert!(sentence.contains("it has room for 7 commands"), "{sentence}");
        assert!(!cause.advice.contains("none"), "{}", cause.advice);
    }
}

/// The same waits, but the queue has room: the scheduler holds the requests.
#[test]
fn requests_that_wait_above_a_queue_with_room_wait_for_the_scheduler() {
    let mut run = crowded(1);
    run.machine.controllers[0].depth = Some(32);
    let found = diagnose(&run.facts(Accuracy::Exact));
    assert_eq!(named(&found), ["scheduler"]);
}

#[test]
fn without_the_depth_of_the_queues_the_scheduler_is_not_judged() {
    let mut run = crowded(1);
    run.machine.controllers[0].depth = None;
    let found = diagnose(&run.facts(Accuracy::Exact));
    assert!(named(&found).is_empty());
    let text = why(&found, "scheduler");
    assert!(text.contains("depth of the controller's queues is not known"), "{text}");
}
