// SPDX-License-Identifier: MIT OR Apache-2.0
//! Shares of the time, with intervals, and with bounds where stages were not observed apart.

use serde::Serialize;

use crate::units::percent;

/// A share above this is most of the time.
pub const MOST: f64 = 0.5;
/// Bounds this close are one number.
const SAME: f64 = 0.005;

/// A share of the time, 0 to 1. If its stages were not observed apart from others, it is between two
/// bounds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Share {
    /// At least this.
    pub least: f64,
    /// At most this.
    pub most: f64,
    /// Lower end of the 95 % interval of `least`.
    pub low: f64,
    /// Its upper end.
    pub high: f64,
}

impl Share {
    /// A share without an interval.
    pub const fn of(share: f64) -> Self {
        Self { least: share, most: share, low: share, high: share }
    }

    /// Whether the stages were observed apart from others.
    pub fn is_exact(&self) -> bool {
        self.most - self.least < SAME
    }

    /// Whether it is at least this, and surely half of it (two thirds, if it has to be most of the time).
    /// `None`: the bounds do not decide, or the interval is too wide.
    pub fn reaches(&self, least: f64) -> Option<bool> {
        let surely = if least >= MOST { 2.0 / 3.0 } else { 0.5 };
        match self.least >= least && self.low >= least * surely {
            true => Some(true),
            false if self.most > least => None,
            false => Some(false),
        }
    }

    /// `71% [65, 77]`, or `0 to 99%`
    pub fn text(&self) -> String {
        let whole = |x: f64| format!("{:.0}", x * 100.0);
        if !self.is_exact() {
            return self.range();
        }
        match self.low == self.high {
            true => percent(self.least),
            false => format!("{} [{}, {}]", self.range(), whole(self.low), whole(self.high)),
        }
    }

    /// `71%`, or `0 to 99%`
    pub fn range(&self) -> String {
        let whole = |share: f64| (share * 100.0).round();
        match self.is_exact() || whole(self.least) >= whole(self.most) {
            true => percent(self.least),
            false => format!("{} to {}%", whole(self.least), whole(self.most)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn between(least: f64, most: f64) -> Share {
        Share { most, ..Share::of(least) }
    }

    #[test]
    fn bounds_decide_or_leave_it_open() {
        assert_eq!(between(0.6, 0.9).reaches(MOST), Some(true));
        assert_eq!(between(0.0, 0.9).reaches(MOST), None);
        assert_eq!(between(0.0, 0.4).reaches(MOST), Some(false));
        assert_eq!(between(0.1, 0.3).reaches(0.2), None);
        let wide = Share { least: 0.7, most: 0.7, low: 0.05, high: 0.88 };
        assert_eq!(wide.reaches(MOST), None);
        assert_eq!(wide.text(), "70% [5, 88]");
    }

    #[test]
    fn bounds_are_printed_as_a_range() {
        assert_eq!(between(0.0, 0.99).text(), "0 to 99%");
        assert_eq!(between(0.98, 0.982).text(), "98%");
        assert_eq!(between(0.947, 0.953).range(), "95%");
    }
}
