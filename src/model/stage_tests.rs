// SPDX-License-Identifier: MIT OR Apache-2.0
//! Stages of patterns of points.

use super::*;
use crate::model::point::ALL_POINTS;

const FULL: Pattern = 0x7f;

fn names(stage_set: StageSet, missing: &[Point]) -> Vec<String> {
    let pattern =
        missing.iter().filter_map(|m| m.pattern_bit()).fold(FULL, |pattern, bit| pattern & !bit);
    stage_set.runs(pattern).into_iter().map(StageRun::name).collect()
}

#[test]
fn a_command_seen_everywhere_has_every_stage() {
    assert_eq!(names(StageSet::Basic, &[]), ["queue", "submit", "device", "complete"]);
    assert_eq!(
        names(StageSet::Fine, &[]),
        ["queue", "setup", "map", "submit", "device", "irq", "complete", "end"]
    );
    assert_eq!(names(StageSet::Total, &[]), ["total"]);
}

#[test]
fn a_missing_boundary_joins_the_stages_around_it() {
    use Point::*;
    assert_eq!(names(StageSet::Basic, &[Doorbell]), ["queue", "submit+device", "complete"]);
    assert_eq!(names(StageSet::Basic, &[Doorbell, Cqe]), ["queue", "submit+device+complete"]);
    assert_eq!(
        names(StageSet::Fine, &[Irq]),
        ["queue", "setup", "map", "submit", "device+irq", "complete", "end"]
    );
    assert_eq!(
        names(StageSet::Fine, &[SetupIn, Doorbell, Irq, Cqe]),
        ["queue+setup", "map", "submit+device+irq+complete", "end"]
    );
}

#[test]
fn a_missing_first_or_last_point_leaves_its_stage_out() {
    use Point::*;
    assert_eq!(names(StageSet::Basic, &[Start]), ["submit", "device", "complete"]);
    assert_eq!(
        names(StageSet::Fine, &[Start, SetupIn, End]),
        ["map", "submit", "device", "irq", "complete"]
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
    assert_eq!(names(StageSet::Fine, 0b111_1111 | NO_COMPLETE)[5..], ["irq", "complete+end"]);
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
    assert_eq!(merged, StageSet::Basic.run(1, 2));
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
