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
            self.points = points.map(|point| (point, format!(",\"{}\":", point.name()))).collect();
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
