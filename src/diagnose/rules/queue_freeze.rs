// SPDX-License-Identifier: MIT OR Apache-2.0
//! The queue of a disk is frozen: a change of its settings, a reset or a scan waits until all commands
//! are done, and new bios wait for that.

use super::before::{Before, Wait, of_all_waits};
use crate::diagnose::affected::times_text;
use crate::diagnose::report::{Answer, Cause, Facts, Stages, Subject};

/// Frozen queues have this part of the time. No load needs them.
const PART: f64 = 0.1;

pub fn check(facts: &Facts, subject: Subject) -> Answer {
    let wait = Before::at_least(facts, subject, Stages::FREEZE, "a frozen queue", PART);
    let before = match wait {
        Wait::Large(before) => before,
        Wait::Judged(answer) => return answer,
        Wait::Unseen => return of_all_waits(facts, subject, PART),
    };
    let name = facts.subject_name(subject);
    let cause = Cause::new(
        "queue-freeze",
        &name,
        format!(
            "bios of {name} wait while its queue is frozen, for {} of the time",
            before.portion.range()
        ),
        format!(
            "find what freezes it: writes to scheduler, nr_requests and other files of /sys/block/{name}/queue \
             (`auditctl -w` or `opensnoop` show by whom), resets of the controller, scans of its namespaces. Each waits \
             until all commands are done"
        ),
    );
    let resets = facts.incidents.resets.get(&before.disk.ctrl);
    let mut cause = before.shown_in(cause);
    cause = cause.shown_by("resets of the controller", resets.copied().unwrap_or(0));
    Answer::cause(match facts.incidents.reset_times.get(&before.disk.ctrl) {
        Some(times) => {
            let times = times.iter().map(|at| (*at, *at));
            cause.shown_by("reset at", times_text(facts.clock_of_day, times))
        }
        None => cause,
    })
}
