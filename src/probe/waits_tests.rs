// SPDX-License-Identifier: MIT OR Apache-2.0
//! The planner and the waits before the request, with made-up kernels.

use super::super::catalog::MECHANISMS;
use super::tests::{auto, everything, programs};
use super::*;

/// The points before the request that a plan observes.
fn before(plan: &AttachPlan) -> Vec<&'static str> {
    let own = plan.points.iter().filter(|p| p.method.is_some());
    let points = own.filter_map(PointPlan::point);
    points.filter(|p| *p < Point::Start).map(Point::name).collect()
}

/// All points before the request.
const BEFORE: [&str; 7] = ["bio_submit", "bio_queue", "freeze", "zone", "iocost", "wbt", "tag"];

/// The waits whose length is known, and those that nothing can cause.
fn known(plan: &AttachPlan) -> (Vec<&'static str>, Vec<&'static str>) {
    let absent = plan.absent.iter().map(|(point, _)| point.name());
    (plan.known_waits().map(Point::name).collect(), absent.collect())
}

#[test]
fn a_wait_that_nothing_can_cause_is_known_and_costs_no_other() {
    for (at, mechanism) in MECHANISMS.iter().enumerate() {
        let name = mechanism.point.name();
        let mut facts = everything();
        for its in mechanism.structs {
            facts.structs.remove(*its);
        }
        let plan = auto(StageSet::Full, &facts);
        assert!(plan.point(mechanism.point).is_none(), "{name}");
        let why = plan.absent[0].1.to_string();
        assert!(why.contains("CONFIG_BLK"), "{why}");
        let rest = BEFORE.into_iter().filter(|point| *point != name);
        assert_eq!(before(&plan), rest.clone().collect::<Vec<_>>());
        // the bio is the first point without limits; else the wait is one of no length
        let known_waits = if at == 0 { rest.collect() } else { BEFORE.to_vec() };
        assert_eq!(known(&plan), (known_waits, vec![name]));
    }
    // none, as on small kernels; without BTF it is not known
    let mut facts = everything();
    facts.structs.clear();
    let plan = auto(StageSet::Full, &facts);
    assert_eq!(before(&plan), ["bio_queue", "freeze", "tag"]);
    assert_eq!(known(&plan).0, BEFORE[1..]);
    assert!(auto(StageSet::Fine, &facts).absent.is_empty());
    facts.vmlinux_btf = false;
    assert!(auto(StageSet::Full, &facts).absent.is_empty());
}

#[test]
fn a_wait_that_nothing_can_cause_is_in_one_part_with_a_later_one_that_is_not_observed() {
    let mut facts = everything();
    facts.structs.remove("blk_zone_wplug");
    facts.functions.remove("ioc_rqos_throttle");
    let plan = auto(StageSet::Full, &facts);
    let waits = vec!["bio_submit", "bio_queue", "wbt", "tag"];
    assert_eq!(before(&plan), waits);
    assert_eq!(known(&plan), (waits, vec!["zone"]));
}

#[test]
fn points_before_the_request_can_be_told_apart() {
    let plan = auto(StageSet::Full, &everything());
    assert_eq!(before(&plan), BEFORE);
    assert_eq!(plan.span(), (Point::Submit, Point::End));
    // which needs no other hooks for the submitters of bios
    let with =
        |facts| plan_with(StageSet::Full, &[Role::Submitter], &facts, &Policy::default()).unwrap();
    let plan = with(everything());
    assert!(plan.sees_submitters() && !plan.has_role(Role::Submitter) && !plan.lacks_waits());
    let mut facts = everything();
    facts.tracepoints.remove("block_bio_backmerge");
    let plan = with(facts);
    assert!(plan.sees_submitters() && plan.has_role(Role::Submitter) && plan.lacks_waits());
    let without = |names: &[&str]| {
        let mut facts = everything();
        for name in names {
            facts.functions.remove(*name);
            facts.tracepoints.remove(*name);
        }
        auto(StageSet::Full, &facts)
    };
    // without limits of cgroups
    assert_eq!(before(&without(&["__blk_throtl_bio", "blk_throtl_bio"])), BEFORE[1..]);
    // 5.10
    let plan = without(&["__blk_throtl_bio", "__bio_queue_enter", "block_rq_tag_wait"]);
    assert_eq!(before(&plan), BEFORE);
    let freeze = plan.point(Point::Freeze).unwrap();
    assert_eq!(freeze.rejected, [], "the method is the best one");
    for program in ["limits_out_fexit", "enter_out_fexit", "tag_fexit"] {
        assert!(plan.hooks().contains(&number_of(program).unwrap()), "{program}");
    }
    // the wait in wbt has no start, so those before it have no end
    let plan = without(&["rq_qos_wait"]);
    assert_eq!(before(&plan), ["bio_submit", "bio_queue", "tag"]);
    let joined = &plan.point(Point::Freeze).unwrap().rejected;
    assert!(joined.iter().any(|r| r.why == Reason::JOINED), "{joined:?}");
    // kernels before 6.5: other stage sets have the request's own time
    let mut facts = everything();
    facts.tracepoints.remove("block_io_start");
    for (start, source) in
        [("start_fentry", StartSource::Hook), ("start_bio_btf", StartSource::Bio)]
    {
        let plan = auto(StageSet::Full, &facts);
        assert_eq!(before(&plan), BEFORE);
        let hooks = &plan.point(Point::Start).unwrap().hooks;
        assert_eq!(hooks, &[number_of(start).unwrap()]);
        assert_eq!(plan.start, source);
        let fine = auto(StageSet::Fine, &facts);
        assert_eq!(fine.start, StartSource::Field);
        facts.functions.remove("blk_account_io_start");
    }
    facts.tracepoints.remove("block_getrq");
    let plan = auto(StageSet::Full, &facts);
    assert!(before(&plan).is_empty() && plan.start == StartSource::Field);
    assert_eq!(plan.span(), (Point::Start, Point::End));
}

#[test]
fn without_bios_the_start_is_as_in_the_fine_stages() {
    let mut facts = everything();
    facts.tracepoints.remove("block_io_start");
    facts.tracepoints.remove("block_bio_complete");
    let plan = auto(StageSet::Full, &facts);
    assert!(before(&plan).is_empty());
    assert_eq!(plan.start, StartSource::Field);
    assert!(!programs(&plan).contains(&"start_fentry"));
}
