// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the stages of commands are, worked out once for each pattern of points that they were seen
//! at: it takes longer to find a command's stages than to write them down, and few patterns occur.

use super::line::Line;
use crate::model::milestone::ALL_POINTS;
use crate::model::milestone::Milestone;
use crate::model::stage::StageSet;
use crate::model::timeline::Timeline;

/// How many patterns there are.
const PATTERNS: usize = ALL_POINTS as usize + 1;

/// No label is longer: that of all the stages in one, as JSON has it, is the longest.
const LABEL: usize = 64;

/// How to write the name of a stage or a point, with all that is before the number.
type Label = fn(&str) -> String;

/// The stages of all patterns that were met.
#[derive(Debug)]
pub(super) struct Stages {
    stage_set: StageSet,
    stage: Label,
    point: Label,
    met: Vec<Option<Shape>>,
}

/// What commands of a pattern look like.
#[derive(Debug)]
pub(super) struct Shape {
    /// The stages in order. Each begins where the one before ends.
    pub(super) stages: Vec<Step>,
    /// Where the first one begins.
    pub(super) from: Milestone,
    /// Together they are what `lat` is, and no total is to be shown.
    pub(super) is_lat: bool,
    /// The points in order.
    pub(super) points: Vec<Step>,
}

/// A stage by the point that it ends at, or a point.
#[derive(Debug)]
pub(super) struct Step {
    /// In the pattern.
    pub(super) at: Milestone,
    label: [u8; LABEL],
    len: usize,
}

impl Step {
    fn new(at: Milestone, text: &str) -> Self {
        let mut label = [0; LABEL];
        let len = text.len().min(LABEL);
        label[..len].copy_from_slice(&text.as_bytes()[..len]);
        Self { at, label, len }
    }

    /// All that is before the number.
    #[inline(always)]
    pub(super) fn label(&self, line: &mut Line) {
        line.first(self.label, self.len);
    }
}

impl Stages {
    pub(super) fn new(stage_set: StageSet, stage: Label, point: Label) -> Self {
        Self {
            stage_set,
            stage,
            point,
            met: (0..PATTERNS).map(|_| None).collect(),
        }
    }

    pub(super) fn stage_set(&self) -> StageSet {
        self.stage_set
    }

    /// What this command looks like.
    #[inline]
    pub(super) fn of(&mut self, timeline: &Timeline) -> Option<&Shape> {
        let shape = self
            .met
            .get_mut(usize::from(timeline.pattern()) % PATTERNS)?;
        if shape.is_none() {
            *shape = Shape::new(timeline.pattern(), self.stage_set, self.stage, self.point);
        }
        shape.as_ref()
    }
}

impl Shape {
    #[cold]
    fn new(pattern: u16, stage_set: StageSet, stage: Label, point: Label) -> Option<Self> {
        let runs = stage_set.runs(pattern);
        // a command of which no interval was observed has no stages
        let from = runs.first().map_or(0, |run| run.first);
        let from = stage_set.stages().get(from)?.from;
        let to = runs.last().map(|run| stage_set.end_of(run.last));
        let stages = runs.iter().map(|&run| {
            let name = stage_set.run_name(run);
            Step::new(stage_set.end_of(run.last), &stage(&name))
        });
        let points = Milestone::ALL.into_iter().filter(|p| p.seen_in(pattern));
        Some(Self {
            stages: stages.collect(),
            from,
            is_lat: (from, to) == (Milestone::SetupOut, Some(Milestone::Complete)),
            points: points.map(|at| Step::new(at, &point(at.name()))).collect(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_step_is_of_the_pattern_and_its_label_is_whole() {
        let label: Label = |name| format!("{{\"name\":\"{name}\",\"ns\":");
        for (stage_set, pattern) in [StageSet::Basic, StageSet::Fine]
            .into_iter()
            .flat_map(|stage_set| (0..=ALL_POINTS).map(move |pattern| (stage_set, pattern)))
        {
            let shape = Shape::new(pattern, stage_set, label, label).unwrap();
            assert!(shape.stages.is_empty() || shape.from.seen_in(pattern));
            let names = stage_set
                .runs(pattern)
                .into_iter()
                .map(|run| stage_set.run_name(run));
            let points = Milestone::ALL.into_iter().filter(|p| p.seen_in(pattern));
            let names = names.chain(points.map(|p| p.name().to_owned()));
            let steps: Vec<&Step> = shape.stages.iter().chain(&shape.points).collect();
            assert!(steps.iter().all(|step| step.at.seen_in(pattern)));
            let labels = steps.iter().map(|step| &step.label[..step.len]);
            assert!(labels.eq(names.map(|name| label(&name).into_bytes())));
        }
    }
}
