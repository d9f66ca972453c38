// SPDX-License-Identifier: MIT OR Apache-2.0
//! The device is too hot, or has slowed down because of its temperature (SMART log page).

use super::super::Answer;
use super::super::Cause;
use super::super::Facts;

/// 0 degrees Celsius in kelvins.
const ZERO_CELSIUS: i32 = 273;

pub fn check(facts: &Facts) -> Answer {
    let Some(logs) = &facts.logs else {
        return Answer::Unknown("the log pages of the controllers were not read (--log)".into());
    };
    let (mut causes, mut temperatures) = (Vec::new(), Vec::new());
    for (first, last) in logs {
        let (first, name) = (first.smart, format!("nvme{}", last.instance));
        let last = last.smart;
        let degrees = format!("{} \u{b0}C", i32::from(last.kelvins) - ZERO_CELSIUS);
        temperatures.push(format!("{name} {degrees}"));
        let slower = last.transitions.saturating_sub(first.transitions);
        let seconds = last
            .throttled_seconds
            .saturating_sub(first.throttled_seconds);
        let critical = last.critical_minutes.saturating_sub(first.critical_minutes);
        if slower == 0 && seconds == 0 && critical == 0 && !last.is_too_hot() {
            continue;
        }
        let mut cause = Cause::new(
            "thermal",
            &name,
            match slower + seconds {
                0 => format!("{name} reports that it is too hot"),
                _ => format!("{name} was slower because of its temperature"),
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
        causes.push(cause);
    }
    let otherwise = match temperatures.is_empty() {
        true => "no controller has the log page".into(),
        false => temperatures.join(", "),
    };
    Answer::of(causes, otherwise)
}
