// SPDX-License-Identifier: MIT OR Apache-2.0
//! Moments of a run as people give them (`--since 14:03:07`) and read them. Events have
//! CLOCK_MONOTONIC times.

use std::fmt;
use std::time::Duration;

use jiff::civil::{DateTime, Time};
use jiff::tz::TimeZone;
use jiff::{Timestamp, ToSpan, Zoned};

use crate::units::{DurationError, parse_duration};

/// Ends the names of times in UTC.
const UTC: [&str; 2] = ["UTC", "Z"];

/// How the times of a run become times of day.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RunClock {
    /// The start of the run, CLOCK_MONOTONIC nanoseconds.
    pub begin_ns: u64,
    /// Wall clock minus CLOCK_MONOTONIC, in nanoseconds; `None`: not recorded.
    pub wall_ns: Option<i64>,
}

/// Local time in this format of strftime. `real_ns`: nanoseconds since 1970.
pub fn local_time(real_ns: i64, format: &str) -> String {
    local(real_ns).strftime(format).to_string()
}

/// The same in UTC.
pub fn utc(real_ns: i64, format: &str) -> String {
    instant(real_ns).strftime(format).to_string()
}

fn instant(real_ns: i64) -> Timestamp {
    Timestamp::from_nanosecond(real_ns.into()).unwrap_or(Timestamp::UNIX_EPOCH)
}

fn local(real_ns: i64) -> Zoned {
    instant(real_ns).to_zoned(TimeZone::system())
}

impl RunClock {
    /// Nanoseconds since 1970, if the wall clock is known.
    pub fn real_ns(self, at_ns: u64) -> Option<i64> {
        self.wall_ns.map(|offset| at_ns.wrapping_add_signed(offset).cast_signed())
    }

    /// A moment in UTC in this format of strftime, if the wall clock is known.
    pub fn utc(self, at_ns: u64, format: &str) -> Option<String> {
        self.real_ns(at_ns).map(|ns| utc(ns, format))
    }

    /// A moment for people: the local time of day (`04:05:49.2`, with the date if the run began on
    /// another day), or the time since the start (`7.2 s`) if the wall clock is not known.
    pub fn text(self, at_ns: u64) -> String {
        let Some(at) = self.real_ns(at_ns).map(local) else {
            let since = at_ns.saturating_sub(self.begin_ns);
            return format!("{}.{} s", since / 1_000_000_000, since / 100_000_000 % 10);
        };
        let begin = self.real_ns(self.begin_ns).map(local);
        let day = begin.is_some_and(|begin| begin.date() != at.date());
        let time = at.strftime(if day { "%Y-%m-%d %H:%M:%S" } else { "%H:%M:%S" });
        format!("{time}.{}", at.subsec_nanosecond() / 100_000_000)
    }

    /// From one moment to another: `04:05:49.2-04:05:50.4`, the end rounded up.
    pub fn span(self, (from_ns, to_ns): (u64, u64)) -> String {
        // up, so that the end as --until includes the last command
        let (from, to) = (self.text(from_ns), self.text(to_ns.saturating_add(99_999_999)));
        if from == to {
            return to;
        }
        format!("{}-{to}", from.trim_end_matches(" s"))
    }

    /// A moment for programs: RFC 3339, if the wall clock is known.
    pub fn rfc3339(self, at_ns: u64) -> Option<String> {
        self.real_ns(at_ns).map(|ns| local_time(ns, "%Y-%m-%dT%H:%M:%S%.9f%:z"))
    }
}

/// A moment of a recording, as given to `--since` and `--until`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct When {
    /// As it was typed.
    text: String,
    at: At,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum At {
    /// Since the start.
    Elapsed(Duration),
    /// On the day of the recording.
    Daily(Time, Zone),
    Dated(DateTime, Zone),
    /// With an offset from UTC.
    Instant(Timestamp),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Zone {
    Local,
    Utc,
}

/// Parses `7s` and `1m30s`; 0 is a moment, too.
fn elapsed(text: &str) -> Result<Duration, DurationError> {
    let (mut sum, mut rest) = (Duration::ZERO, text);
    loop {
        let unit = rest.find(|c: char| c.is_ascii_alphabetic()).unwrap_or(rest.len());
        let next = rest[unit..].find(|c: char| !c.is_ascii_alphabetic());
        let (part, after) = rest.split_at(next.map_or(rest.len(), |next| unit + next));
        match parse_duration(part) {
            Ok(time) => sum += time,
            Err(DurationError::Zero { .. }) => {}
            Err(error) => return Err(error),
        }
        if after.is_empty() {
            return Ok(sum);
        }
        rest = after;
    }
}

/// Parses a time of day, with or without a date.
fn of_clock(text: &str) -> Option<At> {
    let in_utc = UTC.iter().find_map(|suffix| text.strip_suffix(suffix));
    let (time, zone) = match in_utc {
        Some(time) => (time.trim_end(), Zone::Utc),
        None => (text, Zone::Local),
    };
    // a date alone is midnight to jiff, and a time after a date is no time of day
    if let Some(time) = Some(time).filter(|t| !t.contains(['-', 'T', ' '])) {
        return time.parse().ok().map(|time| At::Daily(time, zone));
    }
    if let Ok(instant) = text.parse() {
        return Some(At::Instant(instant));
    }
    time.parse().ok().map(|time| At::Dated(time, zone))
}

impl When {
    /// Parses a moment.
    ///
    /// # Errors
    /// If the text is not a time; one sentence.
    pub fn parse(text: &str) -> Result<Self, String> {
        let at = match text.contains(':') {
            true => of_clock(text),
            false => elapsed(text).ok().map(At::Elapsed),
        };
        let text = text.to_owned();
        match at {
            Some(at) => Ok(Self { text, at }),
            None => Err(format!(
                "`{text}` is not a time: give the time since its start (`7s`, `1m30s`) or a \
                 time of day (`14:03:07`, `2026-11-26T04:05:46Z`)"
            )),
        }
    }

    /// When it was, in CLOCK_MONOTONIC nanoseconds. `None`: that takes the wall clock, which is not
    /// known.
    pub fn at_ns(&self, clock: RunClock) -> Option<u64> {
        self.at_ns_in(clock, TimeZone::system())
    }

    /// The same, with `local` as the local time. Times that the local clock skips or repeats are read
    /// as jiff does: by the offset before the change.
    fn at_ns_in(&self, clock: RunClock, local: TimeZone) -> Option<u64> {
        if let At::Elapsed(since) = self.at {
            let ns = u64::try_from(since.as_nanos()).unwrap_or(u64::MAX);
            return Some(clock.begin_ns.saturating_add(ns));
        }
        let (offset_ns, begin_ns) = (clock.wall_ns?, clock.real_ns(clock.begin_ns)?);
        let zone_of = |zone| if zone == Zone::Utc { TimeZone::UTC } else { local.clone() };
        let instant = match self.at {
            At::Elapsed(_) => None,
            At::Instant(instant) => Some(instant),
            At::Dated(time, zone) => zone_of(zone).to_timestamp(time).ok(),
            At::Daily(time, zone) => {
                let zone = zone_of(zone);
                let begin = Timestamp::from_nanosecond(begin_ns.into()).ok()?;
                let day = begin.to_zoned(zone.clone()).date();
                // the one nearest to the start: somebody may ask for a bit more than was recorded
                let days =
                    [day.checked_sub(1.day()).ok(), Some(day), day.checked_add(1.day()).ok()];
                let times = days.into_iter().flatten();
                let times = times.filter_map(|day| zone.to_timestamp(day.to_datetime(time)).ok());
                times.min_by_key(|at| (at.as_nanosecond() - begin.as_nanosecond()).abs())
            }
        }?;
        let ns = instant.as_nanosecond() - i128::from(offset_ns);
        Some(u64::try_from(ns.max(0)).unwrap_or(u64::MAX))
    }
}

impl fmt::Display for When {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

#[cfg(test)]
mod tests {
    use jiff::tz;

    use super::*;

    const S: u64 = 1_000_000_000;
    /// 2026-11-26T23:59:50Z.
    const REAL_S: i64 = 1_795_737_590;
    const CLOCK: RunClock =
        RunClock { begin_ns: 100 * S, wall_ns: Some((REAL_S - 100) * S as i64) };

    /// Seconds since the start, in a zone an hour ahead of UTC.
    fn since(text: &str, clock: RunClock) -> Option<i64> {
        let zone = TimeZone::fixed(tz::offset(1));
        let at = When::parse(text).unwrap().at_ns_in(clock, zone)?;
        Some((at / S) as i64 - 100)
    }

    #[test]
    fn moments_are_since_the_start_or_of_the_clock() {
        for (text, seconds) in [
            ("0", 0),
            ("0s", 0),
            ("7", 7),
            ("1m30s", 90),
            ("1h2m3s", 3723),
            ("23:59:55Z", 5),
            ("23:59:55 UTC", 5),
            ("00:59:55", 5),
            ("00:00:05Z", 15),
            // a bit before the start is not tomorrow
            ("00:59:45", -5),
            ("12:00:00", 39_610),
            ("2026-11-27T00:59:45", -5),
            ("2026-11-26T23:59:55Z", 5),
            // as `trace --time wall` prints it
            ("2026-11-27T00:59:55.500000000+01:00", 5),
            ("01:00", 10),
        ] {
            assert_eq!(since(text, CLOCK), Some(seconds), "{text}");
        }
        let half = When::parse("23:59:55.5Z").unwrap().at_ns(CLOCK);
        assert_eq!(half, Some(105 * S + S / 2));
    }

    #[test]
    fn moments_are_read_as_times_of_day_if_they_are_known() {
        let clock = RunClock { wall_ns: None, ..CLOCK };
        assert_eq!(clock.text(107 * S + S / 4), "7.2 s");
        assert_eq!(clock.span((107 * S, 108 * S + S / 2)), "7.0-8.5 s");
        assert_eq!(clock.span((107 * S, 107 * S)), "7.0 s");
        assert_eq!(clock.span((107 * S, 107 * S + 1)), "7.0-7.1 s");
        assert_eq!(clock.rfc3339(1), None);
        let text = CLOCK.text(107 * S + S / 4);
        assert!(text.ends_with(":57.2") && text.len() == 10, "{text}");
        let next_day = CLOCK.text(100 * S + 86_400 * S);
        assert_eq!(next_day.len(), "2026-11-27 23:59:50.0".len(), "{next_day}");
        assert!(CLOCK.rfc3339(100 * S).unwrap().starts_with("2026-11-2"));
    }
}
