// SPDX-License-Identifier: MIT OR Apache-2.0
//! The kernel's clock of timeouts: jiffies, and how long they are.

use std::time::Duration;

/// The timer frequencies that a kernel may have (CONFIG_HZ).
const FREQUENCIES: [u32; 4] = [100, 250, 300, 1000];

/// Jiffies at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ticks {
    /// `jiffies_64`
    pub now: u64,
    /// Ticks per second.
    pub hz: u32,
}

/// When the driver gives up on a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timeout {
    /// Since the driver started it.
    pub after: Duration,
    pub left: Duration,
}

/// `jiffies_64` at boot: five minutes before its lower half wraps around (INITIAL_JIFFIES).
fn initial(hz: u32) -> u64 {
    (1 << 32) - 300 * u64::from(hz)
}

impl Ticks {
    /// Finds the frequency from `jiffies_64` and the time since boot (CLOCK_MONOTONIC). Around 300 s
    /// after boot all frequencies give the same value: `None`.
    pub fn new(now: u64, since_boot: Duration) -> Option<Self> {
        if since_boot.abs_diff(Duration::from_secs(300)) < Duration::from_secs(10) {
            return None;
        }
        let off = |hz: u32| {
            let ticks = since_boot.as_secs_f64() * f64::from(hz);
            (initial(hz) as f64 + ticks - now as f64).abs() / f64::from(hz)
        };
        let mut by_distance = FREQUENCIES.map(|hz| (off(hz), hz));
        by_distance.sort_by(|a, b| a.0.total_cmp(&b.0));
        let [(best, hz), (second, _), ..] = by_distance;
        // seconds; the clocks may differ by a few
        (best < second / 4.0).then_some(Self { now, hz })
    }

    /// The age of a request, from its deadline and timeout in jiffies; zero if it was started up to
    /// a second later. `None` if it has none, or they make no sense.
    pub fn age(self, deadline: u64, timeout: u32) -> Option<Duration> {
        let since = deadline.checked_sub(u64::from(timeout))?;
        let age = match self.now.checked_sub(since) {
            Some(age) => age,
            None if since - self.now <= u64::from(self.hz) => 0,
            None => return None,
        };
        (deadline != 0).then(|| self.duration(age))
    }

    /// The timeout of a request, and how long until it.
    pub fn timeout(self, deadline: u64, timeout: u32) -> Option<Timeout> {
        self.age(deadline, timeout)?;
        let left = deadline.saturating_sub(self.now);
        Some(Timeout { after: self.duration(timeout.into()), left: self.duration(left) })
    }

    fn duration(self, ticks: u64) -> Duration {
        Duration::from_secs_f64(ticks as f64 / f64::from(self.hz))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn an_age_is_the_time_since_the_timer_was_set() {
        let now = Ticks { now: 10_000, hz: 250 };
        assert_eq!(now.age(17_000, 7500), Some(Duration::from_secs(2)));
        assert_eq!(now.age(0, 7500), None);
        assert_eq!(now.age(17_600, 7500), Some(Duration::ZERO), "a moment later");
        assert_eq!(now.age(20_000, 7500), None, "in the future");
        let timeout = |after, left| {
            let [after, left] = [after, left].map(Duration::from_secs);
            Some(Timeout { after, left })
        };
        assert_eq!(now.timeout(17_000, 7500), timeout(30, 28));
        assert_eq!(now.timeout(9_000, 7500), timeout(30, 0), "it is due");
        assert_eq!(now.timeout(0, 7500), None);
    }

    proptest! {
        #[test]
        fn the_frequency_is_found_except_around_five_minutes_after_boot(
            which in 0..4_usize, ms in 0..100_000_000_u64, late_ms in 0..200_u64,
        ) {
            let hz = FREQUENCIES[which];
            let now = initial(hz) + ms * u64::from(hz) / 1000;
            let found = Ticks::new(now, Duration::from_millis(ms + late_ms));
            if ms.abs_diff(300_000) > 30_000 {
                prop_assert_eq!(found, Some(Ticks { now, hz }));
            } else {
                prop_assert!(found.is_none_or(|t| t.hz == hz));
            }
        }
    }
}
