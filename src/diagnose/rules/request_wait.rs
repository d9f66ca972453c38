// SPDX-License-Identifier: MIT OR Apache-2.0
//! bios wait before they get a request, and not for a tag. Where waits are measured one by one, it is
//! for a zone, or for something that has no stage: io.latency. Otherwise it may also be writeback
//! throttling, io.cost, or a frozen queue.

use super::before::{Before, Wait};
use super::percent;
use super::waits::{Tags, Waits};
use crate::diagnose::report::{Answer, Cause, Facts, Stages, Subject};
use crate::model::ids::NamespaceId;
use crate::units::nanos;

/// Splits that matter: so many for each command.
const SPLIT: f64 = 0.05;

pub fn check(facts: &Facts, subject: Subject) -> Answer {
    if let Wait::Large(before) = Before::of(facts, subject, Stages::ZONE, "a zone") {
        return zone(facts, subject, &before);
    }
    match Before::of(facts, subject, Stages::BLOCK, "other reasons") {
        Wait::Large(before) => measured(facts, subject, &before),
        Wait::Judged(answer) => answer,
        Wait::Unseen => counted(facts, subject),
    }
}

/// The stage `zone`: zone write plugging.
fn zone(facts: &Facts, subject: Subject, before: &Before) -> Answer {
    let name = facts.subject_name(subject);
    let cause = Cause::new(
        "request-wait",
        &name,
        sentence(&name, &before.portion.range()),
        "a zone takes one write at a time, and the next ones wait: write to more zones at a time, in larger writes, \
         or by zone appends",
    );
    Answer::cause(with_zoned(before.shown_in(cause), facts, before))
}

fn with_zoned(cause: Cause, facts: &Facts, before: &Before) -> Cause {
    let zoned = before.settings(facts).and_then(|disk| disk.zoned.as_ref());
    match zoned {
        Some(zoned) => cause.shown_by("queue/zoned", zoned),
        None => cause,
    }
}

/// The stage `block`: no wait that was measured by itself.
fn measured(facts: &Facts, subject: Subject, before: &Before) -> Answer {
    let NamespaceId { ctrl, nsid } = before.disk;
    let splits = facts.counted(|a| a.splits.as_deref()).unwrap_or_default();
    let mut splits = splits.iter().filter(|s| (s.ctrl, s.nsid) == (ctrl, nsid));
    let commands = facts.sum(facts.of_subject(subject), |_| 1);
    if splits.any(|splits| splits.count as f64 > SPLIT * commands) {
        return Answer::Open(format!(
            "block has {}: bios are split, and the later parts of each wait for the earlier ones",
            before.portion.text()
        ));
    }
    let name = facts.subject_name(subject);
    let cause = Cause::new(
        "request-wait",
        &name,
        sentence(&name, &before.portion.range()),
        "this part is not a wait for a limit of a cgroup, io.cost, writeback throttling, a tag or a frozen queue: look at \
         io.latency of the cgroups, and at writes to zones (queue/zoned)",
    );
    Answer::cause(with_zoned(before.shown_in(cause), facts, before))
}

fn sentence(name: &str, part: &str) -> String {
    format!("bios of {name} wait for {part} of the time before they get a request")
}

/// The waits before the request were counted together.
fn counted(facts: &Facts, subject: Subject) -> Answer {
    let waits = match Waits::of(facts, subject) {
        Ok(waits) => waits,
        Err(answer) => return answer,
    };
    let name = facts.subject_name(subject);
    let cause = Cause::new(
        "request-wait",
        &name,
        sentence(&name, &percent(waits.part)),
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
        Tags::Enough(most, limit) => {
            cause.shown_by("most in flight on a queue", format!("{most} of {limit} tags"))
        }
        Tags::Unknown => cause.shown_by("whether for a tag", "not known"),
    })
}
