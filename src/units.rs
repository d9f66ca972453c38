// SPDX-License-Identifier: MIT OR Apache-2.0
//! Parsing of durations, sizes and shares; formatting of durations, sizes and rates. Text with an
//! unknown unit is rejected.

use std::time::Duration;

/// Why a text is not a duration.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DurationError {
    /// There is no number, or the unit is not known.
    #[error("`{text}` is not a time: give a number and us, ms, s, m or h, as in `5s`")]
    Malformed {
        /// The text.
        text: String,
    },
    /// The duration is zero.
    #[error("`{text}` is too short: a duration must be above zero")]
    Zero {
        /// The text.
        text: String,
    },
    /// A latency without a unit: users of other tools mean milliseconds, and get seconds.
    #[error("`{text}` has no unit: give `{text}ms` or `{text}s`")]
    NoUnit {
        /// The text.
        text: String,
    },
    /// The duration is above the limit.
    #[error("`{text}` is longer than a year: give a shorter duration")]
    TooLong {
        /// The text.
        text: String,
    },
}

/// `1 cmd`, `2 cmds`
pub fn counted(n: u64, what: &str) -> String {
    format!("{n} {what}{}", if n == 1 { "" } else { "s" })
}

/// A size in bytes: `512B`, `4K`, `1.5M`, `2G`. A decimal only where there is a fraction.
pub fn size_text(bytes: u64) -> String {
    let units = [(1_u64 << 40, "T"), (1 << 30, "G"), (1 << 20, "M"), (1 << 10, "K")];
    // 1023.96K is 1M
    let unit = units.into_iter().find(|(unit, _)| bytes >= unit - unit / 2048);
    let Some((unit, name)) = unit else {
        return format!("{bytes}B");
    };
    let text = format!("{:.1}", bytes as f64 / unit as f64);
    format!("{}{name}", text.strip_suffix(".0").unwrap_or(&text))
}

/// A share of 0 to 1: `53%`, `4.3%`.
pub fn percent(share: f64) -> String {
    let percent = 100.0 * share;
    if percent == 0.0 || percent >= 9.95 {
        format!("{percent:.0}%")
    } else {
        format!("{percent:.1}%")
    }
}

/// Parses `5s`, `500ms`, `2m`, `1h`, or a bare number of seconds (`1`, `0.5`).
///
/// # Errors
/// If the text is not a duration, is not above zero, or is longer than a year (366 days).
pub fn parse_duration(text: &str) -> Result<Duration, DurationError> {
    let owned = || text.to_owned();
    let digits = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let scale = match unit {
        "" | "s" => 1.0,
        "ms" => 1e-3,
        "us" => 1e-6,
        "m" | "min" => 60.0,
        "h" => 3600.0,
        _ => return Err(DurationError::Malformed { text: owned() }),
    };
    let value: f64 = number.parse().map_err(|_| DurationError::Malformed { text: owned() })?;
    let seconds = value * scale;
    if seconds <= 0.0 {
        return Err(DurationError::Zero { text: owned() });
    }
    if seconds > 366.0 * 86400.0 {
        return Err(DurationError::TooLong { text: owned() });
    }
    Ok(Duration::from_secs_f64(seconds))
}

/// Parses a latency. It needs a unit.
///
/// # Errors
/// As [`parse_duration`]; a number without a unit.
pub fn parse_latency(text: &str) -> Result<Duration, DurationError> {
    let duration = parse_duration(text)?;
    match text.ends_with(|last: char| last.is_ascii_digit() || last == '.') {
        true => Err(DurationError::NoUnit { text: text.to_owned() }),
        false => Ok(duration),
    }
}

/// Parses `16M` and the like.
///
/// # Errors
/// If the text is not a size; one sentence.
pub fn parse_size(text: &str) -> Result<u64, String> {
    let digits = text.trim_end_matches(|c: char| !c.is_ascii_digit());
    let shift = match &text[digits.len()..] {
        "" => Some(0),
        "K" | "k" | "KiB" => Some(10),
        "M" | "m" | "MiB" => Some(20),
        "G" | "g" | "GiB" => Some(30),
        _ => None,
    };
    let bytes = digits.parse::<u64>().ok().zip(shift);
    let bytes = bytes.and_then(|(n, shift)| n.checked_mul(1 << shift));
    bytes.ok_or_else(|| format!("`{text}` is not a size: give a number and K, M or G, as in `16M`"))
}

/// Parses `1/64`; returns 64.
///
/// # Errors
/// If the text is not a share; one sentence.
pub fn parse_share(text: &str) -> Result<u32, String> {
    let n = text.strip_prefix("1/").and_then(|n| n.parse().ok());
    n.filter(|&n| n > 0).ok_or_else(|| {
        format!(
            "`{text}` is not a share of the commands: give one in so many, as in `--sample 1/64`"
        )
    })
}

/// Formats nanoseconds: `950ns`, `12.3us`, `1.05ms`, `2.10s`. Up to three significant digits below
/// 1000 s.
pub fn nanos(ns: f64) -> String {
    let (value, unit) = if ns < 999.5 {
        return format!("{ns:.0}ns");
    } else if ns < 999.5e3 {
        (ns / 1e3, "us")
    } else if ns < 999.5e6 {
        (ns / 1e6, "ms")
    } else {
        (ns / 1e9, "s")
    };
    if value < 9.995 {
        format!("{value:.2}{unit}")
    } else if value < 99.95 {
        format!("{value:.1}{unit}")
    } else {
        format!("{value:.0}{unit}")
    }
}

/// Formats a rate: `99.9`, `9994`, `12.3k`, `123k`, `1.50M`.
pub fn rate(per_second: f64) -> String {
    if per_second >= 999_500.0 {
        format!("{:.2}M", per_second / 1e6)
    } else if per_second >= 99_950.0 {
        format!("{:.0}k", per_second / 1e3)
    } else if per_second >= 9_995.0 {
        format!("{:.1}k", per_second / 1e3)
    } else if per_second >= 100.0 {
        format!("{per_second:.0}")
    } else {
        format!("{per_second:.1}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_need_a_unit_that_exists_and_a_value_above_zero() {
        assert_eq!(parse_duration("250ms"), Ok(Duration::from_millis(250)));
        assert_eq!(parse_duration("0.5"), Ok(Duration::from_millis(500)));
        assert_eq!(parse_duration("2m"), Ok(Duration::from_secs(120)));
        for wrong in ["", "0", "0s", "-1", "5 s", "5d", "s", "1.2.3", "99999h", "nan", "inf"] {
            assert!(parse_duration(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn nanoseconds_keep_three_digits_and_never_a_fourth() {
        let texts: Vec<_> = [0.0, 7.0, 999.4, 999.6, 12_345.0, 999_600.0, 1.05e6, 2.1e9, 65e9]
            .into_iter()
            .map(nanos)
            .collect();
        let want =
            ["0ns", "7ns", "999ns", "1.00us", "12.3us", "1.00ms", "1.05ms", "2.10s", "65.0s"];
        assert_eq!(texts, want);
    }

    #[test]
    fn sizes_and_shares_are_short() {
        for (bytes, text) in [
            (0, "0B"),
            (512, "512B"),
            (1023, "1023B"),
            (4096, "4K"),
            (131_072, "128K"),
            (1_572_864, "1.5M"),
            ((1 << 20) - 1, "1M"),
            (2 << 30, "2G"),
            (15 << 38, "3.8T"),
        ] {
            assert_eq!(size_text(bytes), text);
        }
        for (share, text) in
            [(0.0, "0%"), (0.0432, "4.3%"), (0.0996, "10%"), (0.533, "53%"), (1.0, "100%")]
        {
            assert_eq!(percent(share), text);
        }
    }

    #[test]
    fn rates_stay_short() {
        let texts: Vec<_> =
            [0.0, 99.9, 100.0, 9_994.0, 12_340.0, 123_400.0, 1.5e6].into_iter().map(rate).collect();
        assert_eq!(texts, ["0.0", "99.9", "100", "9994", "12.3k", "123k", "1.50M"]);
    }
}
