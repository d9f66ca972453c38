// SPDX-License-Identifier: MIT OR Apache-2.0
//! How columns divide the time of a command.

use super::fields::{Row, Value};
use super::line::LineWriter;
use crate::model::report::latency::Spent;
use crate::model::stage::StageRun;
use crate::units::percent;

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
    for segment in row.segments {
        let (group, is_merged) = group_of(segment.run);
        if groups.contains(&group) {
            let (sum, merged) = found.unwrap_or_default();
            found = Some((sum + segment.ns, merged || is_merged));
        }
    }
    match found {
        Some((ns, merged)) => Value::Part(ns, merged),
        None if row.outcome.is_some() && row.segments.is_empty() => Value::Unknown,
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
    let stages = row.segments.iter().map(|segment| (segment.run, segment.ns.into()));
    let places = Spent { stages: stages.collect(), parts: &[] }.places();
    let Some(place) = places.first() else {
        return line.byte(b'-');
    };
    let run = row.segments.iter().map(|segment| segment.run).find(|run| run.name() == place.stage);
    match run.filter(|run| run.group().is_none()) {
        Some(run) => {
            line.str(group_of(run).0);
            line.byte(b'+');
        }
        None => line.str(&place.stage),
    }
    line.byte(b' ');
    line.str(&percent(place.share));
}

/// The stages with most of the time: `end 12.0ms, device.run 1.15ms`.
pub(super) fn largest(row: &Row<'_>) -> Option<String> {
    let mut segments = row.segments.to_vec();
    segments.sort_by_key(|segment| std::cmp::Reverse(segment.ns));
    segments.retain(|segment| segment.ns > 0);
    let stages = segments.iter().take(4).map(|segment| {
        format!("{} {}", segment.run.name(), crate::units::nanos(segment.ns as f64))
    });
    let text = stages.collect::<Vec<_>>().join(", ");
    Some(text).filter(|text| !text.is_empty())
}
