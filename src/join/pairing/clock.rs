// SPDX-License-Identifier: MIT OR Apache-2.0
//! The offset between two clocks, from pairs of a guest's and a host's record of one command. The
//! target works on a command between its issue and its completion in the guest, so each pair bounds
//! the offset `host = guest + offset` from below and above. A line through all intervals is the
//! offset with its drift. Nothing is assumed about the shares of the two directions.

/// Largest drift that is looked for: 1000 ppm.
const STEEPEST: f64 = 1e-3;
/// Rounds of a search by thirds: enough for a part in 10^10.
const ROUNDS: u32 = 60;

/// The difference of two times. Those of a file may be any numbers.
const fn apart(later: i64, earlier: i64) -> f64 {
    (later as i128 - earlier as i128) as f64
}

/// What a pair says of the offset at a time of the guest's clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// Nanoseconds of the guest's clock.
    pub at_ns: i64,
    /// The offset is at least this.
    pub low: i64,
    /// The offset is at most this.
    pub up: i64,
    /// The time that the target worked on the command. If the pair is wrong, one of the bounds is
    /// beyond the truth by at least this: a driver uses an id again only after the command's end.
    pub work_ns: i64,
}

/// Parts of the time for which the range of the offset is kept.
const KNOTS: usize = 64;

/// The offset of the host's clock as a line, and how far it may be wrong.
#[derive(Clone, Debug, PartialEq)]
pub struct Offset {
    /// Nanoseconds of the guest's clock at which the line begins.
    origin_ns: i64,
    /// The offset there.
    base_ns: i64,
    /// Drift: nanoseconds per nanosecond.
    slope: f64,
    /// Fraction to add to `base_ns`.
    rest: f64,
    /// Length of a part of the time.
    part_ns: f64,
    /// At the ends of the parts: the lowest and the highest offset, relative to `base_ns`. The highest
    /// is a convex function of time, and the lowest a concave one: the truth is between the straight
    /// lines from one end to the next.
    knots: Vec<(f64, f64)>,
    /// The true offset is at most this far away, at any time.
    pub error_ns: u64,
    /// The offset in the middle of the time, lowest and highest.
    pub range_ns: (i64, i64),
    /// The drift in parts per million, lowest and highest. The limit of the search is 1000.
    pub drift_ppm: (f64, f64),
}

/// How a pair stands to the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stands {
    /// It fits them.
    Fits,
    /// It may be a wrong pair, of two commands whose other records are lost.
    Unsure,
    /// Its times contradict the others.
    Contradicts,
}

/// An offset, and how each pair stands to it, in their order.
#[derive(Clone, Debug, PartialEq)]
pub struct Fit {
    /// The offset.
    pub offset: Offset,
    /// The pairs.
    pub stands: Vec<Stands>,
}

impl Fit {
    /// Judges pairs by an offset that is known. `is_whole`: no record is lost. Otherwise a pair may be
    /// wrong if its bounds leave room for a truth that is further away than the target's work.
    pub fn known(offset: Offset, pairs: &[Bounds], is_whole: bool) -> Self {
        let stands = |b: &Bounds| {
            let (low, high) = offset.range(b.at_ns);
            let is_narrower =
                b.low >= low.saturating_add(b.work_ns) || b.up <= high.saturating_sub(b.work_ns);
            if !offset.may_fit(b) {
                Stands::Contradicts
            } else if is_whole || offset.surely_fits(b) || !is_narrower {
                Stands::Fits
            } else {
                Stands::Unsure
            }
        };
        let stands = pairs.iter().map(stands).collect();
        Self { offset, stands }
    }
}

impl Offset {
    /// One clock on both sides.
    pub fn same() -> Self {
        Self {
            origin_ns: 0,
            base_ns: 0,
            slope: 0.0,
            rest: 0.0,
            part_ns: 1.0,
            knots: vec![(0.0, 0.0)],
            error_ns: 0,
            range_ns: (0, 0),
            drift_ppm: (0.0, 0.0),
        }
    }

    /// A line between two times of the guest's clock with their offsets, wrong by at most `error_ns`.
    pub(super) fn line(from: (i64, i64), to: (i64, i64), error_ns: u64) -> Self {
        let part_ns = apart(to.0, from.0).max(1.0);
        let (rise, error) = (apart(to.1, from.1), error_ns as f64);
        let middle = i64::midpoint(from.1, to.1);
        let error_i64 = i64::try_from(error_ns).unwrap_or(i64::MAX);
        let ppm = |change: f64| 1e6 * change / part_ns;
        Self {
            origin_ns: from.0,
            base_ns: from.1,
            slope: rise / part_ns,
            rest: 0.0,
            part_ns,
            knots: vec![(-error, error), (rise - error, rise + error)],
            error_ns,
            range_ns: (middle.saturating_sub(error_i64), middle.saturating_add(error_i64)),
            drift_ppm: (ppm(rise - 2.0 * error), ppm(rise + 2.0 * error)),
        }
    }

    /// The offset at a time of the guest's clock.
    pub fn at(&self, at_ns: i64) -> i64 {
        let since = apart(at_ns, self.origin_ns);
        let moved = (self.rest + self.slope * since).round() as i64;
        self.base_ns.saturating_add(moved)
    }

    /// The lowest and the highest possible offset at a time of the guest's clock.
    pub fn range(&self, at_ns: i64) -> (i64, i64) {
        let place = (apart(at_ns, self.origin_ns) / self.part_ns).max(0.0);
        let before = (place as usize).min(self.knots.len().saturating_sub(2));
        let knot = |n: usize| self.knots.get(n).copied();
        let (from, to) = (knot(before), knot(before + 1).or_else(|| knot(before)));
        let (from, to) = from.zip(to).unwrap_or_default();
        let share = (place - before as f64).min(1.0);
        let between = |a: f64, b: f64| a + (b - a) * share;
        (
            self.base_ns.saturating_add(between(from.0, to.0).floor() as i64),
            self.base_ns.saturating_add(between(from.1, to.1).ceil() as i64),
        )
    }

    /// Whether the pair fits the offset wherever in its range the truth is.
    pub fn surely_fits(&self, bounds: &Bounds) -> bool {
        let (low, high) = self.range(bounds.at_ns);
        bounds.low <= low && high <= bounds.up
    }

    /// Whether the pair fits the offset somewhere in its range.
    pub fn may_fit(&self, bounds: &Bounds) -> bool {
        let (low, high) = self.range(bounds.at_ns);
        bounds.low <= high && low <= bounds.up
    }
}

/// Bounds relative to the origin, as floating point. Differences of a run fit without loss.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Span {
    /// Number of the pair.
    pair: usize,
    at: f64,
    low: f64,
    up: f64,
    work: f64,
}

/// The lowest upper bound and the highest lower bound of lines with a slope, at time `at`.
fn gap(spans: &[Span], slope: f64, at: f64) -> (f64, f64) {
    let ends = (f64::NEG_INFINITY, f64::INFINITY);
    spans.iter().fold(ends, |(low, up), s| {
        let moved = slope * (at - s.at);
        (low.max(s.low + moved), up.min(s.up + moved))
    })
}

/// The place of the maximum of a concave function.
fn peak(mut from: f64, mut to: f64, f: impl Fn(f64) -> f64) -> f64 {
    for _ in 0..ROUNDS {
        let third = (to - from) / 3.0;
        let (a, b) = (from + third, to - third);
        let (at_a, at_b) = (f(a), f(b));
        // both ends move on a plateau, so that its middle is found
        if at_a <= at_b {
            from = a;
        }
        if at_a >= at_b {
            to = b;
        }
    }
    f64::midpoint(from, to)
}

/// The last place from `inside` towards `outside` at which the function is not negative.
fn edge(mut inside: f64, mut outside: f64, f: impl Fn(f64) -> f64) -> f64 {
    if f(outside) >= 0.0 {
        return outside;
    }
    for _ in 0..ROUNDS {
        let middle = f64::midpoint(inside, outside);
        if f(middle) >= 0.0 {
            inside = middle;
        } else {
            outside = middle;
        }
    }
    inside
}

/// The spans that can touch a line: the corners of the hull below the upper bounds, and of that above
/// the lower bounds. `spans` are sorted by time.
fn corners(spans: &[Span]) -> Vec<Span> {
    let hull = |y: &dyn Fn(&Span) -> f64| {
        let mut kept: Vec<Span> = Vec::new();
        for span in spans {
            while let [.., a, b] = kept.as_slice() {
                let turn = (b.at - a.at) * (y(span) - y(a)) - (y(b) - y(a)) * (span.at - a.at);
                if turn > 0.0 {
                    break;
                }
                kept.pop();
            }
            kept.push(*span);
        }
        kept
    };
    let mut all = hull(&|s| s.up);
    all.extend(hull(&|s| -s.low));
    all
}

/// The slope at which the intervals leave most room for a line.
fn best_slope(spans: &[Span], at: f64) -> f64 {
    peak(-STEEPEST, STEEPEST, |slope| {
        let (low, up) = gap(spans, slope, at);
        up - low
    })
}

/// The middle value.
fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(0.0)
}

/// A line that most intervals agree on, with its tolerance: medians, which wrong pairs do not move.
/// The slope is that between intervals half of the run apart.
fn rough(spans: &[Span]) -> Option<(Span, f64, f64)> {
    let first = *spans.first()?;
    let middle = |s: &Span| f64::midpoint(s.low, s.up);
    let later = spans.iter().skip(spans.len() / 2);
    let slopes = spans.iter().zip(later).filter(|(a, b)| a.at < b.at);
    let slope = median(slopes.map(|(a, b)| (middle(b) - middle(a)) / (b.at - a.at)).collect());
    let slope = slope.clamp(-STEEPEST, STEEPEST);
    let rest = |s: &Span| middle(s) - slope * (s.at - first.at);
    let level = median(spans.iter().map(rest).collect());
    let tolerance = median(spans.iter().map(|s| s.up - s.low).collect());
    Some((Span { low: level, up: level, ..first }, slope, tolerance))
}

/// Whether an interval is as close to the line as its tolerance.
fn is_near(span: &Span, (through, slope, tolerance): (&Span, f64, f64)) -> bool {
    let line = f64::midpoint(through.low, through.up) + slope * (span.at - through.at);
    span.low - tolerance <= line && line <= span.up + tolerance
}

/// Removes the intervals that contradict most others at this slope. Returns whether there were any.
fn drop_contradictions(spans: &mut Vec<Span>, slope: f64) -> bool {
    let moved = |s: &Span, y: f64| y - slope * s.at;
    let mut lows: Vec<f64> = spans.iter().map(|s| moved(s, s.low)).collect();
    let mut ups: Vec<f64> = spans.iter().map(|s| moved(s, s.up)).collect();
    lows.sort_by(f64::total_cmp);
    ups.sort_by(f64::total_cmp);
    let conflicts = |s: &Span| {
        let below = ups.partition_point(|up| *up < moved(s, s.low));
        let above = lows.len() - lows.partition_point(|low| *low <= moved(s, s.up));
        below + above
    };
    let most = spans.iter().map(conflicts).max().unwrap_or(0);
    let limit = most.div_ceil(2).max(1);
    spans.retain(|s| conflicts(s) < limit);
    most > 0
}

/// The offset that most pairs agree on, for the times of the guest from `first_ns` to `last_ns`, and
/// how each pair stands to it. `is_whole`: no record is lost, so that pairs which agree with the
/// others are right. `None` if most pairs do not agree.
pub fn fit(pairs: &[Bounds], (first_ns, last_ns): (i64, i64), is_whole: bool) -> Option<Fit> {
    let possible = || pairs.iter().enumerate().filter(|(_, b)| b.low <= b.up);
    let base_ns = possible().map(|(_, b)| b.low).min()?;
    let mut all: Vec<Span> = possible()
        .map(|(pair, b)| Span {
            pair,
            at: apart(b.at_ns, first_ns),
            low: apart(b.low, base_ns),
            up: apart(b.up, base_ns),
            work: b.work_ns as f64,
        })
        .collect();
    all.sort_by(|a, b| a.at.total_cmp(&b.at).then(a.low.total_cmp(&b.low)));
    let ends = (0.0, apart(last_ns, first_ns));
    let (through, slope, tolerance) = rough(&all)?;
    let near = |s: &&Span| is_near(s, (&through, slope, tolerance));
    let mut spans: Vec<Span> = all.iter().filter(near).copied().collect();
    let room = Room::of(&mut spans, ends)?;
    // those that the rough line left out for its error
    let fits = |s: &&Span| {
        let (low, high) = room.range(s.at);
        s.low <= high && low <= s.up
    };
    let mut spans: Vec<Span> = all.iter().filter(fits).copied().collect();
    let mut room = Room::of(&mut spans, ends)?;
    if 2 * spans.len() <= all.len() {
        return None;
    }
    let mut stands = vec![Stands::Contradicts; pairs.len()];
    if !is_whole {
        while let Some(unsure) = room.unsure(&spans) {
            stands[unsure.pair] = Stands::Unsure;
            spans.retain(|s| s.pair != unsure.pair);
            room = Room::of(&mut spans, ends)?;
        }
    }
    for span in &spans {
        stands[span.pair] = Stands::Fits;
    }
    let offset = room.offset((first_ns, base_ns));
    Some(Fit { offset, stands })
}

/// The lines that pass through all of some intervals.
struct Room {
    /// The intervals that limit it.
    hull: Vec<Span>,
    ends: (f64, f64),
    /// The slope with most room, and the others.
    slope: f64,
    slopes: (f64, f64),
}

impl Room {
    /// Removes the intervals that contradict most others, until lines pass through the rest.
    fn of(spans: &mut Vec<Span>, ends: (f64, f64)) -> Option<Self> {
        let middle = f64::midpoint(ends.0, ends.1);
        loop {
            let hull = corners(spans);
            if hull.is_empty() {
                return None;
            }
            let slope = best_slope(&hull, middle);
            let (low, up) = gap(&hull, slope, middle);
            if low <= up {
                return Some(Self::at(hull, slope, ends));
            }
            if !drop_contradictions(spans, slope) {
                return None;
            }
        }
    }

    fn at(hull: Vec<Span>, slope: f64, ends: (f64, f64)) -> Self {
        let middle = f64::midpoint(ends.0, ends.1);
        let room = |slope| {
            let (low, up) = gap(&hull, slope, middle);
            up - low
        };
        let slopes = (edge(slope, -STEEPEST, room), edge(slope, STEEPEST, room));
        Self { hull, ends, slope, slopes }
    }

    /// The lowest and the highest line at a time.
    fn range(&self, at: f64) -> (f64, f64) {
        let (from, to) = self.slopes;
        let lowest = peak(from, to, |s| -gap(&self.hull, s, at).0);
        let highest = peak(from, to, |s| gap(&self.hull, s, at).1);
        (gap(&self.hull, lowest, at).0, gap(&self.hull, highest, at).1)
    }

    /// One of the intervals that may be of a wrong pair: the others leave room for a truth that is
    /// further away than the target's work.
    fn unsure(&self, spans: &[Span]) -> Option<Span> {
        let middle = f64::midpoint(self.ends.0, self.ends.1);
        self.hull.iter().copied().find(|span| {
            let others = spans.iter().filter(|s| s.pair != span.pair);
            let others = corners(&others.copied().collect::<Vec<Span>>());
            if others.is_empty() {
                return true;
            }
            let slope = best_slope(&others, middle);
            let (low, high) = Self::at(others, slope, self.ends).range(span.at);
            span.low >= low + span.work || span.up <= high - span.work
        })
    }

    /// The line in the middle of the room, with the slope that has most of it. The room is widest at
    /// one of the ends.
    fn offset(&self, origin: (i64, i64)) -> Offset {
        let Self { hull, ends, .. } = self;
        let middle = f64::midpoint(ends.0, ends.1);
        let (low, up) = gap(hull, self.slope, middle);
        let rest = f64::midpoint(low, up) - self.slope * middle;
        let part_ns = ((ends.1 - ends.0) / KNOTS as f64).max(1.0);
        let knots: Vec<(f64, f64)> = (0..=KNOTS).map(|n| self.range(n as f64 * part_ns)).collect();
        let error = [ends.0, ends.1].map(|at| {
            let (low, up) = self.range(at);
            let value = rest + self.slope * at;
            (up - value).max(value - low)
        });
        let (low, up) = self.range(middle);
        Offset {
            origin_ns: origin.0,
            base_ns: origin.1,
            slope: self.slope,
            rest,
            part_ns,
            knots,
            error_ns: error[0].max(error[1]).max(0.0).ceil() as u64,
            range_ns: (
                origin.1.saturating_add(low.floor() as i64),
                origin.1.saturating_add(up.ceil() as i64),
            ),
            drift_ppm: (self.slopes.0 * 1e6, self.slopes.1 * 1e6),
        }
    }
}

#[cfg(test)]
#[path = "clock_tests.rs"]
mod tests;
