// SPDX-License-Identifier: MIT OR Apache-2.0
//! Ticks of axes: round numbers, and where they are.

use crate::units::{nanos, size_text};
use crate::when::RunClock;

/// A tick.
#[derive(Clone, Debug, PartialEq)]
pub struct Tick {
    /// The value.
    pub value: u64,
    /// The text; empty for a line without one.
    pub label: String,
}

/// What the numbers of an axis are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Axis {
    /// Durations in nanoseconds, on a logarithmic scale.
    Durations,
    /// Bytes, on a logarithmic scale.
    Bytes,
    /// Numbers of blocks of this many bytes, on a linear scale: labelled as bytes.
    Blocks(u64),
    /// Numbers, on a linear scale.
    Numbers,
}

/// 1, 2 or 5 times a power of ten: the smallest that divides the span into at most `most` parts.
fn step(span: u64, most: u64) -> u64 {
    let least = span.div_ceil(most.max(1)).max(1);
    let mut ten: u64 = 1;
    loop {
        for factor in [1, 2, 5] {
            if ten.saturating_mul(factor) >= least {
                return ten.saturating_mul(factor);
            }
        }
        ten = ten.saturating_mul(10);
    }
}

/// A duration of one digit: `200us`, `1ms`.
pub fn short(ns: u64) -> String {
    let text = nanos(ns as f64);
    let digits = text.find(|c: char| c.is_ascii_alphabetic()).unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    if number.contains('.') {
        let number = number.trim_end_matches('0').trim_end_matches('.');
        format!("{number}{unit}")
    } else {
        text
    }
}

impl Axis {
    /// The ticks in this range, both ends included: at most about `most`.
    #[must_use]
    pub fn ticks(self, first: u64, last: u64, most: u64) -> Vec<Tick> {
        match self {
            Self::Numbers => {
                let step = step(last.saturating_sub(first), most);
                let values = (first.div_ceil(step)..=last / step).map(|n| n * step);
                let tick = |value| Tick { value, label: value.to_string() };
                values.map(tick).collect()
            }
            Self::Blocks(bytes) => {
                let (first, last) = (first.saturating_mul(bytes), last.saturating_mul(bytes));
                let step = (last - first).div_ceil(most).max(bytes).checked_next_power_of_two();
                let step = step.unwrap_or(1 << 63);
                let values = (first.div_ceil(step)..=last / step).map(|n| n * step);
                // a small part of a large disk needs all digits
                let units = [(30, "G"), (20, "M"), (10, "K"), (0, "B")];
                let (shift, unit) = *units.iter().find(|(n, _)| step >> n > 0).unwrap_or(&units[3]);
                let all = |at: u64| format!("{}{unit}", at >> shift);
                let is_short = size_text(last) != size_text(last.saturating_sub(step));
                let label = |at| if is_short { size_text(at) } else { all(at) };
                let tick = |at| Tick { value: at / bytes, label: label(at) };
                values.map(tick).collect()
            }
            Self::Durations => durations(first, last, most),
            Self::Bytes => {
                let inside = (0..63).map(|n| 1_u64 << n).filter(|v| (first..=last).contains(v));
                let all: Vec<u64> = inside.collect();
                let every = all.len().div_ceil(most.max(1) as usize).max(1);
                let tick = |value: u64| Tick {
                    value,
                    label: if (value.ilog2() as usize).is_multiple_of(every) {
                        size_text(value)
                    } else {
                        String::new()
                    },
                };
                all.into_iter().map(tick).collect()
            }
        }
    }
}

/// Ticks of a time axis: round times of day, or since the start if the clock is not known. The values and
/// the ends are nanoseconds since the start.
pub fn times(clock: RunClock, begin_ns: u64, end_ns: u64, most: u64) -> Vec<Tick> {
    const S: u64 = 1_000_000_000;
    let round = [
        2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10_800, 21_600, 43_200, 86_400,
    ];
    let (span, least) = (end_ns - begin_ns, step(end_ns - begin_ns, most));
    let mut round = round.map(|n| n * S).into_iter().filter(|step| *step >= span.div_ceil(most));
    let step = if least <= S { least } else { round.next().unwrap_or(least) };
    // the time of day of the start
    let day = clock.real_ns(clock.begin_ns).map_or(0, |ns| ns.cast_unsigned() % (86_400 * S));
    let digits = if step < S { 9 - step.ilog10() as usize } else { 0 };
    let format = match step {
        0..S => format!("%H:%M:%S%.{digits}f"),
        step if step % (60 * S) > 0 => "%H:%M:%S".into(),
        _ => "%H:%M".into(),
    };
    let label = |at: u64| {
        let known = clock.utc(clock.begin_ns.saturating_add(at), &format);
        known.unwrap_or_else(|| format!("{:.digits$} s", at as f64 / S as f64))
    };
    let first = (day + begin_ns).div_ceil(step);
    let values = (first..=(day + end_ns) / step).map(|n| n * step - day);
    values.map(|value| Tick { value, label: label(value) }).collect()
}

/// Powers of ten, and 2 and 5 times them if there is room.
fn durations(first: u64, last: u64, most: u64) -> Vec<Tick> {
    let tens = (0..19).map(|n| 10_u64.pow(n));
    let all: Vec<(u64, u64)> = tens
        .flat_map(|ten| [1, 2, 5].map(|factor| (factor, ten * factor)))
        .filter(|(_, value)| (first..=last).contains(value))
        .collect();
    let room = all.len() as u64 <= most;
    let tick = |(factor, value): (u64, u64)| Tick {
        value,
        label: if room || factor == 1 { short(value) } else { String::new() },
    };
    all.into_iter().map(tick).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round() {
        const M: u64 = 1_000_000;
        for (axis, first, last, want) in [
            (Axis::Numbers, 0, 32, "0 5 10 15 20 25 30"),
            (Axis::Numbers, 0, M, "0 200000 400000 600000 800000 1000000"),
            (Axis::Numbers, 700_100, 700_161, "700100 700110 700120 700130 700140 700150 700160"),
            (Axis::Durations, 90_000, 3 * M, "100us 200us 500us 1ms 2ms"),
            (Axis::Durations, 900, 30 * M, "1us 10us 100us 1ms 10ms"),
            (Axis::Bytes, 500, 9000, "512B 1K 2K 4K 8K"),
            (Axis::Blocks(512), 0, 1 << 21, "0B 128M 256M 384M 512M 640M 768M 896M 1G"),
            (Axis::Blocks(4096), 1000, 1010, "4000K 4008K 4016K 4024K 4032K 4040K"),
            (Axis::Numbers, 5, 5, "5"),
            (Axis::Numbers, u64::MAX, u64::MAX, "18446744073709551615"),
        ] {
            let labels = axis.ticks(first, last, 8).into_iter().map(|tick| tick.label);
            let labels: Vec<String> = labels.filter(|label| !label.is_empty()).collect();
            assert_eq!(labels.join(" "), want);
        }
    }

    #[test]
    fn times_are_round_on_the_clock() {
        const S: u64 = 1_000_000_000;
        // 2026-11-26T23:59:50Z
        let known = RunClock { begin_ns: 7, wall_ns: Some(1_795_737_590_000_000_000 - 7) };
        let unknown = RunClock::default();
        for (clock, begin, end, want) in [
            (known, 0, 25 * S, "23:59:50 23:59:55 00:00:00 00:00:05 00:00:10 00:00:15"),
            (known, S + 1, 100 * S, "00:00:00 00:00:30 00:01:00 00:01:30"),
            (known, S, 2 * S, "23:59:51.0 23:59:51.2 23:59:51.4 23:59:51.6 23:59:51.8 23:59:52.0"),
            (known, 0, 7200 * S, "00:00 00:30 01:00 01:30"),
            (unknown, S + 1, 4 * S, "1.5 s 2.0 s 2.5 s 3.0 s 3.5 s 4.0 s"),
            (unknown, 0, S / 1000, "0.0000 s 0.0002 s 0.0004 s 0.0006 s 0.0008 s 0.0010 s"),
        ] {
            let labels: Vec<_> = times(clock, begin, end, 6).into_iter().map(|t| t.label).collect();
            assert_eq!(labels.join(" "), want);
        }
        assert_eq!(times(known, 0, 25 * S, 6)[2].value, 10 * S);
    }
}
