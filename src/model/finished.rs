// SPDX-License-Identifier: MIT OR Apache-2.0
//! A command that is over, and the intervals that were measured of it.

use super::event::{CommandId, Event, EventKind, Submission};
use super::point::{NO_COMPLETE, NO_SETUP, Pattern, Point};
use super::stage::{StageRun, StageSet};
use super::timeline::{Segment, Timeline};

/// A finished command.
#[derive(Clone, Copy, Debug)]
pub struct Finished<'e> {
    /// The command.
    pub id: &'e CommandId,
    /// Its parameters and submitter.
    pub submission: Option<&'e Submission>,
    /// From the end of the setup to the completion, in nanoseconds, if both were observed.
    pub latency_ns: Option<u64>,
    timeline: Option<&'e Timeline>,
    /// The points that count.
    points: Pattern,
    is_complete: bool,
}

/// The intervals of a command in a stage set.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Intervals {
    /// The stages, in order. None with [`StageSet::Total`], and if no points were recorded.
    pub stages: Vec<Segment>,
    /// The total; `None` if it was not measured.
    pub total: Option<Segment>,
}

/// The stages that the latency covers: from setup_out to complete.
fn latency_run(stage_set: StageSet) -> StageRun {
    let stages = stage_set.stages();
    let begin = stages.iter().position(|s| s.from == Point::SetupOut);
    let all = (0..stages.len()).map(|n| stage_set.run(n, n));
    let end = all.rev().find(|run| run.to == Point::Complete);
    let last = end.map_or(stages.len() - 1, |run| run.last);
    stage_set.run(begin.unwrap_or(0), last)
}

impl<'e> Finished<'e> {
    /// The finished command of an event; `None` for other events.
    // inlined, LLVM copies the event bit by bit: 1300 instructions more
    #[inline(never)]
    pub const fn of(event: &'e Event) -> Option<Self> {
        Some(match &event.what {
            EventKind::Command(id, submission, end) => Self {
                id,
                submission: Some(submission),
                latency_ns: end.latency_ns,
                timeline: end.timeline.as_ref(),
                points: Pattern::MAX,
                is_complete: true,
            },
            EventKind::Missed { id, submission, timeline, .. } => Self {
                id,
                submission: submission.as_ref(),
                latency_ns: None,
                timeline: timeline.as_ref(),
                points: Pattern::MAX,
                is_complete: false,
            },
            _ => return None,
        })
    }

    /// The observed points, if the recording has them.
    pub const fn timeline(&self) -> Option<&'e Timeline> {
        self.timeline
    }

    /// As a run with this stage set would have observed it.
    #[must_use]
    pub fn observed_by(self, stage_set: StageSet) -> Self {
        Self { points: stage_set.observed(), ..self }
    }

    /// The points, for a stage set that has more than the total.
    fn line(&self, stage_set: StageSet) -> Option<&'e Timeline> {
        self.timeline.filter(|_| stage_set != StageSet::Total)
    }

    /// The pattern of its observed points, as far as they are in this stage set.
    pub fn pattern(&self, stage_set: StageSet) -> Pattern {
        if let Some(line) = self.line(stage_set) {
            return line.pattern() & stage_set.pattern_bits() & self.points;
        }
        match (self.is_complete, self.latency_ns) {
            (true, Some(_)) => 0,
            (true, None) => NO_SETUP,
            (false, _) => NO_COMPLETE,
        }
    }

    /// Its intervals in this stage set.
    pub fn intervals(&self, stage_set: StageSet) -> Intervals {
        let Some(line) = self.line(stage_set) else {
            let run = latency_run(stage_set);
            return Intervals {
                stages: Vec::new(),
                total: self.latency_ns.map(|ns| Segment { run, ns }),
            };
        };
        let line = line.with_pattern(self.pattern(stage_set));
        let stages = line.segments(stage_set).unwrap_or_default();
        let ends = stages.first().zip(stages.last());
        let total = ends.map(|(first, last)| Segment {
            run: first.run.through(last.run),
            ns: stages.iter().map(|s| s.ns).sum(),
        });
        Intervals { stages, total }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_latency_is_a_run_of_stages() {
        let names =
            [StageSet::Total, StageSet::Basic, StageSet::Fine].map(|set| latency_run(set).name());
        let of_driver = "submit+device+complete";
        assert_eq!(names, ["driver", of_driver, of_driver]);
    }
}
