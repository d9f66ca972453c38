// SPDX-License-Identifier: MIT OR Apache-2.0
//! The time in the lines of a trace. The kernel's timestamps are CLOCK_MONOTONIC; other clocks are
//! derived from it.

use jiff::Timestamp;
use jiff::tz::TimeZone;

use super::line::Line;

const SECOND: u64 = 1_000_000_000;

/// The clock of a trace.
#[derive(Clone, Debug)]
pub enum Clock {
    /// CLOCK_MONOTONIC, nanoseconds, as in bpf_ktime_get_ns and nvme_trace.
    Mono,
    /// Seconds since the start of the trace; negative for earlier events.
    Rel {
        /// The start of the trace, CLOCK_MONOTONIC nanoseconds.
        begin_ns: u64,
    },
    /// Local time: with microseconds in text, as RFC 3339 with nanoseconds in JSON.
    Wall(Box<Wall>),
}

impl Clock {
    /// Local time. `offset_ns` is realtime minus CLOCK_MONOTONIC.
    #[must_use]
    pub fn wall(offset_ns: i64) -> Self {
        Self::Wall(Box::new(Wall::new(offset_ns, TimeZone::system())))
    }

    /// Sets realtime minus CLOCK_MONOTONIC, because the system's time may have been set or slewed.
    /// Affects local time only.
    pub fn set_offset(&mut self, now_ns: i64) {
        if let Self::Wall(wall) = self {
            wall.offset_ns = now_ns;
        }
    }

    /// Writes the time in text.
    #[inline]
    pub(super) fn text(&mut self, at_ns: u64, line: &mut Line) {
        match self {
            Self::Mono => line.stamp(at_ns),
            Self::Rel { begin_ns } => {
                let since = at_ns.abs_diff(*begin_ns);
                if at_ns < *begin_ns {
                    line.byte(b'-');
                }
                line.dec(since / SECOND);
                line.byte(b'.');
                line.nine(since % SECOND);
            }
            Self::Wall(wall) => wall.time_of_day(at_ns, line),
        }
    }

    /// Writes the fields that JSON has in addition to `time_ns`: none for [`Clock::Mono`].
    #[inline]
    pub(super) fn json(&mut self, at_ns: u64, line: &mut Line) {
        match self {
            Self::Mono => {}
            Self::Rel { begin_ns } => {
                line.str(",\"time_rel_ns\":");
                line.int(at_ns.wrapping_sub(*begin_ns).cast_signed());
            }
            Self::Wall(wall) => {
                line.str(",\"time\":\"");
                wall.rfc3339(at_ns, line);
                line.byte(b'"');
            }
        }
    }
}

/// Local time. The text before and after the fraction of a second is cached per second. Daylight
/// saving time never begins or ends within a second.
#[derive(Clone, Debug)]
pub struct Wall {
    offset_ns: i64,
    zone: TimeZone,
    /// Seconds since 1970.
    second: i64,
    /// `2026-11-21T19:11:21.`
    before: [u8; 20],
    /// `+01:00`.
    after: [u8; 6],
}

impl Wall {
    pub(super) fn new(offset_ns: i64, zone: TimeZone) -> Self {
        let mut wall = Self {
            offset_ns,
            zone,
            second: 0,
            before: *b"0000-00-00T00:00:00.",
            after: *b"+00:00",
        };
        wall.turn_to(0);
        wall
    }

    /// Turns to the second of this time. Returns the nanoseconds after it.
    #[inline]
    fn turn(&mut self, at_ns: u64) -> u64 {
        // realtime in nanoseconds fits an i64 until 2262
        let real_ns = at_ns.wrapping_add_signed(self.offset_ns).cast_signed();
        let second = real_ns.div_euclid(SECOND.cast_signed());
        if second != self.second {
            self.turn_to(second);
        }
        real_ns.rem_euclid(SECOND.cast_signed()).unsigned_abs()
    }

    fn rfc3339(&mut self, at_ns: u64, line: &mut Line) {
        let nanos = self.turn(at_ns);
        line.first(self.before, self.before.len());
        line.nine(nanos);
        line.first(self.after, self.after.len());
    }

    /// `19:11:21.123456`.
    #[inline]
    fn time_of_day(&mut self, at_ns: u64, line: &mut Line) {
        let nanos = self.turn(at_ns);
        let [_, _, _, _, _, _, _, _, _, _, _, time @ ..] = self.before;
        line.first(time, time.len());
        line.six(nanos / 1000);
    }

    #[cold]
    fn turn_to(&mut self, second: i64) {
        self.second = second;
        let at = Timestamp::from_second(second).unwrap_or(Timestamp::UNIX_EPOCH);
        let offset = self.zone.to_offset(at);
        let local = offset.to_datetime(at);
        let year = local.year().unsigned_abs();
        two(&mut self.before, 0, year / 100);
        two(&mut self.before, 2, year % 100);
        let rest = [local.month(), local.day(), local.hour(), local.minute(), local.second()];
        for (at, n) in (5..).step_by(3).zip(rest) {
            two(&mut self.before, at, n.unsigned_abs().into());
        }
        // RFC 3339 offsets have no seconds; time zones had them until the last century
        let minutes = (offset.seconds().unsigned_abs() / 60) as u16;
        self.after[0] = if offset.seconds() < 0 { b'-' } else { b'+' };
        two(&mut self.after, 1, minutes / 60);
        two(&mut self.after, 4, minutes % 60);
    }
}

/// Writes two digits at a position.
fn two(text: &mut [u8], at: usize, n: u16) {
    if let Some([tens, ones]) = text.get_mut(at..at + 2) {
        *tens = b'0' + (n / 10 % 10) as u8;
        *ones = b'0' + (n % 10) as u8;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use jiff::tz;
    use proptest::prelude::*;

    fn text(clock: &mut Clock, at_ns: u64) -> String {
        let mut line = Line::new();
        clock.text(at_ns, &mut line);
        String::from_utf8(line.since(0).to_vec()).unwrap()
    }

    fn json(clock: &mut Clock, at_ns: u64) -> String {
        let mut line = Line::new();
        clock.json(at_ns, &mut line);
        String::from_utf8(line.since(0).to_vec()).unwrap()
    }

    fn wall(offset_ns: i64, zone: TimeZone) -> Clock {
        Clock::Wall(Box::new(Wall::new(offset_ns, zone)))
    }

    #[test]
    fn the_kernels_stamp_is_a_plain_number() {
        assert_eq!(text(&mut Clock::Mono, 12_345_678_901_234), "12345678901234");
        assert_eq!(json(&mut Clock::Mono, 1), "");
    }

    #[test]
    fn time_since_the_begin_may_be_before_it() {
        let mut clock = Clock::Rel { begin_ns: 1_000_000_000 };
        assert_eq!(text(&mut clock, 13_345_678_901), "12.345678901");
        assert_eq!(text(&mut clock, 1_000_000_000), "0.000000000");
        assert_eq!(text(&mut clock, 999_999_999), "-0.000000001");
        assert_eq!(json(&mut clock, 999_999_999), ",\"time_rel_ns\":-1");
    }

    #[test]
    fn local_time_turns_with_the_second_and_follows_the_system() {
        let zone = TimeZone::fixed(tz::offset(1));
        let mut clock = wall(1_795_284_600_000_000_000, zone);
        let at = 81_123_456_789;
        let want = "2026-11-21T19:11:21.123456789+01:00";
        assert_eq!(json(&mut clock, at), format!(",\"time\":\"{want}\""));
        assert_eq!(text(&mut clock, at), "19:11:21.123456");
        assert_eq!(text(&mut clock, at + SECOND), "19:11:22.123456");
        assert!(json(&mut clock, at - 1).contains("11:21.123456788+01:00"));
        clock.set_offset(-82 * SECOND.cast_signed());
        assert_eq!(text(&mut clock, at), "00:59:59.123456");
    }

    #[test]
    fn daylight_saving_is_the_zones() {
        let zone = TimeZone::posix("CET-1CEST,M3.5.0,M10.5.0/3").unwrap();
        let mut clock = wall(0, zone);
        let before = 1_774_745_999 * SECOND; // 2026-03-29T00:59:59Z
        assert!(json(&mut clock, before).contains("2026-03-29T01:59:59.000000000+01:00"));
        assert!(json(&mut clock, before + SECOND).contains("2026-03-29T03:00:00.000000000+02:00"));
        assert_eq!(text(&mut clock, before + SECOND), "03:00:00.000000");
    }

    proptest! {
        #[test]
        fn any_time_is_that_of_jiff(ns in 0..i64::MAX, minutes in -1439..1439_i32) {
            let offset = tz::Offset::from_seconds(minutes * 60).unwrap();
            let mut clock = wall(0, TimeZone::fixed(offset));
            let theirs = Timestamp::from_nanosecond(ns.into()).unwrap();
            let theirs = format!("{:.9}", theirs.display_with_offset(offset));
            prop_assert_eq!(json(&mut clock, ns.unsigned_abs()), format!(",\"time\":\"{theirs}\""));
            prop_assert_eq!(text(&mut clock, ns.unsigned_abs()), &theirs[11..26]);
        }
    }
}
