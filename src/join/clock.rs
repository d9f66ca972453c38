// SPDX-License-Identifier: MIT OR Apache-2.0
//! The offset between two clocks, from pairs of a guest's and a host's record of one command. The
//! target works on a command between its issue and its completion in the guest, so each pair bounds
//! the offset `host = guest + offset` from below and above. Clocks drift evenly, so
//! the offset is a line in time, and the lines between the bounds of all pairs are a convex region of levels
//! and drifts. Nothing is assumed about the shares of the two directions.

/// Largest drift that is looked for: 1000 ppm.
const STEEPEST: f64 = 1e-3;
/// Pairs that are tried as the one that most others agree with.
const STARTS: usize = 20;
/// Most corners of a region. A bound that would add more is left out: the region is larger then.
const MOST_CORNERS: usize = 32;

/// The difference of two times, which can be any numbers in a damaged file.
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
}

/// A line: the offset at the origin, relative to the base, and its nanoseconds per nanosecond.
type Line = (f64, f64);

/// A pair, relative to origin and base.
#[derive(Clone, Copy, Debug)]
struct Span {
    at: f64,
    low: f64,
    up: f64,
}

impl Span {
    /// The lines between its bounds, as corners of their region.
    fn lines(&self) -> Vec<Line> {
        let [rising, falling] = [STEEPEST, -STEEPEST];
        let through = |offset: f64, slope| (offset - slope * self.at, slope);
        vec![
            through(self.low, rising),
            through(self.up, rising),
            through(self.up, falling),
            through(self.low, falling),
        ]
    }

    /// How far a line is above the lower and below the upper bound.
    fn room(&self, line: &Line) -> [f64; 2] {
        let offset = line.0 + line.1 * self.at;
        [offset - self.low, self.up - offset]
    }

    /// The lines of a region that are between its bounds.
    fn cut(&self, region: &[Line]) -> Vec<Line> {
        let mut left = region.to_vec();
        if region.iter().all(|line| self.room(line).iter().all(|room| *room >= 0.0)) {
            return left;
        }
        for bound in 0..2 {
            let region = std::mem::take(&mut left);
            for (n, to) in region.iter().enumerate() {
                let from = &region[n.checked_sub(1).unwrap_or(region.len() - 1)];
                let (before, after) = (self.room(from)[bound], self.room(to)[bound]);
                if (before < 0.0) != (after < 0.0) {
                    let share = before / (before - after);
                    let between = |from: f64, to: f64| from + share * (to - from);
                    left.push((between(from.0, to.0), between(from.1, to.1)));
                }
                left.extend((after >= 0.0).then_some(*to));
            }
        }
        left
    }
}

/// The lowest and the highest offset of a region at a time since the origin.
fn offsets(region: &[Line], at: f64) -> (f64, f64) {
    let all = region.iter().map(|(level, slope)| level + slope * at);
    all.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, up), v| (low.min(v), up.max(v)))
}

/// The offset of the host's clock, and how far it may be wrong.
#[derive(Clone, Debug, PartialEq)]
pub struct Offset {
    /// Nanoseconds of the guest's clock at which the lines begin.
    origin_ns: i64,
    /// What their levels are relative to.
    base_ns: i64,
    /// The corners of the region of possible lines. At least one.
    region: Vec<Line>,
    /// The true offset is at most this far away, at any time.
    pub error_ns: u64,
    /// The offset in the middle of the time, lowest and highest.
    pub range_ns: (i64, i64),
}

impl Offset {
    /// One clock on both sides.
    pub fn same() -> Self {
        Self::line((0, 0), (0, 0), 0)
    }

    /// A line between two times of the guest's clock with their offsets, wrong by at most `error_ns`.
    pub(super) fn line(from: (i64, i64), to: (i64, i64), error_ns: u64) -> Self {
        let length = apart(to.0, from.0).max(1.0);
        let (slope, error) = (apart(to.1, from.1) / length, error_ns as f64);
        let turn = 2.0 * error / length;
        let region =
            vec![(-error, slope), (-error, slope + turn), (error, slope), (error, slope - turn)];
        Self::of(region, from, to.0)
    }

    /// One of these lines through `origin`, for times up to `last_ns`.
    fn of(region: Vec<Line>, (origin_ns, base_ns): (i64, i64), last_ns: i64) -> Self {
        // the range is widest at one of the ends
        let widths = [0.0, apart(last_ns, origin_ns)].map(|at| {
            let (low, up) = offsets(&region, at);
            up - low
        });
        let error_ns = (widths[0].max(widths[1]) / 2.0).ceil() as u64;
        let mut offset = Self { origin_ns, base_ns, region, error_ns, range_ns: (0, 0) };
        offset.range_ns = offset.range(i64::midpoint(origin_ns, last_ns));
        offset
    }

    /// The offset at a time of the guest's clock.
    pub fn at(&self, at_ns: i64) -> i64 {
        let (low, up) = offsets(&self.region, apart(at_ns, self.origin_ns));
        self.base_ns.saturating_add(f64::midpoint(low, up).round() as i64)
    }

    /// The lowest and the highest possible offset at a time of the guest's clock.
    pub fn range(&self, at_ns: i64) -> (i64, i64) {
        let (low, up) = offsets(&self.region, apart(at_ns, self.origin_ns));
        let based = |offset: f64| self.base_ns.saturating_add(offset as i64);
        (based(low.floor()), based(up.ceil()))
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

/// The offset that most pairs agree on, at least this many, for the times of the guest from `first_ns` to
/// `last_ns`. `None` if they do not.
pub fn fit(pairs: &[Bounds], (first_ns, last_ns): (i64, i64), least: usize) -> Option<Offset> {
    let base_ns = pairs.iter().map(|b| b.low).min()?;
    let span = |b: &Bounds| Span {
        at: apart(b.at_ns, first_ns),
        low: apart(b.low, base_ns),
        up: apart(b.up, base_ns),
    };
    let spans: Vec<Span> = pairs.iter().map(span).collect();
    // the lines that agree with this pair, and with the others as far as they agree with those before them
    let from = |start: usize| {
        let (mut region, mut agree) = (spans[start].lines(), 0);
        for span in spans[start..].iter().chain(&spans[..start]) {
            let cut = span.cut(&region);
            agree += usize::from(!cut.is_empty());
            if (1..=MOST_CORNERS).contains(&cut.len()) {
                region = cut;
            }
        }
        (2 * agree > spans.len() && agree >= least).then_some(region)
    };
    // a wrong pair agrees with few
    let tries = STARTS.min(spans.len());
    let region = (0..tries).find_map(|n| from(n * spans.len() / tries))?;
    Some(Offset::of(region, (first_ns, base_ns), last_ns))
}

#[cfg(test)]
#[path = "clock_tests.rs"]
mod tests;
