// SPDX-License-Identifier: MIT OR Apache-2.0
//! Requests wait for a tag: more are wanted in flight than a queue has room for.

use super::super::Answer;
use super::super::Cause;
use super::super::Facts;
use super::super::Subject;
use super::percent;
use super::waits::Tags;
use super::waits::Waits;
use super::waits::tags;
use crate::units::nanos;

pub fn check(facts: &Facts, subject: Subject) -> Answer {
    let waits = match Waits::of(facts, subject) {
        Ok(waits) => waits,
        Err(answer) => return answer,
    };
    let Subject::Disk(ctrl, nsid) = subject else {
        return Answer::Absent("no disk".into());
    };
    let counted = waits.counted;
    let (most, limit) = match tags(facts, ctrl, nsid, &counted) {
        Tags::Short(most, limit) => (most, limit),
        Tags::Enough(most, limit) => {
            return Answer::Out(format!(
                "requests wait, but at most {most} of {limit} were in flight on a queue"
            ));
        }
        Tags::Unknown => {
            return Answer::Open(
                "requests wait; whether for a tag needs nr_requests and every command in memory"
                    .into(),
            );
        }
    };
    let name = facts.subject_name(subject);
    let depth = facts.controller(ctrl).and_then(|c| c.depth);
    let advice = match depth {
        Some(depth) if limit + 1 >= depth => format!(
            "submit less at a time, or give the controller deeper queues (nvme.io_queue_depth): nr_requests={limit} \
             is all that its queues of {depth} entries have"
        ),
        _ => format!(
            "raise /sys/block/{name}/queue/nr_requests above {limit} (at most the queue depth of the controller; \
             the driver's maximum is nvme.io_queue_depth), or submit less at a time"
        ),
    };
    Answer::cause(
        Cause::new(
            "tag-wait",
            &name,
            format!(
                "requests of {name} wait for a free tag for {} of the time: nr_requests={limit} is too small for \
                 the load",
                percent(waits.part)
            ),
            advice,
        )
        .with_risk("more commands in flight wait longer at a device that is saturated")
        .explaining(waits.part)
        .shown_by("waits before the request", format!("{} of the time", percent(waits.part)))
        .shown_by("requests that waited", format!("{} of {}", counted.waited, counted.requests))
        .shown_by("mean wait of these", nanos(counted.sum_ns as f64 / counted.waited.max(1) as f64))
        .shown_by("most in flight on a queue", most)
        .shown_by("queue/nr_requests", limit),
    )
}
