// SPDX-License-Identifier: MIT OR Apache-2.0
//! Ticks of axes: round numbers, and where they are.

use crate::units::{nanos, size_text};

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
    /// Numbers, on a linear scale.
    Numbers,
}

/// The unit for times up to this one: nanoseconds in it, and its name.
pub fn time_unit(span_ns: u64) -> (u64, &'static str) {
    let units = [
        (3_600_000_000_000, "h"),
        (60_000_000_000, "min"),
        (1_000_000_000, "s"),
        (1_000_000, "ms"),
    ];
    let fits = |unit: &&(u64, &str)| span_ns / unit.0 >= 3;
    units.iter().find(fits).copied().unwrap_or((1_000, "us"))
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

/// A number with the unit of its step: `40k`, `1.5M` never, `1500k` instead.
fn scaled(value: u64, step: u64) -> String {
    let units = [(1_000_000_000, "G"), (1_000_000, "M"), (1_000, "k")];
    match units.into_iter().find(|(unit, _)| step.is_multiple_of(*unit) && value > 0) {
        Some((unit, name)) => format!("{}{name}", value / unit),
        None => value.to_string(),
    }
}

/// A duration of one digit: `200us`, `1ms`.
fn short(ns: u64) -> String {
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
                let tick = |value| Tick { value, label: scaled(value, step) };
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

    fn labels(axis: Axis, first: u64, last: u64) -> String {
        let ticks = axis.ticks(first, last, 8);
        let labels = ticks.into_iter().map(|t| t.label);
        let labels: Vec<String> = labels.filter(|label| !label.is_empty()).collect();
        labels.join(" ")
    }

    #[test]
    fn ticks_are_round() {
        assert_eq!(labels(Axis::Numbers, 0, 32), "0 5 10 15 20 25 30");
        assert_eq!(labels(Axis::Numbers, 0, 1_000_000), "0 200k 400k 600k 800k 1000k");
        assert_eq!(
            labels(Axis::Numbers, 2_000_100, 2_000_161),
            "2000100 2000110 2000120 2000130 2000140 2000150 2000160"
        );
        assert_eq!(labels(Axis::Durations, 90_000, 3_000_000), "100us 200us 500us 1ms 2ms");
        assert_eq!(labels(Axis::Durations, 900, 30_000_000), "1us 10us 100us 1ms 10ms");
        assert_eq!(labels(Axis::Bytes, 500, 9000), "512B 1K 2K 4K 8K");
        assert_eq!(labels(Axis::Numbers, 5, 5), "5");
        assert_eq!(labels(Axis::Numbers, u64::MAX, u64::MAX).len(), 20);
    }

    #[test]
    fn the_unit_of_time_fits_the_length_of_the_run() {
        for (ns, unit) in [
            (10_000, "us"),
            (2_999_999, "us"),
            (3_000_000, "ms"),
            (3_000_000_000, "s"),
            (600_000_000_000, "min"),
            (90_000_000_000_000, "h"),
        ] {
            assert_eq!(time_unit(ns).1, unit, "{ns}");
        }
    }
}
