// SPDX-License-Identifier: MIT OR Apache-2.0
//! Stages: the intervals between neighbouring points of a stage set. If a point was not observed,
//! the two stages around it are merged, under a joined name (`submit+device`).

use serde::Deserialize;
use serde::Serialize;

use super::point::NO_COMPLETE;
use super::point::NO_SETUP;
use super::point::Pattern;
use super::point::Point;

/// The sets of stages that a command's life can be divided into.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StageSet {
    /// One interval, setup_out to complete: `latency` without `--stages`.
    #[default]
    Total,
    /// queue, submit, device, complete: `--stages`, or `--stages=basic`.
    Basic,
    /// Every stage between neighbouring points: `--stages=fine`.
    Fine,
    /// The same, and the waits before the request: `--stages=full`.
    Full,
}

/// One stage of a stage set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stage {
    /// The name in reports.
    pub name: &'static str,
    /// The letter in bars; no two stages of a set have the same.
    pub letter: char,
    /// The point at which it begins. It ends where the next stage begins.
    pub from: Point,
}

const fn stage(name: &'static str, letter: char, from: Point) -> Stage {
    Stage { name, letter, from }
}

const TOTAL: [Stage; 1] = [stage("total", '+', Point::SetupOut)];

const BASIC: [Stage; 4] = [
    stage("queue", 'q', Point::Start),
    stage("submit", 's', Point::SetupOut),
    stage("device", 'd', Point::Doorbell),
    stage("complete", 'c', Point::Cqe),
];

const FINE: [Stage; 8] = [
    stage("queue", 'q', Point::Start),
    stage("setup", 't', Point::SetupIn),
    stage("map", 'm', Point::SetupOut),
    stage("submit", 's', Point::Issue),
    stage("device", 'd', Point::Doorbell),
    stage("irq", 'i', Point::Irq),
    stage("complete", 'c', Point::Cqe),
    stage("end", 'e', Point::Complete),
];

/// Those before the request, and [`FINE`].
const FULL: [Stage; BEFORE.len() + FINE.len()] = {
    let mut all = [BEFORE[0]; BEFORE.len() + FINE.len()];
    let mut n = 0;
    while n < all.len() {
        all[n] = if n < BEFORE.len() {
            BEFORE[n]
        } else {
            FINE[n - BEFORE.len()]
        };
        n += 1;
    }
    all
};

/// The stages before the request. `block` is what no wait was measured in.
const BEFORE: [Stage; 7] = [
    stage("throttle", 'T', Point::Submit),
    stage("block", 'b', Point::Bio),
    stage("freeze", 'F', Point::Freeze),
    stage("zone", 'Z', Point::Zone),
    stage("iocost", 'C', Point::Iocost),
    stage("wbt", 'W', Point::Wbt),
    stage("tag", 'g', Point::Tag),
];

/// A run of neighbouring stages of a stage set, `first..=last`: one stage, or several merged ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Run {
    /// Index of the first stage in [`StageSet::stages`].
    pub first: usize,
    /// Index of the last stage.
    pub last: usize,
}

impl StageSet {
    /// The stages in order, without the total; for [`StageSet::Total`], the total.
    pub const fn stages(self) -> &'static [Stage] {
        match self {
            Self::Total => &TOTAL,
            Self::Basic => &BASIC,
            Self::Fine => &FINE,
            Self::Full => &FULL,
        }
    }

    /// The name: `total`, or as in the option `--stages`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Total => "total",
            Self::Basic => "basic",
            Self::Fine => "fine",
            Self::Full => "full",
        }
    }

    /// Number of stages before the request.
    pub const fn before(self) -> usize {
        match self {
            Self::Full => BEFORE.len(),
            Self::Total | Self::Basic | Self::Fine => 0,
        }
    }

    /// Whether the stages are at least the fine ones.
    pub const fn is_fine(self) -> bool {
        matches!(self, Self::Fine | Self::Full)
    }

    /// Whether a recording of the stage set `recorded` has these stages.
    pub const fn is_within(self, recorded: Self) -> bool {
        self as usize <= recorded as usize
    }

    /// The stage with this name.
    pub fn named(self, name: &str) -> Option<&'static Stage> {
        self.stages().iter().find(|stage| stage.name == name)
    }

    /// The stage that a stage of a finer set, which begins at this point, is a part of: the first one
    /// has what comes before it, too.
    pub fn stage_at(self, from: Point) -> Option<&'static Stage> {
        let stages = self.stages();
        let before = stages.iter().rev().find(|stage| stage.from <= from);
        before.or_else(|| stages.first())
    }

    /// Whether the stage set uses this point.
    pub const fn has_point(self, point: Point) -> bool {
        let mut n = 0;
        while n <= self.stages().len() {
            if self.point(n) as usize == point as usize {
                return true;
            }
            n += 1;
        }
        false
    }

    /// The point at which the last stage ends.
    pub const fn last_point(self) -> Point {
        match self {
            Self::Total | Self::Basic => Point::Complete,
            Self::Fine | Self::Full => Point::End,
        }
    }

    /// Number of histograms in a cell: the stages and the total (`ND_STAGES_*` of
    /// bpf/include/abi.h).
    pub const fn histograms(self) -> usize {
        match self {
            Self::Total => 1,
            Self::Basic | Self::Fine | Self::Full => self.stages().len() + 1,
        }
    }

    /// Index of the total in a cell.
    pub const fn total_index(self) -> usize {
        self.histograms() - 1
    }

    /// Point `index` of the stage set: where stage `index` begins, and the one before it ends.
    const fn point(self, index: usize) -> Point {
        let stages = self.stages();
        if index < stages.len() {
            stages[index].from
        } else {
            self.last_point()
        }
    }

    /// The point at which stage `index` ends.
    pub const fn end_of(self, index: usize) -> Point {
        self.point(index + 1)
    }

    /// The name of a run: its stages joined by `+`.
    pub fn run_name(self, run: Run) -> String {
        let names: Vec<_> = self.stages()[run.first..=run.last]
            .iter()
            .map(|s| s.name)
            .collect();
        names.join("+")
    }

    /// The stages of a command with this pattern, from its first observed point to its last. A
    /// command without a start has no queue stage. Empty if fewer than two points of the stage set
    /// were observed.
    pub fn runs(self, pattern: Pattern) -> Vec<Run> {
        let count = self.stages().len();
        let mut runs = Vec::with_capacity(count);
        let mut begin = None;
        for index in (0..=count).filter(|&n| self.point(n).seen_in(pattern)) {
            if let Some(first) = begin.replace(index) {
                let last = index - 1;
                runs.push(Run { first, last });
            }
        }
        runs
    }

    /// The bits that a pattern can have in this stage set: those of its points, [`NO_SETUP`] and
    /// [`NO_COMPLETE`].
    pub const fn pattern_bits(self) -> Pattern {
        // each command of a report asks
        const BITS: [Pattern; 4] = [
            StageSet::Total.bits_of_points(),
            StageSet::Basic.bits_of_points(),
            StageSet::Fine.bits_of_points(),
            StageSet::Full.bits_of_points(),
        ];
        BITS[self as usize]
    }

    const fn bits_of_points(self) -> Pattern {
        let mut bits = NO_SETUP | NO_COMPLETE;
        let mut n = 0;
        while n < Point::ALL.len() {
            let point = Point::ALL[n];
            if let (Some(bit), true) = (point.pattern_bit(), self.has_point(point)) {
                bits |= bit;
            }
            n += 1;
        }
        bits
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::point::ALL_POINTS;

    const FULL: Pattern = 0x7f;

    fn names(stage_set: StageSet, missing: &[Point]) -> Vec<String> {
        let pattern = missing
            .iter()
            .filter_map(|m| m.pattern_bit())
            .fold(FULL, |pattern, bit| pattern & !bit);
        stage_set
            .runs(pattern)
            .into_iter()
            .map(|r| stage_set.run_name(r))
            .collect()
    }

    #[test]
    fn a_command_seen_everywhere_has_every_stage() {
        assert_eq!(
            names(StageSet::Basic, &[]),
            ["queue", "submit", "device", "complete"]
        );
        assert_eq!(
            names(StageSet::Fine, &[]),
            [
                "queue", "setup", "map", "submit", "device", "irq", "complete", "end"
            ]
        );
        assert_eq!(names(StageSet::Total, &[]), ["total"]);
    }

    #[test]
    fn a_missing_boundary_joins_the_stages_around_it() {
        use Point::*;
        assert_eq!(
            names(StageSet::Basic, &[Doorbell]),
            ["queue", "submit+device", "complete"]
        );
        assert_eq!(
            names(StageSet::Basic, &[Doorbell, Cqe]),
            ["queue", "submit+device+complete"]
        );
        assert_eq!(
            names(StageSet::Fine, &[Irq]),
            [
                "queue",
                "setup",
                "map",
                "submit",
                "device+irq",
                "complete",
                "end"
            ]
        );
        assert_eq!(
            names(StageSet::Fine, &[SetupIn, Doorbell, Irq, Cqe]),
            ["queue+setup", "map", "submit+device+irq+complete", "end"]
        );
    }

    #[test]
    fn a_missing_first_or_last_point_leaves_its_stage_out() {
        use Point::*;
        assert_eq!(
            names(StageSet::Basic, &[Start]),
            ["submit", "device", "complete"]
        );
        assert_eq!(
            names(StageSet::Fine, &[Start, SetupIn, End]),
            ["map", "submit", "device", "irq", "complete"]
        );
    }

    #[test]
    fn a_command_whose_setup_or_completion_was_not_observed_keeps_what_was() {
        let names = |stage_set: StageSet, pattern: Pattern| -> Vec<String> {
            let runs = stage_set.runs(pattern).into_iter();
            runs.map(|r| stage_set.run_name(r)).collect()
        };
        let basic = 0b010_1001;
        assert_eq!(
            names(StageSet::Basic, basic | NO_COMPLETE),
            ["queue", "submit", "device"]
        );
        assert_eq!(names(StageSet::Basic, 0b010_0000 | NO_SETUP), ["complete"]);
        assert_eq!(
            names(StageSet::Fine, 0b110_0000 | NO_SETUP),
            ["complete", "end"]
        );
        assert_eq!(
            names(StageSet::Fine, 0b111_1111 | NO_COMPLETE)[5..],
            ["irq", "complete+end"]
        );
        for (stage_set, pattern) in [
            (StageSet::Total, NO_SETUP),
            (StageSet::Total, NO_COMPLETE),
            (StageSet::Basic, NO_SETUP),
            (StageSet::Basic, 0b010_0000 | NO_SETUP | NO_COMPLETE),
        ] {
            assert!(
                stage_set.runs(pattern).is_empty(),
                "{stage_set:?} {pattern:#x}"
            );
        }
    }

    #[test]
    fn the_runs_of_any_pattern_are_neighbours_without_gap_or_overlap() {
        for stage_set in [StageSet::Basic, StageSet::Fine, StageSet::Full] {
            for pattern in 0..=ALL_POINTS {
                let runs = stage_set.runs(pattern);
                for pair in runs.windows(2) {
                    assert_eq!(
                        pair[0].last + 1,
                        pair[1].first,
                        "{stage_set:?} {pattern:#x}"
                    );
                }
                assert!(
                    runs.last()
                        .is_none_or(|r| r.last < stage_set.stages().len())
                );
            }
        }
    }
}
