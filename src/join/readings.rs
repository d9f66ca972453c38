// SPDX-License-Identifier: MIT OR Apache-2.0
//! The offset between two clocks, from readings of a third clock that both machines have: the TSC,
//! or the host's wall clock. Between readings all clocks are taken for even; how far the readings
//! are from one line is part of the error.

use super::clock::Offset;
use super::matching::NO_TIME;
use crate::model::machine::{ClockReading, SharedClock, TscScale};

/// The host's wall clock may move against its CLOCK_MONOTONIC by this: both are slewed alike, and
/// rounded.
const STILL_NS: i128 = 2;
/// Times are rounded several times.
const ROUNDING_NS: f64 = 2.0;
/// Most bits of a ratio of TSCs.
const MOST_BITS: u32 = 63;

/// A time of the third clock, and of CLOCK_MONOTONIC.
#[derive(Clone, Copy, Debug)]
struct Point {
    third: i128,
    mono_ns: i64,
    error_ns: u64,
}

/// The TSC of the virtual machine, if it was the same in all readings that have it.
fn scale(host: &[ClockReading]) -> Result<TscScale, String> {
    let mut all = host.iter().filter_map(|r| r.guest);
    let first = all.next().filter(|scale| scale.ratio > 0 && scale.bits <= MOST_BITS);
    let first = first.ok_or(
        "the recording of the host side has no TSC offset of the virtual machine: record it by `host trace \
         --pid` of a process with one virtual machine of KVM, as root, with debugfs mounted",
    )?;
    match all.all(|scale| scale == first) {
        true => Ok(first),
        false => Err(
            "the TSC offset of the virtual machine changed during the recording, by a reboot or a \
                      migration"
                .into(),
        ),
    }
}

/// The readings of one clock, by time.
fn points(all: &[ClockReading], clock: SharedClock, third: impl Fn(u64) -> i128) -> Vec<Point> {
    let is_time = |r: &&ClockReading| r.mono_ns < NO_TIME && r.error_ns < NO_TIME;
    let of_it = all.iter().filter(|r| r.clock == clock).filter(is_time);
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

/// CLOCK_MONOTONIC at a time of the third clock, and its error, from two readings or more. Beyond them the
/// line through the first and the last one is continued.
fn mono_at(points: &[Point], third: i128) -> (i64, f64) {
    let after = points.partition_point(|p| p.third < third).max(1);
    let is_inside = points[0].third <= third && after < points.len();
    let (a, b) = if is_inside { (after - 1, after) } else { (0, points.len() - 1) };
    let (a, b) = (&points[a], &points[b]);
    let length = (b.third - a.third) as f64;
    let share = (third - a.third) as f64 / length;
    let mono_ns = a.mono_ns.saturating_add((share * (b.mono_ns - a.mono_ns) as f64).round() as i64);
    let beyond = (-share).max(share - 1.0).max(0.0);
    let error = a.error_ns.max(b.error_ns) as f64;
    (mono_ns, error * (1.0 + 2.0 * beyond))
}

/// The offset of the host's clock, from the readings of both recordings. `third`: the clock by which the
/// guest's is compared, its TSC or the host's wall clock. `span`: the times of the guest for which it is
/// needed. Outside the readings the error is larger.
///
/// # Errors
/// If a side has fewer than two readings of the clock, or the clock was set: why.
pub fn by_readings(
    guest: &[ClockReading],
    host: &[ClockReading],
    third: SharedClock,
    span: (i64, i64),
) -> Result<Offset, String> {
    let same = |value: u64| i128::from(value);
    let (guest, host, names) = match third {
        SharedClock::Tsc => {
            let TscScale { offset, ratio, bits } = scale(host)?;
            let host_ticks =
                |guest: u64| ((same(guest) - i128::from(offset)) << bits) / same(ratio);
            (points(guest, third, host_ticks), points(host, third, same), ["the TSC (x86 only)"; 2])
        }
        _ => {
            let host = points(host, SharedClock::Wall, same);
            (points(guest, third, same), host, ["ptp_kvm", "its wall clock"])
        }
    };
    for (points, side, name, why) in [
        (
            &guest,
            "guest",
            names[0],
            "made with --redact, or its clock was not there when `record` began",
        ),
        (&host, "host side", names[1], "an import"),
    ] {
        if points.len() < 2 {
            return Err(format!(
                "the recording of the {side} does not have two readings of {name}: it is older than \
                 these, or {why}"
            ));
        }
    }
    if third != SharedClock::Tsc && was_set(&host) {
        return Err("the wall clock of the host was set during the recording".into());
    }
    // the offset at each reading of the guest, and its error
    let samples = guest.iter().map(|p| {
        let (host_ns, error) = mono_at(&host, p.third);
        (p.mono_ns, host_ns.saturating_sub(p.mono_ns), error + p.error_ns as f64)
    });
    let samples: Vec<(i64, i64, f64)> = samples.collect();
    let (first, last) = (samples[0], samples[samples.len() - 1]);
    let line = Offset::line((first.0, first.1), (last.0, last.1), 0);
    let apart = |s: &(i64, i64, f64)| s.1.abs_diff(line.at(s.0)) as f64 + s.2;
    let error = samples.iter().map(apart).fold(0.0, f64::max);
    let (from, to) = (first.0.min(span.0), last.0.max(span.1));
    let before = first.0.saturating_sub(from);
    let beyond = before.max(to.saturating_sub(last.0)) as f64;
    let beyond = beyond / last.0.saturating_sub(first.0).max(1) as f64;
    let error = (error + ROUNDING_NS) * (1.0 + 2.0 * beyond);
    Ok(Offset::line((from, line.at(from)), (to, line.at(to)), error.ceil() as u64))
}

/// Whether the distance between a wall clock and CLOCK_MONOTONIC has changed.
fn was_set(points: &[Point]) -> bool {
    let distance = |p: &Point| p.third - i128::from(p.mono_ns);
    let Some((first, later)) = points.split_first() else {
        return false;
    };
    later.iter().any(|p| {
        let errors = i128::from(first.error_ns) + i128::from(p.error_ns) + STILL_NS;
        (distance(p) - distance(first)).abs() > errors
    })
}

#[cfg(test)]
#[path = "readings_tests.rs"]
mod tests;
