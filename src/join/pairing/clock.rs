// SPDX-License-Identifier: MIT OR Apache-2.0
//! The offset between two clocks, from pairs of a guest's and a host's record of one command. The
//! target works on a command between its issue and its completion in the guest, so each pair bounds
//! the offset `host = guest + offset` from below and above. The offset is a line, as clocks drift evenly:
//! bounds at two times also bound it between them, and the drift bounds it before and after. Nothing
//! is assumed about the shares of the two directions.

/// Largest drift that is looked for: 1000 ppm.
const STEEPEST: f64 = 1e-3;
/// Rounds of looking for pairs that no other confirms. A file that needs more is made to.
const ROUNDS: usize = 100;
/// Rounds of narrowing the drift.
const NARROWER: usize = 30;

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

/// Bounds of the offset, relative to a rough line.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Knot {
    /// Time since the origin.
    at: f64,
    low: f64,
    up: f64,
}

impl Knot {
    /// What it says at another time, if the drift differs from the line's by at most `spread`.
    fn seen_from(self, at: f64, spread: f64) -> Self {
        let moved = spread * (at - self.at).abs();
        Self { at, low: self.low - moved, up: self.up + moved }
    }

    /// Both.
    fn and(self, other: Self) -> Self {
        Self { low: self.low.max(other.low), up: self.up.min(other.up), ..self }
    }
}

/// The offset of the host's clock, and how far it may be wrong.
#[derive(Clone, Debug, PartialEq)]
pub struct Offset {
    /// Nanoseconds of the guest's clock at which the line begins.
    origin_ns: i64,
    /// The line there.
    base_ns: i64,
    /// Nanoseconds per nanosecond.
    slope: f64,
    /// How far the drift may be from that.
    spread: f64,
    /// Time since the origin, and the lowest offset there: corners of a concave line. At least one.
    lows: Vec<(f64, f64)>,
    /// The highest: of a convex line.
    ups: Vec<(f64, f64)>,
    /// The true offset is at most this far away, at any time.
    pub error_ns: u64,
    /// The offset in the middle of the time, lowest and highest.
    pub range_ns: (i64, i64),
    /// The drift in parts per million, lowest and highest.
    pub drift_ppm: (f64, f64),
}

impl Offset {
    /// One clock on both sides.
    pub fn same() -> Self {
        Self::line((0, 0), (0, 0), 0)
    }

    /// A line between two times of the guest's clock with their offsets, wrong by at most `error_ns`.
    pub(super) fn line(from: (i64, i64), to: (i64, i64), error_ns: u64) -> Self {
        let slope = apart(to.1, from.1) / apart(to.0, from.0).max(1.0);
        let knots = vec![Knot { at: 0.0, low: -(error_ns as f64), up: error_ns as f64 }];
        Self::of(knots, from, slope, 0.0, to.0)
    }

    /// The offset by these bounds around a line through `origin`, for times up to `last_ns`.
    fn of(
        knots: Vec<Knot>,
        (origin_ns, base_ns): (i64, i64),
        slope: f64,
        spread: f64,
        last_ns: i64,
    ) -> Self {
        let (error_ns, range_ns, drift_ppm) = Default::default();
        let lows = hull(knots.iter().map(|knot| (knot.at, -knot.low)));
        let lows = lows.into_iter().map(|(at, low)| (at, -low)).collect();
        let ups = hull(knots.iter().map(|knot| (knot.at, knot.up)));
        let mut offset =
            Self { origin_ns, base_ns, slope, spread, lows, ups, error_ns, range_ns, drift_ppm };
        let length = apart(last_ns, origin_ns);
        let ends = [offset.knot_at(0.0), offset.knot_at(length)];
        // it is widest at one of the ends
        let widest = ends.iter().map(|knot| knot.up - knot.low).fold(0.0, f64::max);
        offset.error_ns = (widest / 2.0).ceil() as u64;
        offset.range_ns = offset.range(i64::midpoint(origin_ns, last_ns));
        let (slowest, fastest) = drift_between(&ends, length);
        offset.drift_ppm = (1e6 * (slope + slowest), 1e6 * (slope + fastest));
        offset
    }

    /// The bounds at a time since the origin, relative to the line.
    fn knot_at(&self, at: f64) -> Knot {
        let on = |corners: &[(f64, f64)], spread: f64| {
            let after = corners.partition_point(|(there, _)| *there < at);
            let before = corners[after.saturating_sub(1)];
            let next = corners.get(after).copied().unwrap_or(before);
            if before.0 < at && at < next.0 {
                let share = (at - before.0) / (next.0 - before.0);
                return before.1 + share * (next.1 - before.1);
            }
            next.1 + spread * (at - next.0).abs()
        };
        Knot { at, low: on(&self.lows, -self.spread), up: on(&self.ups, self.spread) }
    }

    /// The offset at a time of the guest's clock.
    pub fn at(&self, at_ns: i64) -> i64 {
        let since = apart(at_ns, self.origin_ns);
        let Knot { low, up, .. } = self.knot_at(since);
        let moved = (f64::midpoint(low, up) + self.slope * since).round() as i64;
        self.base_ns.saturating_add(moved)
    }

    /// The lowest and the highest possible offset at a time of the guest's clock.
    pub fn range(&self, at_ns: i64) -> (i64, i64) {
        let since = apart(at_ns, self.origin_ns);
        let Knot { low, up, .. } = self.knot_at(since);
        let line = self.slope * since;
        (
            self.base_ns.saturating_add((low + line).floor() as i64),
            self.base_ns.saturating_add((up + line).ceil() as i64),
        )
    }

    /// Whether the pair fits the offset wherever in its range the truth is.
    pub fn surely_fits(&self, bounds: &Bounds) -> bool {
        let (low, high) = self.range(bounds.at_ns);
        bounds.low <= low && high <= bounds.up
    }

    /// Whether the pair fits the offset somewhere in its range. No offset fits a command that took
    /// longer on the host than in the guest.
    pub fn may_fit(&self, bounds: &Bounds) -> bool {
        let (low, high) = self.range(bounds.at_ns);
        bounds.low <= bounds.up && bounds.low <= high && low <= bounds.up
    }

    /// Judges pairs by an offset that is known. `is_whole`: no record is lost. Otherwise a pair may be
    /// wrong if its bounds leave room for a truth that is further away than the target's work.
    pub fn judge(&self, pairs: &[Bounds], is_whole: bool) -> Vec<Stands> {
        let stands = |b: &Bounds| {
            let (low, high) = self.range(b.at_ns);
            let is_narrower =
                b.low >= low.saturating_add(b.work_ns) || b.up <= high.saturating_sub(b.work_ns);
            if !self.may_fit(b) {
                Stands::Contradicts
            } else if is_whole || self.surely_fits(b) || !is_narrower {
                Stands::Fits
            } else {
                Stands::Unsure
            }
        };
        pairs.iter().map(stands).collect()
    }
}

/// The corners of the convex line below these points, which are sorted by time.
fn hull(points: impl Iterator<Item = (f64, f64)>) -> Vec<(f64, f64)> {
    let mut corners: Vec<(f64, f64)> = Vec::new();
    for (at, y) in points {
        while let [.., (a, y_a), (b, y_b)] = corners[..] {
            if (b - a) * (y - y_a) > (y_b - y_a) * (at - a) {
                break;
            }
            corners.pop();
        }
        corners.push((at, y));
    }
    corners
}

/// The lowest and the highest drift, relative to the line's, by the bounds at both ends.
fn drift_between([first, last]: &[Knot; 2], length: f64) -> (f64, f64) {
    let length = length.max(1.0);
    ((last.low - first.up) / length, (last.up - first.low) / length)
}

/// A pair, relative to the line.
#[derive(Clone, Copy, Debug)]
struct Span {
    /// Number of the pair.
    pair: usize,
    knot: Knot,
    work: f64,
}

/// Turns the line by a slope.
fn tilt(spans: &mut [Span], slope: f64) {
    for Span { knot, .. } in spans {
        knot.low -= slope * knot.at;
        knot.up -= slope * knot.at;
    }
}

/// The middle value.
fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(0.0)
}

/// The drift by most pairs, and how far it may be wrong: wrong pairs do not move a median. Each value
/// is of two pairs with half of all pairs between them.
fn drift(spans: &[Span]) -> (f64, f64) {
    let middle = |s: &Span| f64::midpoint(s.knot.low, s.knot.up);
    let later = spans.iter().skip(spans.len() / 2);
    let two = spans.iter().zip(later).filter(|(a, b)| a.knot.at < b.knot.at);
    let slopes = two.clone().map(|(a, b)| (middle(b) - middle(a)) / (b.knot.at - a.knot.at));
    let slope = median(slopes.collect()).clamp(-STEEPEST, STEEPEST);
    let width = median(spans.iter().map(|s| s.knot.up - s.knot.low).collect());
    // after a burst most pairs are close together, and their slopes say little
    let apart = median(two.map(|(a, b)| b.knot.at - a.knot.at).collect());
    (slope, (4.0 * width / apart.max(1.0)).min(2.0 * STEEPEST))
}

/// A place that most intervals contain.
fn level(spans: &[Span]) -> f64 {
    let mut ends: Vec<(f64, i64)> =
        spans.iter().flat_map(|s| [(s.knot.low, 1), (s.knot.up, -1)]).collect();
    // an interval begins before another ends at the same place
    ends.sort_by(|a, b| a.0.total_cmp(&b.0).then(b.1.cmp(&a.1)));
    let (mut depth, mut most, mut best) = (0, 0, 0.0);
    for (n, (from, change)) in ends.iter().enumerate() {
        depth += change;
        if depth > most {
            let to = ends.get(n + 1).map_or(*from, |(to, _)| *to);
            (most, best) = (depth, f64::midpoint(*from, to));
        }
    }
    best
}

/// For each interval, by time, what those before and after it say of its time.
fn by_others(spans: &[Span], spread: f64) -> Vec<Knot> {
    let none = |at| Knot { at, low: f64::NEG_INFINITY, up: f64::INFINITY };
    let mut all: Vec<Knot> = spans.iter().map(|s| none(s.knot.at)).collect();
    let mut pass = |order: &mut dyn Iterator<Item = usize>| {
        let mut before: Option<Knot> = None;
        for n in order {
            let own = spans[n].knot;
            let seen = before.map(|knot| knot.seen_from(own.at, spread));
            all[n] = seen.map_or(all[n], |seen| all[n].and(seen));
            before = Some(seen.map_or(own, |seen| own.and(seen)));
        }
    };
    pass(&mut (0..spans.len()));
    pass(&mut (0..spans.len()).rev());
    all
}

/// The bounds at each interval by all of them.
fn envelope(spans: &[Span], spread: f64) -> Vec<Knot> {
    let others = by_others(spans, spread).into_iter();
    spans.iter().zip(others).map(|(s, by)| s.knot.and(by)).collect()
}

/// The offset that most pairs agree on, for the times of the guest from `first_ns` to `last_ns`, and
/// how each pair stands to it. `is_whole`: no record is lost, so that pairs which agree with the
/// others are right. `None` if most pairs do not agree.
pub fn fit(
    pairs: &[Bounds],
    (first_ns, last_ns): (i64, i64),
    is_whole: bool,
) -> Option<(Offset, Vec<Stands>)> {
    let possible = || pairs.iter().enumerate().filter(|(_, b)| b.low <= b.up);
    let base_ns = possible().map(|(_, b)| b.low).min()?;
    let span = |(pair, b): (usize, &Bounds)| {
        let at = apart(b.at_ns, first_ns);
        let knot = Knot { at, low: apart(b.low, base_ns), up: apart(b.up, base_ns) };
        Span { pair, knot, work: b.work_ns as f64 }
    };
    let mut spans: Vec<Span> = possible().map(span).collect();
    spans.sort_by(|a, b| a.knot.at.total_cmp(&b.knot.at));
    let length = apart(last_ns, first_ns);
    let (mut slope, mut spread) = drift(&spans);
    tilt(&mut spans, slope);
    let level = level(&spans);
    let mut kept = spans.clone();
    kept.retain(|s| s.knot.low <= level && level <= s.knot.up);
    if 2 * kept.len() <= spans.len() {
        return None;
    }
    // those that the level left out for the error of the slope
    let near = Offset::of(envelope(&kept, spread), (first_ns, base_ns), slope, spread, last_ns);
    spans.retain(|s| near.may_fit(&pairs[s.pair]));
    if envelope(&spans, spread).iter().any(|knot| knot.low > knot.up) {
        spans = kept;
    }
    let mut unsure = Vec::new();
    for _ in 0..ROUNDS {
        let others = by_others(&spans, spread);
        let is_unsure = |(s, by): &(Span, Knot)| {
            !is_whole && (s.knot.low >= by.low + s.work || s.knot.up <= by.up - s.work)
        };
        let (off, on): (Vec<_>, Vec<_>) = spans.into_iter().zip(others).partition(is_unsure);
        spans = on.into_iter().map(|(s, _)| s).collect();
        if off.is_empty() {
            break;
        }
        unsure.extend(off.into_iter().map(|(s, _)| s.pair));
    }
    let mut knots = envelope(&spans, spread);
    for _ in 0..NARROWER {
        let (first, last) = knots.first().zip(knots.last())?;
        let ends = [first.seen_from(0.0, spread), last.seen_from(length, spread)];
        let (slowest, fastest) = drift_between(&ends, length);
        let (middle, half) = (f64::midpoint(slowest, fastest), (fastest - slowest) / 2.0);
        if half > 0.999 * spread {
            break;
        }
        tilt(&mut spans, middle);
        let narrower = envelope(&spans, half);
        if narrower.iter().any(|knot| knot.low > knot.up) {
            break;
        }
        (slope, spread, knots) = (slope + middle, half, narrower);
    }
    let offset = Offset::of(knots, (first_ns, base_ns), slope, spread, last_ns);
    let mut stands = offset.judge(pairs, true);
    unsure.into_iter().for_each(|pair: usize| stands[pair] = Stands::Unsure);
    Some((offset, stands))
}

#[cfg(test)]
#[path = "clock_tests.rs"]
mod tests;
