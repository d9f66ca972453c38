// SPDX-License-Identifier: MIT OR Apache-2.0
//! Values on the command line. The errors of the standard library do not say what is expected.

use std::fmt::Display;
use std::ops::RangeInclusive;
use std::str::FromStr;
use std::time::Duration;

use crate::units::parse_duration;
use clap::builder::ValueParser;

/// Parses a whole decimal number in a range.
fn number_in<T>(text: &str, range: &RangeInclusive<T>) -> Result<T, String>
where
    T: FromStr + PartialOrd + Display,
{
    let number = text.parse().ok().filter(|n| range.contains(n));
    number.ok_or_else(|| {
        let (first, last) = (range.start(), range.end());
        format!("expected a whole number from {first} to {last}")
    })
}

/// A whole decimal number in this range.
pub fn number<T>(range: RangeInclusive<T>) -> ValueParser
where
    T: FromStr + PartialOrd + Display + Clone + Send + Sync + 'static,
{
    ValueParser::new(move |text: &str| number_in(text, &range))
}

/// A number of things to wait for or to show: at least one.
pub fn count() -> ValueParser {
    ValueParser::new(|text: &str| {
        let number = text.parse().ok().filter(|n: &u64| *n > 0);
        number.ok_or("expected a whole number of at least 1")
    })
}

/// An interval that is not shorter than this. `why`: what a shorter one is, and what to give.
pub fn interval(least: Duration, why: &'static str) -> ValueParser {
    ValueParser::new(move |text: &str| {
        if text.starts_with("/dev/") {
            return Err(format!("a disk is an option: --disk {text}"));
        }
        if !text.starts_with(|first: char| first.is_ascii_digit() || first == '.') {
            return Err("it is neither a file nor a time: give a recording, or an interval \
                        as in `1` or `500ms`"
                .to_owned());
        }
        let interval = parse_duration(text).map_err(|error| error.to_string())?;
        match interval < least {
            true => Err(format!("an interval of {interval:?} {why}")),
            false => Ok(interval),
        }
    })
}
