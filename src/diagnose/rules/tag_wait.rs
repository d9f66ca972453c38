// SPDX-License-Identifier: MIT OR Apache-2.0
//! Requests wait for a tag: more are wanted in flight than a queue has room for.

use super::before::{Before, Wait};
use super::crowd::Below;
use super::percent;
use super::waits::{PART, Tags, Waits, filling};
use crate::diagnose::portion::Reaches;
use crate::diagnose::report::{Answer, Cause, Facts, Stages, Subject};
use crate::model::ids::NamespaceId;

const RISK: &str = "more commands in flight wait longer at a device that is saturated";

pub fn check(facts: &Facts, subject: Subject) -> Answer {
    let below = below_scheduler(facts, subject);
    if let Some(answer @ Answer::Cause(_)) = below {
        return answer;
    }
    match Before::of(facts, subject, Stages::TAG, "a tag") {
        Wait::Large(before) => measured(facts, subject, &before),
        Wait::Judged(answer @ (Answer::Out(_) | Answer::Absent(_))) => below.unwrap_or(answer),
        Wait::Judged(answer) => answer,
        Wait::Unseen => counted(facts, subject, below),
    }
}

/// The wait for a tag was measured.
fn measured(facts: &Facts, subject: Subject, before: &Before) -> Answer {
    let NamespaceId { ctrl, nsid } = before.disk;
    let limit = before.settings(facts).and_then(|disk| disk.nr_requests);
    let range = before.portion.range();
    let mut cause = before.shown_in(cause(facts, subject, ctrl, &range, limit));
    if facts.lacks(subject).is_none()
        && let Some(queues) = filling(facts, ctrl, nsid)
    {
        cause = cause.shown_by("most in flight on a queue", queues.most);
    }
    Answer::cause(match limit {
        Some(limit) => cause.shown_by("queue/nr_requests", limit),
        None => cause,
    })
}

/// The waits before the request were counted together, and the queues show whether they were for a tag.
fn counted(facts: &Facts, subject: Subject, below: Option<Answer>) -> Answer {
    let waits = match Waits::of(facts, subject) {
        Ok(waits) => waits,
        Err(answer @ (Answer::Out(_) | Answer::Absent(_))) => return below.unwrap_or(answer),
        Err(answer) => return answer,
    };
    let (most, limit) = match waits.tags(facts) {
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
    let part = percent(waits.part);
    let cause = cause(facts, subject, waits.disk.ctrl, &part, Some(limit));
    Answer::cause(
        waits
            .shown_in(cause)
            .shown_by("most in flight on a queue", most)
            .shown_by("queue/nr_requests", limit),
    )
}

/// The cause: requests wait for a tag, for this part of the time.
fn cause(facts: &Facts, subject: Subject, ctrl: u32, part: &str, limit: Option<u32>) -> Cause {
    let name = facts.subject_name(subject);
    let depth = facts.controller(ctrl).and_then(|c| c.depth);
    let advice = match (depth, limit) {
        (Some(depth), Some(limit)) if limit + 1 >= depth => format!(
            "submit less at a time, or give the controller deeper queues (nvme.io_queue_depth): nr_requests={limit} \
             is all that its queues of {depth} entries have"
        ),
        _ => format!(
            "raise /sys/block/{name}/queue/nr_requests{} (at most the queue depth of the controller; \
             the driver's maximum is nvme.io_queue_depth), or submit less at a time",
            limit.map_or(String::new(), |limit| format!(" above {limit}"))
        ),
    };
    let few = limit
        .map_or(String::new(), |limit| format!(": nr_requests={limit} is too small for the load"));
    let sentence = format!("requests of {name} wait for a free tag for {part} of the time{few}");
    Cause::new("tag-wait", &name, sentence, advice).with_risk(RISK)
}

/// Below a scheduler, requests have its tags, and wait in it for those of the device. `None`: they do not.
fn below_scheduler(facts: &Facts, subject: Subject) -> Option<Answer> {
    let Subject::Disk(ctrl, nsid) = subject else {
        return None;
    };
    let scheduler = facts.disk(ctrl, nsid)?.scheduler.as_ref()?;
    let portion = facts.portion(subject, Stages::QUEUE)?;
    if *scheduler == "none" || portion.is_at_least(PART) != Reaches::Yes {
        return None;
    }
    let (most, limit) = match Below::of(facts, ctrl, nsid) {
        Below::Full(most, limit) => (most, limit),
        Below::Free => return None,
        Below::Unknown(why) => {
            return Some(Answer::Open(format!(
                "queue has {}; whether requests wait there for the device: {why}",
                portion.text()
            )));
        }
    };
    let name = facts.subject_name(subject);
    let cause = Cause::new(
        "tag-wait",
        &name,
        format!(
            "requests of {name} wait for the device's full queue for {} of the time: it has room for {limit} commands",
            portion.range()
        ),
        "submit less at a time, or give the controller more or deeper queues (nvme.io_queue_depth, if the controller \
         allows more); another scheduler changes only which request waits",
    );
    let cause = cause.with_risk(RISK).explaining_stages(&portion);
    Some(Answer::cause(
        cause
            .shown_by("queue", portion.text())
            .shown_by("queue/scheduler", scheduler)
            .shown_by("most in flight on a queue", most)
            .shown_by("commands that a queue has room for", limit),
    ))
}
