// SPDX-License-Identifier: MIT OR Apache-2.0
//! Commands as questions to the harness.

use nvme_deep::model::point::Point;
use nvme_deep::model::point::Point::*;
use nvme_deep::model::stage::StageSet;

use super::{Random, numbers};

/// A row key without a pattern.
pub const KEY: u64 = 1 << 53 | 3 << 45 | 7 << 22 | 2 << 14 | 1 << 11;

/// How a command ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// blk-mq ends it.
    Ended,
    /// It completed, and blk-mq requeued it: `finish_partial(s, cpu, s->complete_ns, 0)`.
    Requeued,
    /// The end has no hook. The driver's completion finishes it: `finish(s, cpu, now, 0, 0)`.
    Completed,
    /// The program at the setup was skipped.
    NoSetup,
    /// The program at the completion was skipped: `finish_partial(s, cpu, 0, end)`.
    NoComplete,
    /// Both programs were skipped.
    OnlyCqe,
}

impl Way {
    fn misses(self, point: Point) -> bool {
        let setup = matches!(self, Self::NoSetup | Self::OnlyCqe) && point <= Doorbell;
        let complete = matches!(self, Self::NoComplete | Self::OnlyCqe) && point == Complete;
        setup || complete
    }
}

/// Times in the order of [`Point::ALL`].
pub type Points = [u64; Point::ALL.len()];

/// A command: its points in the order of [`Point::ALL`], zero if not observed.
#[derive(Clone, Debug)]
pub struct Case {
    pub stage_set: StageSet,
    pub way: Way,
    pub points: Points,
    pub bytes: u32,
}

impl Case {
    pub fn new(stage_set: StageSet, way: Way, mut points: Points, random: &mut Random) -> Self {
        if matches!(way, Way::Requeued | Way::Completed) {
            points[End as usize] = 0;
        }
        for point in Point::ALL.into_iter().filter(|&p| way.misses(p)) {
            points[point as usize] = 0;
        }
        let looked_at: &[Point] = match stage_set {
            StageSet::Total | StageSet::Host | StageSet::Join => &[],
            StageSet::Basic => &[Start, Doorbell, Cqe, End],
            StageSet::Fine => &[Start, SetupIn, Issue, Doorbell, Irq, Cqe, End],
            StageSet::Full => &Point::ALL,
        };
        for point in Point::ALL {
            if !matches!(point, SetupOut | Complete) && !looked_at.contains(&point) {
                points[point as usize] = 0;
            }
        }
        // a command has all points before the request, or none
        let has_before = points[..=Start as usize].iter().all(|ns| *ns != 0);
        if !has_before {
            points[..Start as usize].fill(0);
        }
        // and has room for one of both waits
        let one = if random.below(2) == 0 { Freeze } else { Iocost };
        points[Zone as usize] = points[one as usize];
        let bytes = random.next() as u32;
        Self { stage_set, way, points, bytes }
    }

    pub fn at(&self, point: Point) -> u64 {
        self.points[point as usize]
    }

    pub fn question(&self) -> String {
        let mode = match self.stage_set {
            StageSet::Total | StageSet::Host | StageSet::Join => 0,
            StageSet::Basic => 1,
            StageSet::Fine => 2,
            StageSet::Full => 3,
        };
        let (before, points) = self.points.split_at(Start as usize);
        let [p @ .., complete, end] = points else {
            unreachable!("Start is not among the last two points");
        };
        // on_complete() sets complete_ns of the slot only if the end finishes the command
        let kept = if self.way == Way::Completed { 0 } else { *complete };
        let mut words = vec![mode, u64::from(self.way == Way::Requeued)];
        words.extend(p);
        words.extend([kept, *complete, *end, KEY, self.bytes.into()]);
        words.extend(before);
        numbers("finish", &words)
    }
}
