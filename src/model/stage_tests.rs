// SPDX-License-Identifier: MIT OR Apache-2.0
//! Stages of patterns of points.

use super::*;
use crate::model::point::{ALL_POINTS, HAS_BEFORE};

const FULL: Pattern = 0x7f;

fn names(stage_set: StageSet, missing: &[Point]) -> Vec<String> {
    let pattern =
        missing.iter().filter_map(|m| m.pattern_bit()).fold(FULL, |pattern, bit| pattern & !bit);
    stage_set.runs(pattern).into_iter().map(StageRun::name).collect()
}

#[test]
fn a_command_seen_everywhere_has_every_stage() {
    assert_eq!(names(StageSet::Basic, &[]), ["queue", "submit", "device", "complete", "end"]);
    assert_eq!(
        names(StageSet::Fine, &[]),
        [
            "queue.wait",
            "queue.setup",
            "submit.map",
            "submit.ring",
            "device.run",
            "device.irq",
            "complete",
            "end"
        ]
    );
    assert_eq!(names(StageSet::Total, &[]), ["driver"]);
}

#[test]
fn a_missing_boundary_joins_the_stages_around_it() {
    use Point::*;
    assert_eq!(names(StageSet::Basic, &[Doorbell]), ["queue", "submit+device", "complete", "end"]);
    assert_eq!(names(StageSet::Basic, &[Doorbell, Cqe, End]), ["queue", "submit+device+complete"]);
    // all parts of a group are the group
    assert_eq!(
        names(StageSet::Fine, &[Irq])[2..],
        ["submit.map", "submit.ring", "device", "complete", "end"]
    );
    assert_eq!(
        names(StageSet::Fine, &[SetupIn, Doorbell, Irq, Cqe]),
        ["queue", "submit.map", "submit.ring+device+complete", "end"]
    );
}

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
fn all_stage_sets_have_the_same_total() {
    let ends = |stage_set: StageSet, pattern| {
        let runs = stage_set.runs(pattern);
        Some((runs.first()?.from, runs.last()?.to))
    };
    // a command with points before the request has its start
    let is_whole = |p: &Pattern| p & NO_COMPLETE == 0 && (p >> 9 == 0 || p & 1 != 0);
    let has_bio = |p: &Pattern| p >> 9 == 0 || p & HAS_BEFORE != 0;
    for pattern in (0..=ALL_POINTS).filter(|p| is_whole(p) && has_bio(p)) {
        let want = ends(StageSet::Full, pattern);
        for stage_set in [StageSet::Basic, StageSet::Fine] {
            assert_eq!(ends(stage_set, pattern), want, "{stage_set:?} {pattern:#x}");
        }
    }
}

/// What the BPF side measures comes to the stages of the same names.
#[test]
fn each_histogram_of_the_bpf_side_has_its_place() {
    for stage_set in [StageSet::Total, StageSet::Basic, StageSet::Fine, StageSet::Full] {
        let mut places: Vec<usize> =
            (0..stage_set.measured()).map(|n| stage_set.place(n)).collect();
        let fine = if stage_set == StageSet::Full { 8 } else { stage_set.measured() - 1 };
        assert_eq!(places[fine], stage_set.total_index());
        if stage_set.before() > 0 {
            assert_eq!(stage_set.stages()[places[0]].from, Point::Start);
        }
        places.sort_unstable();
        places.dedup();
        assert_eq!(places.len(), stage_set.measured());
    }
    assert_eq!(StageSet::Full.place(9), 0);
}

#[test]
fn a_missing_first_or_last_point_leaves_its_stage_out() {
    use Point::*;
    // of a flush, the queue is the setup
    assert_eq!(names(StageSet::Basic, &[Start])[0], "queue.setup");
    assert_eq!(names(StageSet::Basic, &[Start, SetupIn])[0], "submit");
    assert_eq!(
        names(StageSet::Fine, &[Start, SetupIn, End]),
        ["submit.map", "submit.ring", "device.run", "device.irq", "complete"]
    );
}

#[test]
fn a_command_whose_setup_or_completion_was_not_observed_keeps_what_was() {
    let names = |stage_set: StageSet, pattern: Pattern| -> Vec<String> {
        let runs = stage_set.runs(pattern).into_iter();
        runs.map(StageRun::name).collect()
    };
    let basic = 0b010_1001;
    assert_eq!(names(StageSet::Basic, basic | NO_COMPLETE), ["queue", "submit", "device"]);
    assert_eq!(names(StageSet::Basic, 0b010_0000 | NO_SETUP), ["complete"]);
    assert_eq!(names(StageSet::Fine, 0b110_0000 | NO_SETUP), ["complete", "end"]);
    assert_eq!(
        names(StageSet::Fine, 0b111_1111 | NO_COMPLETE)[5..],
        ["device.irq", "complete+end"]
    );
    for (stage_set, pattern) in [
        (StageSet::Total, NO_SETUP),
        (StageSet::Total, NO_COMPLETE),
        (StageSet::Basic, NO_SETUP),
        (StageSet::Basic, 0b010_0000 | NO_SETUP | NO_COMPLETE),
    ] {
        assert!(stage_set.runs(pattern).is_empty(), "{stage_set:?} {pattern:#x}");
    }
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

#[test]
fn the_runs_of_any_pattern_are_neighbours_without_gap_or_overlap() {
    for stage_set in [StageSet::Basic, StageSet::Fine, StageSet::Full] {
        for pattern in 0..=ALL_POINTS {
            let runs = stage_set.runs(pattern);
            for pair in runs.windows(2) {
                assert_eq!(pair[0].last + 1, pair[1].first, "{stage_set:?} {pattern:#x}");
            }
            assert!(runs.last().is_none_or(|r| r.last < stage_set.stages().len()));
        }
    }
}
