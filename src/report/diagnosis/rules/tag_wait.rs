// SPDX-License-Identifier: MIT OR Apache-2.0
//! Requests wait for a tag: more are wanted in flight than the queue has room for.

use super::super::Answer;
use super::super::Cause;
use super::super::Command;
use super::super::Facts;
use super::percent;
use crate::units::nanos;

/// The wait has this part of the time, wait included.
const PART: f64 = 0.5;
/// Fewest requests that waited.
const WAITED: u64 = 50;

pub fn check(facts: &Facts) -> Answer {
    let Some(all) = facts.counted(|a| a.waits.as_ref()) else {
        return Answer::Unknown("waits for a tag were not observed (record --context)".into());
    };
    if facts.lacks_requests() {
        return Answer::Unknown("commands of a disk were left out, as by a filter".into());
    }
    let (mut causes, mut most) = (Vec::new(), 0.0_f64);
    for waits in all {
        // a filter may have left the disk out
        if facts.of_disk(waits.ctrl, waits.nsid).next().is_none() {
            continue;
        }
        let total = facts.sum(facts.of_disk(waits.ctrl, waits.nsid), Command::total);
        let part = waits.sum_ns as f64 / (waits.sum_ns as f64 + total).max(1.0);
        most = most.max(part);
        if part < PART || waits.waited < WAITED {
            continue;
        }
        let name = facts.disk_name(waits.ctrl, waits.nsid);
        let mut cause = Cause::new(
            "tag-wait",
            &name,
            format!("requests of {name} wait for a tag: the queue has too few for the load"),
            format!(
                "raise /sys/block/{name}/queue/nr_requests (at most the queue depth of the controller; \
                 the driver's maximum is nvme.io_queue_depth), or submit less at a time"
            ),
        )
        .with_risk("more commands in flight wait longer at a device that is saturated")
        .explaining(part)
        .shown_by("wait for a tag", format!("{} of the time", percent(part)))
        .shown_by("requests that waited", format!("{} of {}", waits.waited, waits.requests))
        .shown_by(
            "mean wait",
            nanos(waits.sum_ns as f64 / waits.requests.max(1) as f64),
        );
        if let Some(tags) = facts
            .disk(waits.ctrl, waits.nsid)
            .and_then(|d| d.nr_requests)
        {
            cause = cause.shown_by("queue/nr_requests", tags);
        }
        causes.push(cause);
    }
    Answer::of(
        causes,
        format!("the wait for a tag is {} of the time", percent(most)),
    )
}
