// SPDX-License-Identifier: MIT OR Apache-2.0
//! Stages of patterns of points.

use super::*;
use crate::model::point::{ALL_POINTS, HAS_BEFORE};

const FULL: Pattern = 0x7f;

#[test]
fn before_is_a_group_in_all_sets_but_the_full_one() {
    let limits = Point::Submit.pattern_bit().unwrap();
    let waits = HAS_BEFORE | Point::Tag.pattern_bit().unwrap();
    let first = |stage_set: StageSet, pattern| {
        let run = stage_set.runs(FULL | pattern)[0];
        (run.name(), run.from, run.to)
    };
    let before = |from| ("before".to_owned(), from, Point::Start);
    for stage_set in [StageSet::Basic, StageSet::Fine] {
        assert_eq!(first(stage_set, waits | limits), before(Point::Submit));
        // where limits of cgroups are not observed
        assert_eq!(first(stage_set, waits), before(Point::Bio));
    }
    let block = |to| ("block".to_owned(), Point::Bio, to);
    assert_eq!(first(StageSet::Full, waits).1, block(Point::Tag).1);
    assert_eq!(StageSet::Full.runs(FULL | HAS_BEFORE)[0].group(), Some("before"));
}

#[test]
fn all_stage_sets_have_the_same_total_and_no_gap_or_overlap() {
    let ends = |stage_set: StageSet, pattern| {
        let runs = stage_set.runs(pattern);
        for pair in runs.windows(2) {
            assert_eq!(pair[0].last + 1, pair[1].first, "{stage_set:?} {pattern:#x}");
        }
        assert!(runs.last().is_none_or(|r| r.last < stage_set.stages().len()));
        Some((runs.first()?.from, runs.last()?.to))
    };
    // a command with points before the request has its start
    let is_whole = |p: Pattern| p & NO_COMPLETE == 0 && (p >> 9 == 0 || p & 1 != 0);
    let has_bio = |p: Pattern| p >> 9 == 0 || p & HAS_BEFORE != 0;
    for pattern in 0..=ALL_POINTS {
        let want = ends(StageSet::Full, pattern);
        for stage_set in [StageSet::Basic, StageSet::Fine] {
            let found = ends(stage_set, pattern);
            if is_whole(pattern) && has_bio(pattern) {
                assert_eq!(found, want, "{stage_set:?} {pattern:#x}");
            }
        }
    }
}

#[test]
fn a_missing_boundary_joins_the_stages_around_it_and_a_missing_end_leaves_its_stage_out() {
    use Point::{Cqe, Doorbell, End, Irq, SetupIn, Start};
    use StageSet::{Basic, Fine, Total};
    let fine = "queue.wait queue.setup submit.map submit.ring device.run device.irq complete end";
    for (stage_set, missing, names) in [
        (Total, &[][..], "driver"),
        (Basic, &[], "queue submit device complete end"),
        (Fine, &[], fine),
        (Basic, &[Doorbell], "queue submit+device complete end"),
        (Basic, &[Doorbell, Cqe, End], "queue submit+device+complete"),
        // all parts of a group are the group
        (Fine, &[Irq], "queue.wait queue.setup submit.map submit.ring device complete end"),
        (Fine, &[SetupIn, Doorbell, Irq, Cqe], "queue submit.map submit.ring+device+complete end"),
        // in a flush, the queue is the setup
        (Basic, &[Start], "queue.setup submit device complete end"),
        (Basic, &[Start, SetupIn], "submit device complete end"),
        (Fine, &[Start, SetupIn, End], "submit.map submit.ring device.run device.irq complete"),
    ] {
        let missing = missing.iter().filter_map(|point: &Point| point.pattern_bit());
        check(stage_set, missing.fold(FULL, |pattern, bit| pattern & !bit), names);
    }
    // what was observed is kept where the setup or the completion was not
    for (stage_set, pattern, names) in [
        (Basic, 0b010_1001 | NO_COMPLETE, "queue submit device"),
        (Basic, 0b010_0000 | NO_SETUP, "complete"),
        (Fine, 0b110_0000 | NO_SETUP, "complete end"),
        (Fine, FULL | NO_COMPLETE, &fine.replace("complete end", "complete+end")),
        (Total, NO_SETUP, ""),
        (Total, NO_COMPLETE, ""),
        (Basic, NO_SETUP, ""),
        (Basic, 0b010_0000 | NO_SETUP | NO_COMPLETE, ""),
    ] {
        check(stage_set, pattern, names);
    }
}

fn check(stage_set: StageSet, pattern: Pattern, names: &str) {
    let found: Vec<String> = stage_set.runs(pattern).into_iter().map(StageRun::name).collect();
    assert_eq!(found.join(" "), names, "{stage_set:?} {pattern:#x}");
}

#[test]
fn a_run_has_its_name() {
    for stage_set in [StageSet::Basic, StageSet::Fine, StageSet::Full] {
        let runs = stage_set.runs(ALL_POINTS & !NO_SETUP & !NO_COMPLETE);
        assert_eq!(runs.len(), stage_set.stages().len());
        for run in runs {
            assert_eq!(stage_set.run_named(&run.name()), Some(run));
            assert_eq!(run.single(), Some(run.name().as_str()));
        }
    }
    let merged = StageSet::Basic.run_named("submit+device").unwrap();
    assert_eq!(merged, StageSet::Basic.run(2, 3));
    assert_eq!((merged.group(), merged.unobserved().next()), (None, Some(Point::Doorbell)));
    assert_eq!(merged.single(), None);
    assert_eq!(StageSet::Basic.run_named("submit+complete"), None);
}
