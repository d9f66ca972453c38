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

/// A transport with another point where PCIe has the doorbell, and none where it has the interrupt.
static MADE_UP: Wire = Wire::new([
    Some(Point::Start),
    Some(Point::SetupIn),
    Some(Point::Issue),
    Some(Point::Irq),
    None,
    Some(Point::Cqe),
    Some(Point::End),
]);

#[test]
fn stages_begin_at_the_points_of_a_transport() {
    let named = |stage_set: StageSet, pattern| -> Vec<(String, Point, Point)> {
        let name = |run: StageRun| {
            let names = run.stages_on(&MADE_UP).map(|s| s.name);
            (names.collect::<Vec<_>>().join("+"), run.from, run.to)
        };
        let runs = stage_set.runs_on(pattern, &MADE_UP);
        runs.into_iter().map(name).collect()
    };
    use Point::*;
    let at = |name: &str, from, to| (name.to_owned(), from, to);
    let fine = [at("submit", Issue, Irq), at("device", Irq, Cqe), at("complete", Cqe, Complete)];
    assert_eq!(named(StageSet::Fine, 0b111_0111)[3..6], fine);
    let merged = [at("submit+device", Issue, Cqe), at("complete", Cqe, Complete)];
    assert_eq!(named(StageSet::Fine, 0b110_0111)[3..5], merged);
    let basic = [at("submit", SetupOut, Irq), at("device", Irq, Cqe)];
    assert_eq!(named(StageSet::Basic, 0b111_0111)[1..3], basic);
}

#[test]
fn a_run_has_its_name() {
    for stage_set in [StageSet::Basic, StageSet::Fine, StageSet::Full] {
        let of_pcie = Point::ALL.into_iter().filter(|p| Transport::usual(*p) == *p);
        let all = of_pcie.filter_map(Point::pattern_bit).sum();
        let runs = stage_set.runs(all);
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
