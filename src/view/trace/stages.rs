//! What the stages of commands are, worked out once for each pattern of points that they were seen
//! at: it takes longer to find a command's stages than to write them down, and few patterns occur.

use crate::path::milestone::Milestone;
use crate::path::stage::Cut;
use crate::path::timeline::Timeline;

/// Patterns have seven bits.
const PATTERNS: usize = 1 << 7;

/// How to write the name of a stage or a point, with all that is before the number.
type Label = fn(&str) -> String;

/// The stages of all patterns that were met.
#[derive(Debug)]
pub(super) struct Stages {
    cut: Cut,
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
    pub(super) at: Milestone,
    pub(super) label: String,
}

impl Stages {
    pub(super) fn new(cut: Cut, stage: Label, point: Label) -> Self {
        Self {
            cut,
            stage,
            point,
            met: (0..PATTERNS).map(|_| None).collect(),
        }
    }

    pub(super) fn cut(&self) -> Cut {
        self.cut
    }

    /// What this command looks like.
    #[inline]
    pub(super) fn of(&mut self, timeline: &Timeline) -> Option<&Shape> {
        let shape = self
            .met
            .get_mut(usize::from(timeline.pattern()) % PATTERNS)?;
        if shape.is_none() {
            *shape = Shape::new(timeline.pattern(), self.cut, self.stage, self.point);
        }
        shape.as_ref()
    }
}

impl Shape {
    #[cold]
    fn new(pattern: u8, cut: Cut, stage: Label, point: Label) -> Option<Self> {
        let runs = cut.runs(pattern);
        let from = cut.stages().get(runs.first()?.first)?.from;
        let to = cut.end_of(runs.last()?.last);
        let stages = runs.iter().map(|&run| Step {
            at: cut.end_of(run.last),
            label: stage(&cut.run_name(run)),
        });
        let points = Milestone::ALL.into_iter().filter(|p| p.seen_in(pattern));
        Some(Self {
            stages: stages.collect(),
            from,
            is_lat: (from, to) == (Milestone::SetupOut, Milestone::Complete),
            points: points
                .map(|at| Step {
                    at,
                    label: point(at.name()),
                })
                .collect(),
        })
    }
}
