// SPDX-License-Identifier: MIT OR Apache-2.0
//! Requests that wait in a scheduler: for the scheduler, or for the device's full queue.

use nvme_deep::diagnose::{Diagnosis, diagnose};
use nvme_deep::model::event::EventKind;
use nvme_deep::model::ids::NamespaceId;
use nvme_deep::model::ledger::Accuracy;
use nvme_deep::model::machine::MachineDisk;
use nvme_deep::model::report::device_name::DeviceName;

use super::causes::Cause;
use super::draft::DEVICE;
use super::load::{Load, Run};
use super::plants::{judged, named, said};

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
        let found = judged(crowded(seed));
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
    let found = judged(run);
    assert_eq!(named(&found), ["scheduler"]);
}

#[test]
fn without_the_depth_of_the_queues_the_scheduler_is_not_judged() {
    let mut run = crowded(1);
    run.machine.controllers[0].depth = None;
    let found = judged(run);
    assert!(named(&found).is_empty());
    let text = why(&found, "scheduler");
    assert!(text.contains("depth of the controller's queues is not known"), "{text}");
}

/// Writes that wait for a tag, measured one by one; the disk has these settings.
fn waiting(load: &Load, set: impl FnOnce(&mut MachineDisk)) -> Diagnosis {
    let mut run = load.run(&[Cause::FewTags]);
    set(&mut run.machine.controllers[0].disks[0]);
    judged(run)
}

#[test]
fn nr_requests_is_blamed_only_if_it_was_reached() {
    let load = Load { writes: 1.0, depth: 8, pause_ns: 1e3, seconds: 2.0, ..Load::default() };
    // 8 in flight on each queue
    let found = waiting(&load, |disk| disk.nr_requests = Some(8));
    assert_eq!(named(&found), ["tag-wait"]);
    assert!(why(&found, "tag-wait").ends_with("nr_requests=8 is too small for the load"));
    let found = waiting(&load, |disk| disk.nr_requests = Some(256));
    let tags = said(&found, "tag-wait");
    assert!(tags.text.contains("another limit than nr_requests=256"), "{}", tags.text);
    assert!(tags.advice.contains("raising nr_requests will not help"), "{}", tags.advice);
}

#[test]
fn a_scheduler_limits_writes_below_nr_requests() {
    let set = |disk: &mut MachineDisk| {
        disk.scheduler = Some("mq-deadline".into());
        (disk.nr_requests, disk.async_depth) = (Some(256), Some(1));
    };
    let writes = Load { writes: 1.0, ..Load::default() };
    let found = waiting(&writes, set);
    assert_eq!(named(&found), ["tag-wait"]);
    let tags = said(&found, "tag-wait");
    assert!(tags.text.contains("async_depth=1 of mq-deadline"), "{}", tags.text);
    assert!(
        tags.advice.contains("/sys/block/nvme0n1/queue/iosched/async_depth"),
        "{}",
        tags.advice
    );
    // it does not limit reads
    let found = waiting(&Load { writes: 0.0, ..Load::default() }, set);
    assert!(why(&found, "tag-wait").contains("another limit"), "{}", why(&found, "tag-wait"));
}

/// Seven of eight commands in flight are of one disk, one is of its neighbour.
#[test]
fn a_namespace_that_shares_tags_has_a_share_of_them() {
    let load = Load { queues: 1, pause_ns: 1e3, seconds: 1.0, ..Load::default() };
    let found = |limit| {
        let mut run = load.run(&[Cause::FewTags]);
        let disks = &mut run.machine.controllers[0].disks;
        disks[0].nr_requests = Some(limit);
        disks.push(MachineDisk { nsid: 2, name: "nvme0n2".into(), ..disks[0].clone() });
        let mut own = 0;
        for event in &mut run.events {
            if let EventKind::Command(id, ..) = &mut event.what {
                id.nsid = if id.cid == 7 { 2 } else { 1 };
                own += u64::from(id.nsid == 1);
            }
        }
        for waits in run.activity.waits.iter_mut().flatten() {
            waits.requests = own;
        }
        let mut facts = run.facts(Accuracy::Exact);
        facts.disks.insert(NamespaceId::new(0, 2), DeviceName::of(&"nvme0n2".into()));
        let found = diagnose(&facts);
        let mut all = found.causes();
        all.find(|v| v.rule == "tag-wait" && v.subject == "nvme0n1").unwrap().text.clone()
    };
    let text = found(14);
    assert!(text.ends_with("its share of the 14 tags of a queue is 7, next to nvme0n2"), "{text}");
    // it has less than its share
    let text = found(64);
    assert!(text.contains("another limit"), "{text}");
}
