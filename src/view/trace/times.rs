// SPDX-License-Identifier: MIT OR Apache-2.0
//! The stages of a command, and how columns divide its time.

use super::Form;
use super::fields::{Row, Value};
use super::line::LineWriter;
use crate::model::point::{Pattern, Point};
use crate::model::report::latency::Spent;
use crate::model::stage::{StageRun, StageSet};
use crate::model::timeline::Timeline;
use crate::units::{nanos, percent};
use jiff::Timestamp;
use jiff::tz::TimeZone;

/// A stage of a command.
#[derive(Debug)]
pub(super) struct Part {
    pub(super) run: StageRun,
    pub(super) name: String,
    /// What comes before its time, in JSON `},{"name":"queue","ns":`, in long lines `, queue=`.
    pub(super) key: String,
    /// The group of stages in whose column it is.
    group: &'static str,
    /// Whether it was merged with another group.
    is_merged: bool,
    pub(super) ns: u64,
}

/// The points and stages of a command. Most commands have the pattern of the one before: only the times are
/// new.
#[derive(Debug, Default)]
pub(super) struct Parts {
    of: Option<(StageSet, Pattern)>,
    /// Each with its key in JSON.
    points: Vec<(Point, String)>,
    parts: Vec<Part>,
    is_in_order: bool,
}

impl Parts {
    /// Takes the times of a command.
    pub(super) fn set(&mut self, times: &Timeline, stages: StageSet, form: Form) {
        let pattern = times.pattern();
        if self.of != Some((stages, pattern)) {
            self.of = Some((stages, pattern));
            let points = Point::ALL.into_iter().filter(|point| point.seen_in(pattern));
            let name = |point| Some((point, format!(",\"{}\":", stages.name_of_point(point)?)));
            self.points = points.filter_map(name).collect();
            let part = |run: StageRun| {
                let (group, is_merged) = group_of(run);
                let name = run.name();
                let key = match form {
                    Form::Json => format!("}},{{\"name\":\"{name}\",\"ns\":"),
                    Form::Long | Form::Columns => format!(", {name}="),
                };
                Part { run, name, key, group, is_merged, ns: 0 }
            };
            self.parts = stages.runs(pattern).into_iter().map(part).collect();
        }
        self.is_in_order = self.parts.iter_mut().all(|part| {
            let (from, to) = (times.ns(part.run.from), times.ns(part.run.to));
            part.ns = to.wrapping_sub(from);
            from != 0 && to >= from
        });
    }

    /// The stages; none if two points are out of order.
    pub(super) fn stages(&self) -> &[Part] {
        if self.is_in_order { &self.parts } else { &[] }
    }

    /// The points of the pattern, each with its key in JSON.
    pub(super) fn points(&self) -> &[(Point, String)] {
        &self.points
    }
}

/// The group of stages in whose column a run is, and whether it was merged with another group. Then it is the
/// device's if that is one of them, otherwise the last one's.
fn group_of(run: StageRun) -> (&'static str, bool) {
    match run.stages() {
        [only] => (only.group, false),
        stages => {
            let mut groups = stages.iter().rev().map(|stage| stage.group);
            let last = stages.last().map_or("", |stage| stage.group);
            let group = groups.find(|group| *group == "device").unwrap_or(last);
            (group, run.group().is_none())
        }
    }
}

/// The time in groups of stages.
pub(super) fn part<'a>(row: &Row<'a>, groups: &[&str]) -> Value<'a> {
    let mut found = None;
    for part in row.stages.iter().filter(|part| groups.contains(&part.group)) {
        let (sum, merged) = found.unwrap_or_default();
        found = Some((sum + part.ns, merged || part.is_merged));
    }
    match found {
        Some((ns, merged)) => Value::Part(ns, merged),
        None if row.outcome.is_some() && row.stages.is_empty() => Value::Unknown,
        None => Value::None,
    }
}

/// The time outside the device.
pub(super) fn host<'a>(row: &Row<'a>) -> Value<'a> {
    match (part(row, &["device"]), row.total()) {
        (Value::Part(device_ns, _), Some(total)) => Value::Nanos(total.saturating_sub(device_ns)),
        (Value::None, _) if row.outcome.is_none() => Value::None,
        _ => Value::Unknown,
    }
}

/// Where most of the time was, and its share: `wbt 48%`. Merged stages have the name of their column.
pub(super) fn mostly(row: &Row<'_>, line: &mut LineWriter) {
    let stages = row.stages.iter().map(|part| (part.run, part.ns.into()));
    let places = Spent { stages: stages.collect(), parts: &[] }.places();
    let Some(place) = places.first() else {
        return line.byte(b'-');
    };
    let part = row.stages.iter().find(|part| part.name == place.stage);
    match part.filter(|part| part.run.group().is_none()) {
        Some(part) => {
            line.str(part.group);
            line.byte(b'+');
        }
        None => line.str(&place.stage),
    }
    line.byte(b' ');
    line.str(&percent(place.share));
}

/// The stages with most of the time: `end 12.0ms, device.run 1.15ms`.
pub(super) fn largest(row: &Row<'_>) -> Option<String> {
    let mut parts: Vec<&Part> = row.stages.iter().filter(|part| part.ns > 0).collect();
    parts.sort_by_key(|part| std::cmp::Reverse(part.ns));
    let stages = parts.iter().take(4);
    let stages = stages.map(|part| format!("{} {}", part.name, nanos(part.ns as f64)));
    let text = stages.collect::<Vec<_>>().join(", ");
    Some(text).filter(|text| !text.is_empty())
}

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

    /// Writes the time in text, to the nanosecond where the clock has no date.
    pub(crate) fn text(&mut self, at_ns: u64, line: &mut LineWriter) {
        match self {
            Self::Mono => line.dec(at_ns),
            Self::Rel { .. } => self.since(at_ns, 9, line),
            Self::Wall(wall) => wall.time_of_day(at_ns, line),
        }
    }

    /// Writes the time in a column: to the microsecond, but as a whole number for [`Clock::Mono`].
    pub(crate) fn column(&mut self, at_ns: u64, line: &mut LineWriter) {
        match self {
            Self::Rel { .. } => self.since(at_ns, 6, line),
            Self::Mono | Self::Wall(_) => self.text(at_ns, line),
        }
    }

    /// The width of that column.
    pub(crate) const fn width(&self) -> usize {
        match self {
            Self::Rel { .. } => 10,
            Self::Mono | Self::Wall(_) => 15,
        }
    }

    /// Writes the seconds since the start.
    fn since(&self, at_ns: u64, decimals: usize, line: &mut LineWriter) {
        if let Self::Rel { begin_ns } = self {
            let since = at_ns.abs_diff(*begin_ns);
            if at_ns < *begin_ns {
                line.byte(b'-');
            }
            line.dec(since / SECOND);
            line.byte(b'.');
            line.digits(since % SECOND / 10_u64.pow(9 - decimals as u32), decimals);
        }
    }

    /// Writes the fields that JSON has in addition to `time_ns`: none for [`Clock::Mono`].
    pub(crate) fn json(&mut self, at_ns: u64, line: &mut LineWriter) {
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

/// Local time. The offset of the time zone is looked up once per second: daylight saving time never
/// begins or ends within a second.
#[derive(Clone, Debug)]
pub struct Wall {
    offset_ns: i64,
    zone: TimeZone,
    /// Seconds since 1970.
    second: i64,
    /// `2026-11-21T19:11:21`.
    local: String,
    /// `+01:00`.
    zone_text: String,
}

impl Wall {
    pub(crate) fn new(offset_ns: i64, zone: TimeZone) -> Self {
        let (local, zone_text) = <_>::default();
        let mut wall = Self { offset_ns, zone, second: 0, local, zone_text };
        wall.turn_to(0);
        wall
    }

    /// Turns to the second of this time. Returns the nanoseconds after it.
    fn turn(&mut self, at_ns: u64) -> u64 {
        // realtime in nanoseconds fits an i64 until 2262
        let real_ns = at_ns.wrapping_add_signed(self.offset_ns).cast_signed();
        let second = real_ns.div_euclid(SECOND.cast_signed());
        if second != self.second {
            self.turn_to(second);
        }
        real_ns.rem_euclid(SECOND.cast_signed()).unsigned_abs()
    }

    fn rfc3339(&mut self, at_ns: u64, line: &mut LineWriter) {
        let nanos = self.turn(at_ns);
        line.str(&self.local);
        line.byte(b'.');
        line.digits(nanos, 9);
        line.str(&self.zone_text);
    }

    /// `19:11:21.123456`.
    fn time_of_day(&mut self, at_ns: u64, line: &mut LineWriter) {
        let nanos = self.turn(at_ns);
        line.str(self.local.get("2026-11-21T".len()..).unwrap_or_default());
        line.byte(b'.');
        line.digits(nanos / 1000, 6);
    }

    #[cold]
    fn turn_to(&mut self, second: i64) {
        self.second = second;
        let at = Timestamp::from_second(second).unwrap_or(Timestamp::UNIX_EPOCH);
        let offset = self.zone.to_offset(at);
        self.local = offset.to_datetime(at).strftime("%Y-%m-%dT%H:%M:%S").to_string();
        // RFC 3339 offsets have no seconds; time zones had them until the last century
        let minutes = offset.seconds().unsigned_abs() / 60;
        let sign = if offset.seconds() < 0 { '-' } else { '+' };
        self.zone_text = format!("{sign}{:02}:{:02}", minutes / 60, minutes % 60);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use jiff::tz;
    use proptest::prelude::*;

    fn written(clock: &mut Clock, write: impl FnOnce(&mut Clock, &mut LineWriter)) -> String {
        let mut line = LineWriter::default();
        write(clock, &mut line);
        String::from_utf8(line.since(0).to_vec()).unwrap()
    }

    fn text(clock: &mut Clock, at_ns: u64) -> String {
        written(clock, |clock, line| clock.text(at_ns, line))
    }

    fn json(clock: &mut Clock, at_ns: u64) -> String {
        written(clock, |clock, line| clock.json(at_ns, line))
    }

    fn wall(offset_ns: i64, zone: TimeZone) -> Clock {
        Clock::Wall(Box::new(Wall::new(offset_ns, zone)))
    }

    #[test]
    fn time_since_the_begin_may_be_before_it_and_the_kernels_stamp_is_a_plain_number() {
        let mut clock = Clock::Rel { begin_ns: 1_000_000_000 };
        assert_eq!(text(&mut clock, 13_345_678_901), "12.345678901");
        assert_eq!(text(&mut clock, 1_000_000_000), "0.000000000");
        assert_eq!(text(&mut clock, 999_999_999), "-0.000000001");
        assert_eq!(json(&mut clock, 999_999_999), ",\"time_rel_ns\":-1");
        let column = written(&mut clock, |clock, line| clock.column(13_345_678_901, line));
        assert_eq!(column, "12.345678");
        assert_eq!(text(&mut Clock::Mono, 12_345_678_901_234), "12345678901234");
        assert_eq!(json(&mut Clock::Mono, 1), "");
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
        fn any_time_is_as_in_jiff(ns in 0..i64::MAX, minutes in -1439..1439_i32) {
            let offset = tz::Offset::from_seconds(minutes * 60).unwrap();
            let mut clock = wall(0, TimeZone::fixed(offset));
            let theirs = Timestamp::from_nanosecond(ns.into()).unwrap();
            let theirs = format!("{:.9}", theirs.display_with_offset(offset));
            prop_assert_eq!(json(&mut clock, ns.unsigned_abs()), format!(",\"time\":\"{theirs}\""));
            prop_assert_eq!(text(&mut clock, ns.unsigned_abs()), &theirs[11..26]);
        }
    }
}
