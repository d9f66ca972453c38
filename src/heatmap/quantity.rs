// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a heat map shows of each command.

use crate::model::event::{CommandId, Event, Submission};
use crate::model::finished::Finished;
use crate::model::point::Point;
use crate::model::stage::{Run, StageSet};
use crate::nvme::decode::{CommandSet, blocks};

use super::grid::Scale;

/// An interval of a command's life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Interval {
    /// The stage set.
    pub stage_set: StageSet,
    /// Its stages; `None`: the total.
    pub run: Option<Run>,
}

/// Why a text is not the name of an interval.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{name}` is not a stage: give total, queue, submit, device or complete; of the fine stages \
     setup, map, irq, end, or fine:queue, fine:submit, fine:device, fine:complete; before the request \
     throttle, block, freeze, zone, iocost, wbt, tag; or neighbouring stages joined by +, as in submit+device"
)]
pub struct UnknownStage {
    name: String,
}

impl Interval {
    /// The total, from the end of the set-up to the completion.
    pub const TOTAL: Self = Self { stage_set: StageSet::Total, run: None };

    fn named(stage_set: StageSet, name: &str) -> Option<Self> {
        let run = Some(stage_set.run_named(name)?);
        Some(Self { stage_set, run })
    }

    /// By name: `total`, a stage, or neighbouring stages joined by `+`. A name of several stage sets
    /// is that of the first: basic, fine, full. `basic:`, `fine:` or `full:` before the name chooses the set.
    ///
    /// # Errors
    /// If there is no such stage.
    pub fn parse(name: &str) -> Result<Self, UnknownStage> {
        if name == "total" {
            return Ok(Self::TOTAL);
        }
        let found = match name.split_once(':') {
            Some(("fine", stage)) => Self::named(StageSet::Fine, stage),
            Some(("basic", stage)) => Self::named(StageSet::Basic, stage),
            Some(("full", stage)) => Self::named(StageSet::Full, stage),
            Some(_) => None,
            None => [StageSet::Basic, StageSet::Fine, StageSet::Full]
                .into_iter()
                .find_map(|stage_set| Self::named(stage_set, name)),
        };
        found.ok_or_else(|| UnknownStage { name: name.into() })
    }

    /// The name, as in reports.
    #[must_use]
    pub fn name(&self) -> String {
        self.run.map_or_else(|| "total".into(), Run::name)
    }

    /// The points at which it begins and ends.
    #[must_use]
    pub fn points(&self) -> (Point, Point) {
        self.run.map_or((Point::SetupOut, Point::Complete), |run| (run.from, run.to))
    }

    /// Its duration in a finished command, in nanoseconds; `None` if it was not observed as such.
    #[must_use]
    pub fn of(&self, command: &Finished<'_>) -> Option<u64> {
        let intervals = command.intervals(self.stage_set);
        let Some(run) = self.run else {
            return intervals.total.map(|total| total.ns);
        };
        let inside = |stage: Run| run.first <= stage.first && stage.last <= run.last;
        let parts: Vec<_> = intervals.stages.iter().filter(|stage| inside(stage.run)).collect();
        let whole = parts.first()?.run.through(parts.last()?.run);
        (whole == run).then(|| parts.iter().map(|part| part.ns).sum())
    }
}

/// What the vertical axis of a heat map shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Quantity {
    /// The duration of an interval, at the completion.
    Latency(Interval),
    /// The first logical block, at the submission.
    Lba,
    /// Bytes of data, at the submission.
    Size,
    /// Commands in flight, at the submission of one more, which counts.
    Depth,
}

/// The logical block that a command begins with.
#[must_use]
pub fn first_block(id: &CommandId, set: CommandSet, submission: &Submission) -> Option<u64> {
    blocks(id.opcode.queue, set, &submission.sqe).map(|blocks| blocks.slba)
}

impl Quantity {
    /// The scale of the axis.
    #[must_use]
    pub const fn scale(&self) -> Scale {
        match self {
            Self::Latency(_) | Self::Size => Scale::Log,
            Self::Lba | Self::Depth => Scale::Linear,
        }
    }

    /// Time (CLOCK_MONOTONIC, nanoseconds) and value of a finished command. `None`: the value is not
    /// known, or the command has none. [`Quantity::Depth`] needs more than one command, and is
    /// always `None`.
    #[must_use]
    pub fn of(&self, event: &Event, command: &Finished<'_>, set: CommandSet) -> Option<(u64, u64)> {
        let submitted = || Some(event.at_ns.saturating_sub(command.latency_ns?));
        let submission = command.submission;
        match self {
            Self::Latency(interval) => Some((event.at_ns, interval.of(command)?)),
            Self::Lba => Some((submitted()?, first_block(command.id, set, submission?)?)),
            Self::Size => {
                let bytes = submission?.bytes.filter(|bytes| *bytes > 0)?;
                Some((submitted()?, bytes.into()))
            }
            Self::Depth => None,
        }
    }

    /// Why a command is not in the picture.
    #[must_use]
    pub fn missing(&self) -> String {
        match self {
            Self::Latency(Interval::TOTAL) => "without a known latency".into(),
            Self::Latency(interval) => {
                format!("whose {} stage was not observed by itself", interval.name())
            }
            Self::Lba => "without a start LBA, or with an unknown set-up".into(),
            Self::Size => "without data, or with an unknown set-up".into(),
            Self::Depth => "with an unknown set-up".into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stages_have_the_names_of_reports() {
        let of = |name: &str| {
            let interval = Interval::parse(name).unwrap();
            let (from, to) = interval.points();
            (interval.stage_set, from.name(), to.name())
        };
        assert_eq!(of("total"), (StageSet::Total, "setup_out", "complete"));
        assert_eq!(of("device"), (StageSet::Basic, "doorbell", "cqe"));
        assert_eq!(of("fine:device"), (StageSet::Fine, "doorbell", "irq"));
        assert_eq!(of("irq"), (StageSet::Fine, "irq", "cqe"));
        assert_eq!(of("throttle"), (StageSet::Full, "bio_submit", "bio_queue"));
        assert_eq!(of("tag"), (StageSet::Full, "tag", "start"));
        assert_eq!(of("full:device"), (StageSet::Full, "doorbell", "irq"));
        assert_eq!(of("wbt+tag+queue"), (StageSet::Full, "wbt", "setup_in"));
        assert_eq!(of("submit+device"), (StageSet::Basic, "setup_out", "cqe"));
        for wrong in ["", "devic", "fine:", "coarse:device", "queue+device", "basic:irq"] {
            assert!(Interval::parse(wrong).is_err(), "{wrong}");
        }
    }
}
