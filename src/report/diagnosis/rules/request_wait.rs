// SPDX-License-Identifier: MIT OR Apache-2.0
//! bios wait before they get a request, and not for a tag: writeback throttling, io.cost, io.latency, a
//! zone write plug, or a frozen queue. Which of them is not measured.

use super::super::Answer;
use super::super::Cause;
use super::super::Facts;
use super::super::Subject;
use super::percent;
use super::waits::Tags;
use super::waits::Waits;
use crate::units::nanos;

pub fn check(facts: &Facts, subject: Subject) -> Answer {
    let waits = match Waits::of(facts, subject) {
        Ok(waits) => waits,
        Err(answer) => return answer,
    };
    let name = facts.subject_name(subject);
    let cause = Cause::new(
        "request-wait",
        &name,
        format!(
            "bios of {name} wait for {} of the time before they get a request",
            percent(waits.part)
        ),
        format!(
            "compare with /sys/block/{name}/queue/wbt_lat_usec (0 switches writeback throttling off), io.cost.qos \
             and io.latency of the cgroups; what freezes the queue (a change of its settings) holds all bios"
        ),
    )
    .with_risk("without writeback throttling, reads wait behind long queues of writes");
    let longest = nanos(waits.counted.max_ns as f64);
    let cause = waits.shown_in(cause).shown_by("longest wait", longest);
    Answer::cause(match waits.tags(facts) {
        Tags::Short(..) => return Answer::Out("they wait for a tag: tag-wait".into()),
        Tags::Enough(most, limit) => cause.shown_by(
            "most in flight on a queue",
            format!("{most} of {limit} tags"),
        ),
        Tags::Unknown => cause.shown_by("whether for a tag", "not known"),
    })
}
