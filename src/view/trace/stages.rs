// SPDX-License-Identifier: MIT OR Apache-2.0
//! Stages of commands, computed once per pattern of observed points. Finding the stages takes
//! longer than writing them, and few patterns occur.

use super::line::{Line, WORD};
use crate::model::point::{Pattern, Point};
use crate::model::stage::StageSet;
use crate::model::timeline::Timeline;

/// Number of patterns that are kept. Those with today's points never share a place.
const PLACES: usize = 512;

/// The place of a pattern.
#[inline(always)]
const fn place(pattern: Pattern) -> usize {
    (pattern ^ pattern >> 9 ^ pattern >> 18) as usize % PLACES
}

/// Length of the first part of a label, which nearly all labels are within. The longest is that of all
/// stages merged into one, in JSON.
const LABEL: usize = 64;

/// Formats the name of a stage or a point, and everything before the number.
type Label = fn(&str) -> String;

/// The stages of patterns that have occurred.
#[derive(Debug)]
pub(super) struct Stages {
    stage_set: StageSet,
    stage: Label,
    point: Label,
    /// By [`place`]: the last pattern of each.
    met: Vec<Option<(Pattern, Shape)>>,
}

/// The stages and points of a pattern.
#[derive(Debug)]
pub(super) struct Shape {
    /// The stages in order. Each begins at the end of the previous one.
    pub(super) stages: Vec<Step>,
    /// The point at which the first stage begins.
    pub(super) from: Point,
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
    /// The rest of a longer label.
    rest: Option<Box<([u8; WORD], usize)>>,
    /// It is the stage before the request, undivided.
    pub(super) is_before: bool,
}

/// The first bytes of a text, and how many there are.
fn padded<const N: usize>(text: &[u8]) -> ([u8; N], usize) {
    let (mut bytes, len) = ([0; N], text.len().min(N));
    bytes[..len].copy_from_slice(&text[..len]);
    (bytes, len)
}

impl Step {
    fn new(at: Point, text: &str) -> Self {
        let (label, len) = padded(text.as_bytes());
        let rest = text.as_bytes().get(LABEL..).filter(|rest| !rest.is_empty());
        Self { at, label, len, rest: rest.map(|rest| Box::new(padded(rest))), is_before: false }
    }

    /// Writes everything before the number.
    #[inline(always)]
    pub(super) fn label(&self, line: &mut Line) {
        line.first(self.label, self.len);
        if let Some(rest) = &self.rest {
            line.again(&rest.0, rest.1);
        }
    }
}

impl Stages {
    pub(super) fn new(stage_set: StageSet, stage: Label, point: Label) -> Self {
        Self { stage_set, stage, point, met: (0..PLACES).map(|_| None).collect() }
    }

    pub(super) fn stage_set(&self) -> StageSet {
        self.stage_set
    }

    /// The stages and points of this command.
    #[inline]
    pub(super) fn of(&mut self, timeline: &Timeline) -> Option<&Shape> {
        let pattern = timeline.pattern();
        let met = self.met.get_mut(place(pattern))?;
        if met.as_ref().is_none_or(|(of, _)| *of != pattern) {
            let shape = Shape::new(pattern, self.stage_set, self.stage, self.point);
            *met = Some((pattern, shape?));
        }
        met.as_ref().map(|(_, shape)| shape)
    }
}

impl Shape {
    #[cold]
    fn new(pattern: Pattern, stage_set: StageSet, stage: Label, point: Label) -> Option<Self> {
        let runs = stage_set.runs(pattern);
        // a command without an observed interval has no stages
        let from = match runs.first() {
            Some(run) => run.from,
            None => stage_set.stages().first()?.from,
        };
        let stages = runs.iter().map(|run| Step {
            is_before: run.single() == Some("before"),
            ..Step::new(run.to, &stage(&run.name()))
        });
        let points = Point::ALL.into_iter().filter(|p| p.seen_in(pattern));
        Some(Self {
            stages: stages.collect(),
            from,
            points: points.map(|at| Step::new(at, &point(at.name()))).collect(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::point::ALL_POINTS;

    fn written(step: &Step) -> String {
        let mut line = Line::new();
        step.label(&mut line);
        String::from_utf8(line.take(<[u8]>::to_vec)).unwrap()
    }

    #[test]
    fn a_label_of_any_number_of_stages_is_whole() {
        for n in [1, LABEL - 1, LABEL, LABEL + 1, LABEL + WORD] {
            let text: String = ('a'..='z').cycle().take(n).collect();
            assert_eq!(written(&Step::new(Point::End, &text)), text);
        }
    }

    #[test]
    fn patterns_of_one_place_have_their_own_stages() {
        let mut stages = Stages::new(StageSet::Fine, str::to_owned, str::to_owned);
        let (one, other) = (0b10_0001, 0b10_0001 ^ (1 << 20 | 1 << 2));
        assert_eq!(place(one), place(other));
        for (pattern, second) in [(one, Point::Cqe), (other, Point::Issue), (one, Point::Cqe)] {
            let shape = stages.of(&Timeline::new([], pattern)).unwrap();
            assert_eq!(shape.stages[1].at, second);
        }
    }

    #[test]
    fn every_step_is_of_the_pattern_and_its_label_is_whole() {
        let label: Label = |name| format!("{{\"name\":\"{name}\",\"ns\":");
        for (stage_set, pattern) in [StageSet::Basic, StageSet::Fine]
            .into_iter()
            .flat_map(|stage_set| (0..=ALL_POINTS).map(move |pattern| (stage_set, pattern)))
        {
            let shape = Shape::new(pattern, stage_set, label, label).unwrap();
            assert!(shape.stages.is_empty() || shape.from.seen_in(pattern));
            let names = stage_set.runs(pattern).into_iter().map(|run| run.name());
            let points = Point::ALL.into_iter().filter(|p| p.seen_in(pattern));
            let names = names.chain(points.map(|p| p.name().to_owned()));
            let steps: Vec<&Step> = shape.stages.iter().chain(&shape.points).collect();
            assert!(steps.iter().all(|step| step.at.seen_in(pattern)));
            let labels = steps.iter().map(|step| written(step));
            assert!(labels.eq(names.map(|name| label(&name))));
        }
    }
}
