// SPDX-License-Identifier: MIT OR Apache-2.0
//! Stages: the intervals between neighbouring points of a stage set. If a point was not observed,
//! the two stages around it are merged, under a joined name (`submit+device`).

use clap::ValueEnum;
use serde::{Deserialize, Serialize};

use super::point::{NO_COMPLETE, NO_SETUP, Pattern, Point};

/// The sets of stages that a command's life can be divided into.
#[derive(
    Clone,
    Copy,
    Debug,
    Default,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    Serialize,
    Deserialize,
    ValueEnum,
)]
#[serde(rename_all = "snake_case")]
pub enum StageSet {
    /// only the latency from setup_out to complete
    #[default]
    #[value(name = "none")]
    Total,
    /// queue, submit, device, complete
    Basic,
    /// queue, setup, map, submit, device, irq, complete, end
    Fine,
    /// the same, and before them throttle, block, freeze, zone, iocost, wbt, tag
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
        all[n] = if n < BEFORE.len() { BEFORE[n] } else { FINE[n - BEFORE.len()] };
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
pub struct StageRun {
    /// The stage set.
    pub stage_set: StageSet,
    /// Index of the first stage in [`StageSet::stages`].
    pub first: usize,
    /// Index of the last stage.
    pub last: usize,
    /// The point at which it begins.
    pub from: Point,
    /// The point at which it ends.
    pub to: Point,
}

impl StageRun {
    /// From here to the end of another run of the same stage set.
    #[must_use]
    pub const fn through(self, end: Self) -> Self {
        Self { last: end.last, to: end.to, ..self }
    }

    fn stages(self) -> &'static [Stage] {
        self.stage_set.stages().get(self.first..=self.last).unwrap_or_default()
    }

    /// The name of its only stage; `None` for merged stages.
    pub fn single(self) -> Option<&'static str> {
        match self.stages() {
            [only] => Some(only.name),
            _ => None,
        }
    }

    /// The name: its stages joined by `+`.
    pub fn name(self) -> String {
        self.stages().iter().map(|s| s.name).collect::<Vec<_>>().join("+")
    }
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
        if index < stages.len() { stages[index].from } else { self.last_point() }
    }

    /// A run by its first and last stage.
    pub const fn run(self, first: usize, last: usize) -> StageRun {
        StageRun { stage_set: self, first, last, from: self.point(first), to: self.point(last + 1) }
    }

    /// The run with this [name](StageRun::name).
    pub fn run_named(self, name: &str) -> Option<StageRun> {
        let count = self.stages().len();
        let mut runs = (0..count).flat_map(|first| (first..count).map(move |n| self.run(first, n)));
        runs.find(|run| run.name() == name)
    }

    /// The stages of a command with this pattern, from its first observed point to its last. A
    /// command without a start has no queue stage. Empty if fewer than two points of the stage set
    /// were observed.
    pub fn runs(self, pattern: Pattern) -> Vec<StageRun> {
        self.each_run(pattern).collect()
    }

    /// The same without memory: a recording asks for each command.
    #[inline]
    pub(super) fn each_run(self, pattern: Pattern) -> impl Iterator<Item = StageRun> {
        let mut begin = None;
        (0..=self.stages().len()).filter_map(move |index| {
            let to = self.point(index);
            if !to.seen_in(pattern) {
                return None;
            }
            let (first, from) = begin.replace((index, to))?;
            Some(StageRun { stage_set: self, first, last: index - 1, from, to })
        })
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
#[path = "stage_tests.rs"]
mod tests;
