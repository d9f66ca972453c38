// SPDX-License-Identifier: MIT OR Apache-2.0
//! When commands with several reports write them, checked.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::Error;
use anyhow::Result;
use nvme_deep::report::idle::times;
use nvme_deep::units::parse_duration;

use super::usage;
use crate::cli::schedule::ScheduleArgs;

/// When to report.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Schedule {
    /// Time between reports; `None`: only the final report.
    pub interval: Option<Duration>,
    /// Number of reports.
    pub count: Option<u64>,
    /// Length of the run.
    pub duration: Option<Duration>,
    /// Each report covers its interval, not the run so far.
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

/// Refuses an interval that is too short.
pub(super) fn check_interval(interval: Option<Duration>) -> Result<()> {
    match interval.filter(|i| *i < Duration::from_millis(10)) {
        None => Ok(()),
        Some(short) => Err(usage(format!(
            "an interval of {short:?} would only measure the report itself: give at least 10ms"
        ))),
    }
}

/// Refuses a time after the files of `--from`: it was meant as INTERVAL or COUNT.
pub(super) fn refuse_interval_among(from: &[PathBuf]) -> Result<()> {
    let texts = from.iter().skip(1).filter_map(|path| path.to_str());
    match texts.into_iter().find(|t| parse_duration(t).is_ok()) {
        None => Ok(()),
        Some(time) => Err(usage(format!(
            "`{time}` after --from is a file, not a time: give INTERVAL and COUNT before --from, or \
             write `./{time}`"
        ))),
    }
}

impl TryFrom<ScheduleArgs> for Schedule {
    type Error = Error;

    fn try_from(args: ScheduleArgs) -> Result<Self> {
        let ScheduleArgs {
            interval,
            count,
            duration,
            delta,
        } = args;
        check_interval(interval)?;
        Ok(Self {
            interval,
            count,
            duration,
            delta,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: Duration = Duration::from_secs(1);

    #[test]
    fn without_delta_the_final_report_is_one_of_count() {
        let mut schedule = Schedule {
            interval: Some(S),
            count: Some(3),
            ..Schedule::default()
        };
        assert_eq!(
            [0, 1, 2].map(|n| schedule.due(n, 0)),
            [Some(S), Some(2 * S), None]
        );
        schedule.delta = true;
        assert_eq!([2, 3].map(|n| schedule.due(n, 0)), [Some(3 * S), None]);
        assert_eq!(schedule.due(2, 5), Some(8 * S));
        assert_eq!(Schedule::default().due(0, 0), None);
    }

    #[test]
    fn the_shorter_of_duration_and_count_ends_the_run() {
        let schedule = |count, duration| Schedule {
            interval: Some(S),
            count,
            duration,
            delta: false,
        };
        assert_eq!(schedule(Some(3), Some(2 * S)).end(), Some(2 * S));
        assert_eq!(schedule(Some(3), Some(5 * S)).end(), Some(3 * S));
        assert_eq!(schedule(None, Some(5 * S)).end(), Some(5 * S));
        assert_eq!(schedule(None, None).end(), None);
    }
}
