// SPDX-License-Identifier: MIT OR Apache-2.0
//! Makes stages of a finished run longer.

use nvme_deep::model::event::Event;
use nvme_deep::model::event::EventKind;
use nvme_deep::model::point::Point;
use nvme_deep::model::timeline::Timeline;

use super::load::Run;

/// Adds to a stage of each command.
pub fn lengthen(run: &mut Run, stage: usize, mut more_ns: impl FnMut(&Event) -> u64) {
    for event in &mut run.events {
        let more_ns = more_ns(event);
        let EventKind::Command(_, _, outcome) = &mut event.what else {
            continue;
        };
        let line = outcome.timeline.unwrap();
        let mut points = Point::ALL.map(|point| line.ns(point));
        points[stage + 1..].iter_mut().for_each(|ns| *ns += more_ns);
        outcome.timeline = Some(Timeline::new(points, line.pattern()));
        event.at_ns += more_ns;
    }
    run.events.sort_by_key(|e| e.at_ns);
}
