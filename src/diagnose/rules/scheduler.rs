// SPDX-License-Identifier: MIT OR Apache-2.0
//! The I/O scheduler holds requests back.

use super::before::FULL;
use super::crowd::Below;
use crate::diagnose::portion::Reaches;
use crate::diagnose::report::{Answer, Cause, Facts, Stages, Subject};
use crate::model::text::word;

pub fn check(facts: &Facts, subject: Subject) -> Answer {
    let Subject::Disk(ctrl, nsid) = subject else {
        return Answer::Absent("no disk".into());
    };
    let scheduler = facts.disk(ctrl, nsid).and_then(|d| d.scheduler.as_ref());
    let scheduler = match (scheduler, &facts.machine) {
        (_, None) => return Answer::NotLooked(FULL.into()),
        (None, _) => return Answer::Open("the scheduler of this disk is not known".into()),
        (Some(name), _) if *name == "none" => return Answer::Absent("it has no scheduler".into()),
        (Some(scheduler), _) => word(scheduler),
    };
    let Some(portion) = facts.portion(subject, Stages::QUEUE) else {
        return Answer::Absent("no commands".into());
    };
    match portion.is_most() {
        Reaches::Yes => match Below::of(facts, ctrl, nsid) {
            Below::Free => {}
            Below::Full(most, limit) => {
                return Answer::Out(format!(
                    "{scheduler}; queue has {}, but requests wait there for the device's full queue: {most} of {limit} \
                     in flight",
                    portion.text()
                ));
            }
            Below::Unknown(why) => {
                return Answer::Open(format!(
                    "queue has {}; whether requests wait there for the device: {why}",
                    portion.text()
                ));
            }
        },
        Reaches::Open => return Answer::Open(portion.undecided()),
        Reaches::No => return Answer::Out(format!("{scheduler}; queue has {}", portion.text())),
    }
    let name = facts.subject_name(subject);
    let cause = Cause::new(
        "scheduler",
        &name,
        format!(
            "requests of {name} wait in the I/O scheduler {scheduler} for {} of the time",
            portion.range()
        ),
        format!("echo none > /sys/block/{name}/queue/scheduler"),
    );
    Answer::cause(
        cause
            .with_risk("requests are no longer merged, sorted or weighted by the scheduler")
            .explaining_stages(&portion)
            .shown_by("queue", portion.text())
            .shown_by("queue/scheduler", scheduler),
    )
}
