// SPDX-License-Identifier: MIT OR Apache-2.0
//! Stages: the intervals between neighbouring points of a stage set. If a point was not observed,
//! the two stages around it are merged, under a joined name (`submit+device`).
//!
//! Stages form groups, in this order: `before` (the request), `queue`, `submit`, `device`,
//! `complete`, `end`. [`StageSet::Basic`] divides a life into groups, [`StageSet::Fine`] and
//! [`StageSet::Full`] into their parts. A name means the same interval in every set.

use clap::ValueEnum;
use serde::{Deserialize, Serialize};

use super::point::{NO_COMPLETE, NO_SETUP, Pattern, Point};

/// The sets of stages that a command's life can be divided into. Each covers the whole life, as far
/// as it was observed: they differ in how finely they divide it, and in what a live run observes for
/// them ([`StageSet::has_point`]).
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
    /// no stages: only `driver`, from the driver's setup of the command to its completion
    #[default]
    #[value(name = "none")]
    #[serde(rename = "none", alias = "total")]
    Total,
    /// queue, submit, device, complete
    Basic,
    /// the parts of these stages: queue.wait, queue.setup, submit.map, submit.ring, device.run, device.irq; and end
    Fine,
    /// fine, plus the waits before the request: throttle, block, freeze, zone, iocost, wbt, tag
    Full,
    /// In a target: host_submit, backend, host_complete.
    #[value(skip)]
    Host,
    /// On both sides: a driver's command, and what its target does with it in between.
    #[value(skip)]
    #[serde(skip)]
    Join,
}

/// One stage of a stage set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stage {
    /// The name in reports.
    pub name: &'static str,
    /// The group that it is a part of, or is.
    pub group: &'static str,
    /// The point at which it begins. It ends where the next stage begins.
    pub from: Point,
}

const fn part(group: &'static str, name: &'static str, from: Point) -> Stage {
    Stage { name, group, from }
}

const fn group(name: &'static str, from: Point) -> Stage {
    part(name, name, from)
}

const TOTAL: [Stage; 1] = [group("driver", Point::SetupOut)];

const BEFORE: Stage = group("before", Point::Submit);
const COMPLETE: Stage = group("complete", Point::Cqe);
const END: Stage = group("end", Point::Complete);

/// The points of a command in a target are of the same kind: the target has the command (`fetch`), passes it
/// to its storage (`backend_submit`), has its answer (`backend_done`), and answers itself (`post`).
const HOST: [Stage; 3] = [
    group("host_submit", Point::Start),
    group("backend", Point::Issue),
    group("host_complete", Point::Cqe),
];

/// A command on both sides, on the driver's clock. The points have other meanings
/// ([`StageSet::name_of_point`]).
const JOIN: [Stage; 7] = [
    group("guest_submit", Point::Start),
    group("to_host", Point::SetupIn),
    group("host_submit", Point::Issue),
    group("backend", Point::Doorbell),
    group("host_complete", Point::Irq),
    group("to_guest", Point::Cqe),
    group("guest_complete", Point::Complete),
];

const BASIC: [Stage; 6] = [
    BEFORE,
    group("queue", Point::Start),
    group("submit", Point::SetupOut),
    group("device", Point::Doorbell),
    COMPLETE,
    END,
];

const FINE: [Stage; 9] = [
    BEFORE,
    part("queue", "queue.wait", Point::Start),
    part("queue", "queue.setup", Point::SetupIn),
    part("submit", "submit.map", Point::SetupOut),
    part("submit", "submit.ring", Point::Issue),
    part("device", "device.run", Point::Doorbell),
    part("device", "device.irq", Point::Irq),
    COMPLETE,
    END,
];

/// The parts of `before`, and the rest of [`FINE`].
const FULL: [Stage; WAITS.len() + FINE.len() - 1] = {
    let mut all = [WAITS[0]; WAITS.len() + FINE.len() - 1];
    let mut n = 0;
    while n < all.len() {
        all[n] = if n < WAITS.len() { WAITS[n] } else { FINE[n - WAITS.len() + 1] };
        n += 1;
    }
    all
};

/// The parts of `before`. `block` is the time in which no wait was measured.
const WAITS: [Stage; 7] = [
    part("before", "throttle", Point::Submit),
    part("before", "block", Point::Bio),
    part("before", "freeze", Point::Freeze),
    part("before", "zone", Point::Zone),
    part("before", "iocost", Point::Iocost),
    part("before", "wbt", Point::Wbt),
    part("before", "tag", Point::Tag),
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

    /// Its stages.
    pub fn stages(self) -> &'static [Stage] {
        self.stage_set.stages().get(self.first..=self.last).unwrap_or_default()
    }

    /// The name of its only stage; `None` for merged stages.
    pub fn single(self) -> Option<&'static str> {
        match self.stages() {
            [only] => Some(only.name),
            _ => None,
        }
    }

    /// The group that has all of its stages; `None` if they are of several groups.
    pub fn group(self) -> Option<&'static str> {
        let [first, .., last] = self.stages() else {
            return self.stages().first().map(|only| only.group);
        };
        (first.group == last.group).then_some(first.group)
    }

    /// The name: its stages joined by `+`. All parts of a group have the name of the group.
    pub fn name(self) -> String {
        let name = self.stage_set.name_of(self.stages());
        // a flush has no start: only a part of its queue is known
        let known = FINE.iter().find(|part| part.from == self.from);
        match known.and_then(|part| Some((part.name, name.strip_prefix(part.group)?))) {
            Some((part, rest)) if self.stage_set.point(self.first) != self.from => {
                format!("{part}{rest}")
            }
            _ => name,
        }
    }

    /// The points within it, which were not observed.
    pub fn unobserved(self) -> impl Iterator<Item = Point> {
        self.stages().iter().skip(1).map(|stage| stage.from)
    }
}

impl StageSet {
    /// The stages in order; for [`StageSet::Total`], `driver`.
    pub const fn stages(self) -> &'static [Stage] {
        match self {
            Self::Total => &TOTAL,
            Self::Basic => &BASIC,
            Self::Fine => &FINE,
            Self::Full => &FULL,
            Self::Host => &HOST,
            Self::Join => &JOIN,
        }
    }

    /// The name, as in the option `--stages`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Total => "none",
            Self::Basic => "basic",
            Self::Fine => "fine",
            Self::Full => "full",
            Self::Host => "host",
            Self::Join => "join",
        }
    }

    /// Number of stages before the request.
    pub const fn before(self) -> usize {
        match self {
            Self::Full => WAITS.len(),
            Self::Basic | Self::Fine => 1,
            Self::Total | Self::Host | Self::Join => 0,
        }
    }

    /// What the interval of a whole command is called: `driver` without stages, else `total`.
    pub const fn whole(self) -> &'static str {
        match self {
            Self::Total => "driver",
            _ => "total",
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

    /// The name of these stages, joined by `+`. All parts of a group have the name of the group.
    pub fn name_of(self, stages: &[Stage]) -> String {
        let all = self.stages();
        let mut names: Vec<&str> = Vec::new();
        for parts in stages.chunk_by(|a, b| a.group == b.group) {
            let group = parts[0].group;
            if parts.len() == all.iter().filter(|stage| stage.group == group).count() {
                names.push(group);
            } else {
                names.extend(parts.iter().map(|part| part.name));
            }
        }
        names.join("+")
    }

    /// The name of a point; `None` for one that commands in a target do not have.
    pub const fn name_of_point(self, point: Point) -> Option<&'static str> {
        match (self, point) {
            (Self::Host, Point::Start) => Some("fetch"),
            (Self::Host, Point::Issue) => Some("backend_submit"),
            (Self::Host, Point::Cqe) => Some("backend_done"),
            (Self::Host, Point::End) => Some("post"),
            (Self::Join, Point::Start) => Some("begin"),
            (Self::Join, Point::SetupIn) => Some("submitted"),
            (Self::Join, Point::Issue) => Some("fetch"),
            (Self::Join, Point::Doorbell) => Some("backend_submit"),
            (Self::Join, Point::Irq) => Some("backend_done"),
            (Self::Join, Point::Cqe) => Some("post"),
            (Self::Join, Point::Complete) => Some("answered"),
            (Self::Join, Point::End) => Some("end"),
            (Self::Host | Self::Join, _) => None,
            _ => Some(point.name()),
        }
    }

    /// The stage with this name.
    pub fn named(self, name: &str) -> Option<&'static Stage> {
        self.stages().iter().find(|stage| stage.name == name)
    }

    /// Whether a live run with this stage set observes the point.
    pub const fn has_point(self, point: Point) -> bool {
        matches!(
            (self, point),
            (Self::Full, _)
                | (_, Point::SetupOut | Point::Complete)
                | (Self::Basic | Self::Fine, Point::Start | Point::Doorbell | Point::Cqe)
                | (Self::Fine, Point::SetupIn | Point::Issue | Point::Irq | Point::End)
        )
    }

    /// The points that a live run with this stage set observes, as bits of a pattern.
    pub fn observed(self) -> Pattern {
        let points = Point::ALL.iter().filter(|p| self.has_point(**p));
        points.filter_map(|p| p.pattern_bit()).fold(NO_SETUP | NO_COMPLETE, |all, bit| all | bit)
    }

    /// The first and the last point that a live run with this stage set observes of most commands.
    pub const fn span(self) -> (Point, Point) {
        match self {
            Self::Total => (Point::SetupOut, Point::Complete),
            Self::Basic => (Point::Start, Point::Complete),
            Self::Fine => (Point::Start, Point::End),
            Self::Full => (Point::Bio, Point::End),
            Self::Host | Self::Join => (Point::Start, Point::End),
        }
    }

    /// The point at which the last stage ends.
    pub const fn last_point(self) -> Point {
        match self {
            Self::Total => Point::Complete,
            _ => Point::End,
        }
    }

    /// Number of histograms in a cell: the stages and the total.
    pub const fn histograms(self) -> usize {
        match self {
            Self::Total => 1,
            _ => self.stages().len() + 1,
        }
    }

    /// Number of histograms in a cell of the BPF side, which has only the stages that it observes and
    /// the total (`ND_STAGES_*` of bpf/include/abi.h).
    pub const fn measured(self) -> usize {
        match self {
            Self::Total => 1,
            Self::Basic => 5,
            Self::Fine => 9,
            Self::Full => FULL.len() + 1,
            Self::Host | Self::Join => self.histograms(),
        }
    }

    /// Where histogram `n` of a cell of the BPF side is in a cell of this stage set. With full stages
    /// the bits of the fine stages and of the total come first there.
    pub const fn place(self, n: usize) -> usize {
        let total = match self {
            Self::Full => Self::Fine.measured() - 1,
            _ => self.measured() - 1,
        };
        if n > total {
            n - total - 1
        } else if n == total {
            self.total_index()
        } else {
            n + self.before()
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

    /// Where the first group of a command begins if its first part was not observed: the limits of
    /// cgroups, the request of a flush, or programs that the kernel skipped.
    const fn second(self, index: usize) -> Option<Point> {
        match (self, index) {
            (Self::Basic | Self::Fine, 0) => Some(Point::Bio),
            (Self::Basic, 1) => Some(Point::SetupIn),
            (Self::Basic, 2) => Some(Point::Issue),
            (Self::Basic, 3) => Some(Point::Irq),
            _ => None,
        }
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
        let points = self.stages().len() + 1;
        (0..points).filter_map(move |index| {
            let mut to = self.point(index);
            if !to.seen_in(pattern) {
                if begin.is_some() {
                    return None;
                }
                to = self.second(index).filter(|p| p.seen_in(pattern))?;
            }
            let (first, from) = begin.replace((index, to))?;
            Some(StageRun { stage_set: self, first, last: index - 1, from, to })
        })
    }

    /// The bits of a pattern that matter in this stage set: the points at which its stages begin
    /// and end, [`NO_SETUP`] and [`NO_COMPLETE`].
    pub const fn pattern_bits(self) -> Pattern {
        // each command of a report asks
        const BITS: [Pattern; 6] = [
            StageSet::Total.bits_of_points(),
            StageSet::Basic.bits_of_points(),
            StageSet::Fine.bits_of_points(),
            StageSet::Full.bits_of_points(),
            StageSet::Host.bits_of_points(),
            StageSet::Join.bits_of_points(),
        ];
        BITS[self as usize]
    }

    const fn bits_of_points(self) -> Pattern {
        let mut bits = NO_SETUP | NO_COMPLETE;
        let mut n = 0;
        while n <= self.stages().len() {
            if let Some(second) = self.second(n)
                && let Some(bit) = second.pattern_bit()
            {
                bits |= bit;
            }
            if let Some(bit) = self.point(n).pattern_bit() {
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
