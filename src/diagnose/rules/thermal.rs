// SPDX-License-Identifier: MIT OR Apache-2.0
//! The device is too hot, or has slowed down because of its temperature (SMART log page).

use super::percent;
use crate::diagnose::report::{Answer, Cause, Facts, Subject};

/// 0 degrees Celsius in kelvins.
const ZERO_CELSIUS: i32 = 273;
/// The device was slower for this part of the run.
const PART: f64 = 0.05;

pub fn check(facts: &Facts, subject: Subject) -> Answer {
    let Some(logs) = &facts.logs else {
        return Answer::NotLooked("--log".into());
    };
    let own = |last: u32| Some(last) == subject.ctrl();
    let Some((first, last)) = logs.iter().find(|(_, last)| own(last.instance)) else {
        return Answer::Open("its SMART log page could not be read".into());
    };
    let (first, last) = (first.smart, last.smart);
    let degrees = format!("{} \u{b0}C", i32::from(last.kelvins) - ZERO_CELSIUS);
    let slower = last.transitions.saturating_sub(first.transitions);
    let seconds = last.throttled_seconds.saturating_sub(first.throttled_seconds);
    let critical = last.critical_minutes.saturating_sub(first.critical_minutes);
    if slower == 0 && seconds == 0 && critical == 0 && !last.is_too_hot() {
        return Answer::Absent(degrees);
    }
    let part = (seconds as f64 / facts.covers.as_secs_f64().max(1.0)).min(1.0);
    let name = facts.subject_name(subject);
    let mut cause = Cause::new(
        "thermal",
        &name,
        match (part >= PART, slower + seconds) {
            (true, _) => format!("{name} was slower for {} of the run because of its temperature", percent(part)),
            (false, 0) => format!("{name} reports that it is too hot"),
            (false, _) => format!("{name} went to a slower state because of its temperature"),
        },
        format!(
            "cool it, and watch its temperature under load (`nvme smart-log /dev/{name}`); in a virtual \
             machine this is the host's task"
        ),
    )
    .shown_by("temperature", degrees);
    if last.is_too_hot() {
        cause = cause.shown_by("critical warning", "temperature beyond a threshold");
    }
    for (what, count) in [
        ("transitions to a slower state", slower),
        ("seconds in such states", seconds),
        ("minutes at a critical temperature", critical.into()),
    ] {
        if count > 0 {
            cause = cause.shown_by(what, count);
        }
    }
    match part >= PART {
        true => Answer::cause(cause.explaining(part)),
        // how long it was slower is not known, or hardly at all
        false => Answer::note(cause),
    }
}
