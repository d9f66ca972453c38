// SPDX-License-Identifier: MIT OR Apache-2.0
//! Stages of commands, computed once per pattern of observed points. Finding the stages takes
//! longer than writing them, and few patterns occur.

use super::line::Line;
use crate::model::point::ALL_POINTS;
use crate::model::point::Pattern;
use crate::model::point::Point;
use crate::model::stage::StageSet;
use crate::model::timeline::Timeline;

/// Number of patterns.
const PATTERNS: usize = ALL_POINTS as usize + 1;

/// Maximum length of a label. The longest is that of all stages merged into one, in JSON.
const LABEL: usize = 64;

/// Formats the name of a stage or a point, and everything before the number.
type Label = fn(&str) -> String;

/// The stages of all patterns that have occurred.
#[derive(Debug)]
pub(super) struct Stages {
    stage_set: StageSet,
    stage: Label,
    point: Label,
    met: Vec<Option<Shape>>,
}

/// The stages and points of a pattern.
#[derive(Debug)]
pub(super) struct Shape {
    /// The stages in order. Each begins at the end of the previous one.
    pub(super) stages: Vec<Step>,
    /// The point at which the first stage begins.
    pub(super) from: Point,
    /// The stages cover the same interval as `lat`; no total is shown.
    pub(super) is_lat: bool,
    /// The points in order.
    pub(super) points: Vec<Step>,
}

/// A stage, given by the point at its end, or a point.
#[derive(Debug)]
pub(super) struct Step {
    /// A point of the pattern.
    pub(super) at: Point,
    label: [u8; LABEL],
    len: usize,
}

impl Step {
    fn new(at: Point, text: &str) -> Self {
        let mut label = [0; LABEL];
        let len = text.len().min(LABEL);
        label[..len].copy_from_slice(&text.as_bytes()[..len]);
        Self { at, label, len }
    }

    /// Writes everything before the number.
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

    /// The stages and points of this command.
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
    fn new(pattern: Pattern, stage_set: StageSet, stage: Label, point: Label) -> Option<Self> {
        let runs = stage_set.runs(pattern);
        // a command without an observed interval has no stages
        let from = runs.first().map_or(0, |run| run.first);
        let from = stage_set.stages().get(from)?.from;
        let to = runs.last().map(|run| stage_set.end_of(run.last));
        let stages = runs.iter().map(|&run| {
            let name = stage_set.run_name(run);
            Step::new(stage_set.end_of(run.last), &stage(&name))
        });
        let points = Point::ALL.into_iter().filter(|p| p.seen_in(pattern));
        Some(Self {
            stages: stages.collect(),
            from,
            is_lat: (from, to) == (Point::SetupOut, Some(Point::Complete)),
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
            let points = Point::ALL.into_iter().filter(|p| p.seen_in(pattern));
            let names = names.chain(points.map(|p| p.name().to_owned()));
            let steps: Vec<&Step> = shape.stages.iter().chain(&shape.points).collect();
            assert!(steps.iter().all(|step| step.at.seen_in(pattern)));
            let labels = steps.iter().map(|step| &step.label[..step.len]);
            assert!(labels.eq(names.map(|name| label(&name).into_bytes())));
        }
    }
}
