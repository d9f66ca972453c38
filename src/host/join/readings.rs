// SPDX-License-Identifier: MIT OR Apache-2.0
//! The offset between two clocks, from readings of a third clock that both machines have: the TSC,
//! or the host's wall clock. Between readings all clocks are taken for even; how far the readings
//! are from one line is part of the error.

use super::clock::Offset;
use crate::recording::ClockReading;
use crate::recording::SharedClock;
use crate::recording::TscScale;

/// The host's wall clock may move against its CLOCK_MONOTONIC by this: readings are rounded.
const STILL_NS: i64 = 1000;

/// Why there is no offset.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NoOffset {
    /// The guest's recording lacks readings.
    #[error("the recording of the guest does not have two readings of {0}")]
    Guest(&'static str),
    /// The host's recording lacks readings.
    #[error("the recording of the host side does not have two readings of {0}")]
    Host(&'static str),
    /// The host's wall clock was set.
    #[error("the wall clock of the host was set during the recording")]
    Set,
}

/// The third clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Third {
    /// The TSC, of which the guest has its own.
    Tsc(TscScale),
    /// The host's wall clock, which the guest reads by ptp_kvm.
    Ptp,
}

/// A time of the third clock, and that of CLOCK_MONOTONIC.
#[derive(Clone, Copy, Debug)]
struct Point {
    third: i128,
    mono_ns: i64,
    error_ns: u64,
}

impl TscScale {
    /// The host's TSC at a value of the guest's.
    fn host_ticks(self, guest: u64) -> i128 {
        let ticks = i128::from(guest) - i128::from(self.offset);
        (ticks << self.bits.min(63)) / i128::from(self.ratio.max(1))
    }
}

/// The readings of one clock, by time.
fn points(all: &[ClockReading], clock: SharedClock, third: impl Fn(u64) -> i128) -> Vec<Point> {
    let of_it = all.iter().filter(|r| r.clock == clock);
    let mut points: Vec<Point> = of_it
        .map(|r| Point {
            third: third(r.value),
            mono_ns: r.mono_ns.cast_signed(),
            error_ns: r.error_ns,
        })
        .collect();
    points.sort_by_key(|p| p.mono_ns);
    points.dedup_by_key(|p| p.third);
    points
}

/// The host's time at a time of the third clock, and its error. Beyond the readings the line through
/// the first and the last one is continued.
fn host_time(points: &[Point], third: i128) -> Option<(i64, f64)> {
    let (first, last) = (points.first()?, points.last()?);
    let inside = points
        .windows(2)
        .find(|w| w[0].third <= third && third <= w[1].third);
    let (a, b) = inside.map_or((first, last), |w| (&w[0], &w[1]));
    let length = (b.third - a.third) as f64;
    let share = (third - a.third) as f64 / length;
    let mono_ns = a.mono_ns + (share * (b.mono_ns - a.mono_ns) as f64).round() as i64;
    let beyond = (-share).max(share - 1.0).max(0.0);
    let error = a.error_ns.max(b.error_ns) as f64;
    Some((mono_ns, error * (1.0 + 2.0 * beyond)))
}

/// The offset of the host's clock, from the readings of both recordings.
///
/// # Errors
/// If a side has fewer than two readings of the clock, or the clock was set.
pub fn by_readings(
    guest: &[ClockReading],
    host: &[ClockReading],
    third: Third,
) -> Result<Offset, NoOffset> {
    let same = |value: u64| i128::from(value);
    let (guest, host, names) = match third {
        Third::Tsc(scale) => (
            points(guest, SharedClock::Tsc, |value| scale.host_ticks(value)),
            points(host, SharedClock::Tsc, same),
            ("the TSC", "the TSC"),
        ),
        Third::Ptp => (
            points(guest, SharedClock::HostWall, same),
            points(host, SharedClock::Wall, same),
            ("ptp_kvm", "its wall clock"),
        ),
    };
    if guest.len() < 2 {
        return Err(NoOffset::Guest(names.0));
    }
    if host.len() < 2 {
        return Err(NoOffset::Host(names.1));
    }
    if third == Third::Ptp && was_set(&host) {
        return Err(NoOffset::Set);
    }
    let offsets: Vec<(i64, i64, f64)> = guest
        .iter()
        .filter_map(|p| {
            let (host_ns, error) = host_time(&host, p.third)?;
            Some((p.mono_ns, host_ns - p.mono_ns, error + p.error_ns as f64))
        })
        .collect();
    let ends = offsets.first().zip(offsets.last());
    let (first, last) = ends.ok_or(NoOffset::Guest(names.0))?;
    let (from, to) = ((first.0, first.1), (last.0, last.1));
    let line = Offset::line(from, to, 0);
    let apart = |o: &(i64, i64, f64)| (o.1 - line.at(o.0)).unsigned_abs() as f64 + o.2;
    let error = offsets.iter().map(apart).fold(0.0, f64::max);
    Ok(Offset::line(from, to, error.ceil() as u64))
}

/// Whether the distance between a wall clock and CLOCK_MONOTONIC has changed: both are slewed alike.
fn was_set(points: &[Point]) -> bool {
    let distance = |p: &Point| p.third - i128::from(p.mono_ns);
    points.windows(2).any(|w| {
        let errors = i128::from(w[0].error_ns + w[1].error_ns) + i128::from(STILL_NS);
        (distance(&w[1]) - distance(&w[0])).abs() > errors
    })
}

#[cfg(test)]
#[path = "readings_tests.rs"]
mod tests;
