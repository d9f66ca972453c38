// SPDX-License-Identifier: MIT OR Apache-2.0
//! Makes stages of a finished run longer.

use nvme_deep::model::event::{Event, EventKind};
use nvme_deep::model::point::Point;
use nvme_deep::model::stage::StageSet;

use super::load::Run;

/// Adds to a wait before the request of each command: its bio is submitted earlier.
pub fn wait(run: &mut Run, wait: usize, mut more_ns: impl FnMut(&Event) -> u64) {
    let last = StageSet::Full.stages()[wait].from;
    for event in &mut run.events {
        let more_ns = more_ns(event);
        let EventKind::Command(_, _, outcome) = &mut event.what else {
            continue;
        };
        let mut line = outcome.timeline.unwrap();
        for point in Point::ALL.into_iter().filter(|point| *point <= last) {
            line.set(point, line.ns(point).saturating_sub(more_ns));
        }
        outcome.timeline = Some(line);
    }
}

/// Adds to a stage of each command, from the request on.
pub fn lengthen(run: &mut Run, stage: usize, mut more_ns: impl FnMut(&Event) -> u64) {
    let stage = StageSet::Fine.before() + stage;
    let later = StageSet::Fine.run(stage, stage).to;
    for event in &mut run.events {
        let more_ns = more_ns(event);
        let EventKind::Command(_, _, outcome) = &mut event.what else {
            continue;
        };
        let mut line = outcome.timeline.unwrap();
        for point in Point::ALL.into_iter().filter(|point| *point >= later) {
            line.set(point, line.ns(point) + more_ns);
        }
        outcome.timeline = Some(line);
        event.at_ns += more_ns;
    }
    run.events.sort_by_key(|e| e.at_ns);
}
