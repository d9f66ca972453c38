// SPDX-License-Identifier: MIT OR Apache-2.0
//! Writeback throttling (wbt) holds buffered writes back, so that reads meet its target.

use super::before::{Before, Wait, of_all_waits};
use super::waits::PART;
use crate::diagnose::report::{Answer, Cause, Facts, Stages, Subject};

const RISK: &str = "without writeback throttling, reads wait behind long queues of writes";

pub fn check(facts: &Facts, subject: Subject) -> Answer {
    let wait = Before::of(facts, subject, Stages::WBT, "writeback throttling");
    let before = match wait {
        Wait::Large(before) => before,
        Wait::Judged(answer) => return answer,
        Wait::Unseen => return of_all_waits(facts, subject, PART),
    };
    let name = facts.subject_name(subject);
    let file = format!("/sys/block/{name}/queue/wbt_lat_usec");
    let cause = Cause::new(
        "wbt",
        &name,
        format!(
            "writeback throttling (wbt) holds writes to {name} back for {} of the time",
            before.portion.range()
        ),
        format!(
            "if reads may take longer, raise their target, or switch it off: `echo 0 > {file}` (the kernel's default: \
             `echo -1 > {file}`)"
        ),
    );
    let cause = before.shown_in(cause).with_risk(RISK);
    Answer::cause(match before.settings(facts).and_then(|disk| disk.wbt_lat_us) {
        Some(us) => cause.shown_by("queue/wbt_lat_usec", us),
        None => cause,
    })
}
