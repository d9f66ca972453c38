// SPDX-License-Identifier: MIT OR Apache-2.0
//! When commands with several reports write them.

use std::time::Duration;

use crate::model::report::idle::times;
use crate::units::parse_duration;

use super::value::{count, interval};

/// When to report.
#[derive(Clone, Copy, Debug, Default, clap::Args)]
pub struct Schedule {
    /// Report every INTERVAL (`1`, `500ms`, `5s`), not once at the end
    #[arg(value_name = "INTERVAL", value_parser = interval(
        Duration::from_millis(10), "would only measure the report itself: give at least 10ms"))]
    pub interval: Option<Duration>,

    /// Stop after COUNT reports
    #[arg(value_name = "COUNT", value_parser = count())]
    pub count: Option<u64>,

    /// Stop after this time (`5s`, `2m`)
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    pub duration: Option<Duration>,

    /// Report each interval separately
    ///
    /// Instead of everything since the start. The final report always covers the whole run.
    #[arg(long, requires = "interval")]
    pub delta: bool,
}

impl Schedule {
    /// When the next report is due after this many, and after intervals that were left out, since the
    /// first interval began. `None`: only the final one is left, which counts as one of COUNT without
    /// `--delta`.
    pub fn due(&self, written: u64, skipped: u64) -> Option<Duration> {
        let least = u64::from(!self.delta);
        let interims = self.count.map_or(u64::MAX, |n| n - least);
        let step = self.interval.filter(|_| written < interims)?;
        Some(times(step, skipped.saturating_add(written + 1)))
    }

    /// Length of the run; `None`: until it is stopped.
    pub fn end(&self) -> Option<Duration> {
        let counted = self.interval.zip(self.count);
        let counted = counted.map(|(step, n)| times(step, n));
        self.duration.into_iter().chain(counted).min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: Duration = Duration::from_secs(1);

    #[test]
    fn without_delta_the_final_report_is_one_of_count() {
        let mut schedule = Schedule { interval: Some(S), count: Some(3), ..Schedule::default() };
        assert_eq!([0, 1, 2].map(|n| schedule.due(n, 0)), [Some(S), Some(2 * S), None]);
        schedule.delta = true;
        assert_eq!([2, 3].map(|n| schedule.due(n, 0)), [Some(3 * S), None]);
        assert_eq!(schedule.due(2, 5), Some(8 * S));
        assert_eq!(Schedule::default().due(0, 0), None);
    }

    #[test]
    fn the_shorter_of_duration_and_count_ends_the_run() {
        let schedule =
            |count, duration| Schedule { interval: Some(S), count, duration, delta: false };
        assert_eq!(schedule(Some(3), Some(2 * S)).end(), Some(2 * S));
        assert_eq!(schedule(Some(3), Some(5 * S)).end(), Some(3 * S));
        assert_eq!(schedule(None, Some(5 * S)).end(), Some(5 * S));
        assert_eq!(schedule(None, None).end(), None);
    }
}
