// SPDX-License-Identifier: MIT OR Apache-2.0
//! Times without an event in a recording. Views by interval leave long ones out: a time line may have
//! gaps of years, and must not cost more than its events.

use std::time::Duration;

use crate::units::nanos;

/// Most intervals without an event, one after the other, that have reports.
pub const IN_A_ROW: u64 = 60;
/// Most such intervals of a recording that have reports.
pub const IN_ALL: u64 = 3600;

/// `n` times `step`; saturates.
#[must_use]
pub fn times(step: Duration, n: u64) -> Duration {
    let ns = step.as_nanos().saturating_mul(n.into());
    let seconds = u64::try_from(ns / 1_000_000_000).unwrap_or(u64::MAX);
    Duration::new(seconds, (ns % 1_000_000_000) as u32)
}

/// The intervals that are left out.
#[derive(Clone, Debug, Default)]
pub struct Idle {
    reported: u64,
    /// Number of intervals that were left out so far.
    pub skipped: u64,
    longest: Duration,
}

impl Idle {
    /// How many intervals of length `step` to leave out before an event at `at`. They come after the
    /// one that ends at `due`, which has a report.
    pub fn skip(&mut self, due: Duration, at: Duration, step: Duration) -> u64 {
        let gap = at.saturating_sub(due);
        let empty = gap.as_nanos() / step.as_nanos().max(1);
        let empty = u64::try_from(empty).unwrap_or(u64::MAX);
        if empty <= IN_A_ROW && empty <= IN_ALL - self.reported {
            self.reported += empty;
            return 0;
        }
        self.skipped = self.skipped.saturating_add(empty);
        self.longest = self.longest.max(gap);
        empty
    }

    /// A sentence on what was left out.
    #[must_use]
    pub fn text(&self) -> Option<String> {
        let longest = nanos(self.longest.as_nanos() as f64);
        (self.skipped > 0).then(|| {
            format!(
                "{} intervals without an event are left out; the longest gap lasts {longest}",
                self.skipped
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: Duration = Duration::from_secs(1);

    #[test]
    fn short_gaps_have_reports_and_long_ones_none() {
        let mut idle = Idle::default();
        assert_eq!(idle.skip(S, 61 * S + S / 2, S), 0);
        assert_eq!(idle.text(), None);
        assert_eq!(idle.skip(S, 62 * S, S), 61);
        assert_eq!(idle.skip(S, Duration::MAX, S), u64::MAX - 1);
        assert_eq!(idle.skip(2 * S, S, S), 0);
        assert!(idle.text().is_some_and(|t| t.contains("18446744073709551615 intervals")));
    }

    #[test]
    fn many_short_gaps_have_an_end() {
        let mut idle = Idle::default();
        let reported: u64 = (0..1000).map(|_| 50 - idle.skip(S, 51 * S, S)).sum();
        assert_eq!(reported, IN_ALL);
    }

    #[test]
    fn a_multiple_saturates() {
        assert_eq!(times(Duration::from_millis(1500), 5), Duration::from_millis(7500));
        assert_eq!(times(Duration::MAX, u64::MAX).as_secs(), u64::MAX);
    }
}
