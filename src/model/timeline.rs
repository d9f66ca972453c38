// SPDX-License-Identifier: MIT OR Apache-2.0
//! The points of one command, and its stages. Used for single commands. In the histograms the BPF
//! side divides the time, by the same rules.

use super::event::{Event, EventKind};
use super::point::{IN_RECORDS, Pattern, Point, TIMES};
use super::stage::{StageRun, StageSet};

/// The observed points of one command, CLOCK_MONOTONIC nanoseconds, and their pattern. The BPF side
/// removes points that are out of order from the pattern.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timeline {
    /// By [`Point::time`].
    times: [u64; TIMES],
    pattern: Pattern,
}

/// A stage of one command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment {
    /// The stage, or the merged stages.
    pub run: StageRun,
    /// Duration in nanoseconds.
    pub ns: u64,
}

impl Timeline {
    /// Takes the first `N` times, by the numbers of times (`points!` of src/model/point.rs); the others are
    /// not observed. Points that are not in the pattern, and points that are zero, count as not
    /// observed.
    pub const fn new<const N: usize>(first: [u64; N], pattern: Pattern) -> Self {
        const { assert!(N <= TIMES) };
        let mut times = [0; TIMES];
        let mut n = 0;
        while n < N {
            times[n] = first[n];
            n += 1;
        }
        Self { times, pattern }
    }

    /// Takes the times of a record, in the order of [`IN_RECORDS`], and the two that it has apart.
    #[inline(always)]
    pub const fn of_record(
        of: [u64; IN_RECORDS.len()],
        setup_out: u64,
        complete: u64,
        pattern: Pattern,
    ) -> Self {
        let [start, setup_in, issue, doorbell, irq, cqe, end] = of;
        let first = [start, setup_in, setup_out, issue, doorbell, irq, cqe, complete, end];
        Self::new(first, pattern)
    }

    /// The points of this pattern, each with its time.
    pub fn from_fn(pattern: Pattern, time: impl Fn(Point) -> u64) -> Self {
        let mut line = Self::new([], pattern);
        for point in Point::ALL.into_iter().filter(|p| p.seen_in(pattern)) {
            line.set(point, time(point));
        }
        line
    }

    /// Sets the time of a point of the pattern.
    pub const fn set(&mut self, point: Point, ns: u64) {
        self.times[point.time()] = ns;
    }

    /// Adds a point that was observed.
    pub const fn add(&mut self, point: Point, ns: u64) {
        if let Some(bit) = point.pattern_bit() {
            self.pattern |= bit;
        }
        self.set(point, ns);
    }

    /// The times of the first and the last observed point.
    pub fn ends(&self) -> Option<(u64, u64)> {
        let mut points = self.points();
        let (_, first) = points.next()?;
        Some((first, points.last().map_or(first, |(_, last)| last)))
    }

    /// The same times with another pattern.
    #[must_use]
    pub const fn with_pattern(&self, pattern: Pattern) -> Self {
        Self { times: self.times, pattern }
    }

    /// The same without the points before the request.
    #[must_use]
    pub fn from_request(&self) -> Self {
        let before = Point::ALL.iter().take_while(|p| **p < Point::Start);
        let bits: Pattern = before.filter_map(|p| p.pattern_bit()).sum();
        self.with_pattern(self.pattern & !bits)
    }

    /// The pattern of observed points.
    pub const fn pattern(&self) -> Pattern {
        self.pattern
    }

    /// The time of a point that is in the pattern; zero if it was not observed. Faster than
    /// [`Timeline::at`], for callers that have already checked the pattern.
    pub const fn ns(&self, point: Point) -> u64 {
        self.times[point.time()]
    }

    /// The time of a point; `None` if it was not observed.
    pub fn at(&self, point: Point) -> Option<u64> {
        let ns = self.times[point.time()];
        (ns != 0 && point.seen_in(self.pattern)).then_some(ns)
    }

    /// The observed points, in order, each with its time.
    pub fn points(&self) -> impl Iterator<Item = (Point, u64)> {
        // most are not observed, which zero says faster than the pattern
        let seen = Point::ALL.into_iter().filter(|point| self.ns(*point) != 0);
        seen.filter_map(|point| Some((point, self.at(point)?)))
    }

    /// The stages of the command in this stage set. `None` if two points are out of order.
    pub fn segments(&self, stage_set: StageSet) -> Option<Vec<Segment>> {
        let mut segments = Vec::with_capacity(stage_set.stages().len());
        self.add_segments(stage_set, &mut segments).then_some(segments)
    }

    /// Adds the stages of the command. Returns false if two points are out of order.
    #[must_use]
    pub fn add_segments(&self, stage_set: StageSet, segments: &mut Vec<Segment>) -> bool {
        for run in stage_set.each_run(self.pattern) {
            // the pattern has both points
            let (from, to) = (self.ns(run.from), self.ns(run.to));
            if from == 0 || to < from {
                return false;
            }
            segments.push(Segment { run, ns: to - from });
        }
        true
    }

    /// The same without memory, and without those whose points are out of order.
    pub(super) fn each(&self, stage_set: StageSet) -> impl Iterator<Item = Segment> {
        stage_set.each_run(self.pattern).filter_map(|run| self.segment(run))
    }

    fn segment(&self, run: StageRun) -> Option<Segment> {
        let (from, to) = (self.at(run.from)?, self.at(run.to)?);
        Some(Segment { run, ns: to.checked_sub(from)? })
    }

    /// From the first to the last observed point of the stage set. `None` if fewer than two were
    /// observed, or if they are out of order.
    pub fn total(&self, stage_set: StageSet) -> Option<u64> {
        let mut runs = stage_set.each_run(self.pattern);
        let first = runs.next()?;
        let last = runs.last().unwrap_or(first);
        self.at(last.to)?.checked_sub(self.at(first.from)?)
    }
}

/// The time of a command, CLOCK_MONOTONIC nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// Its start.
    pub begin_ns: u64,
    /// Its end; `None` if it has not ended.
    pub end_ns: Option<u64>,
}

impl Span {
    /// From the end of the setup to the completion. `None` for other events, and for a command whose
    /// latency is not known.
    #[must_use]
    pub fn of_latency(event: &Event) -> Option<Self> {
        let lasted = match &event.what {
            EventKind::Command(_, _, end) => end.latency_ns?,
            EventKind::Missed { latency_max_ns, .. } => (*latency_max_ns)?,
            what => return Self::unfinished(event.at_ns, what),
        };
        Some(Self { begin_ns: event.at_ns.saturating_sub(lasted), end_ns: Some(event.at_ns) })
    }

    /// From the first observed point to the last. `None` for other events.
    #[must_use]
    pub fn of(event: &Event) -> Option<Self> {
        let Event { at_ns, what } = event;
        let lasted = match what {
            EventKind::Command(_, _, outcome) => outcome.latency_ns,
            EventKind::Missed { latency_max_ns, .. } => *latency_max_ns,
            what => return Self::unfinished(*at_ns, what),
        };
        let (mut begin_ns, mut end_ns) = (at_ns.saturating_sub(lasted.unwrap_or(0)), *at_ns);
        if let Some(line) = what.timeline() {
            for point in Point::ALL.iter().filter_map(|p| line.at(*p)) {
                begin_ns = begin_ns.min(point);
                end_ns = end_ns.max(point);
            }
        }
        Some(Self { begin_ns, end_ns: Some(end_ns) })
    }

    fn unfinished(at_ns: u64, what: &EventKind) -> Option<Self> {
        match what {
            EventKind::Unfinished { age_ns, .. } => {
                Some(Self { begin_ns: at_ns.saturating_sub(*age_ns), end_ns: None })
            }
            _ => None,
        }
    }

    /// Its length in nanoseconds; unlimited for a command that has not ended.
    #[must_use]
    pub fn length(&self) -> u64 {
        self.end_ns.map_or(u64::MAX, |end| end.saturating_sub(self.begin_ns))
    }
}

/// How long a command took, in nanoseconds: from its first to its last observed point, or without points
/// from its setup to its completion. So far, if it is in flight. `None` for other events, and if its start
/// or its end was not observed.
#[must_use]
pub fn total_ns(event: &Event) -> Option<u64> {
    let (latency, completed) = match &event.what {
        EventKind::Command(_, _, outcome) | EventKind::Complete(_, outcome) => {
            (outcome.latency_ns, Some(event.at_ns))
        }
        EventKind::Missed { .. } => (None, None),
        EventKind::Unfinished { age_ns, .. } => return Some(*age_ns),
        _ => return None,
    };
    total_of(event.what.timeline(), latency, completed)
}

/// The same for a command with these points.
pub(crate) fn total_of(
    line: Option<&Timeline>,
    latency_ns: Option<u64>,
    completed_ns: Option<u64>,
) -> Option<u64> {
    let at = |point: &Point| line?.at(*point);
    let mut begins = Point::ALL.iter().take_while(|point| **point <= Point::SetupOut);
    let set_up = || completed_ns?.checked_sub(latency_ns?);
    let begin = begins.find_map(at).or_else(set_up)?;
    at(&Point::End).or(completed_ns)?.checked_sub(begin)
}
