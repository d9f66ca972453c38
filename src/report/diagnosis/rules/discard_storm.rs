// SPDX-License-Identifier: MIT OR Apache-2.0
//! Discards slow down the commands beside them.

use super::super::Answer;
use super::super::Cause;
use super::super::Facts;
use super::super::Stages;
use super::super::Subject;
use super::condition::Condition;
use super::overlap::Overlaps;

/// Write Zeroes and Dataset Management.
const DISCARDS: [u8; 2] = [8, 9];
/// The part of the time that goes with it.
const EXPLAINS: f64 = 0.15;

pub fn check(facts: &Facts, subject: Subject) -> Answer {
    let own = facts.of_subject(subject);
    let discards = own.filter(|c| DISCARDS.contains(&c.code())).count();
    let Some(ctrl) = subject.ctrl().filter(|_| discards > 0) else {
        return Answer::Absent("no discard".into());
    };
    let overlaps = Overlaps::of(facts, ctrl, &DISCARDS);
    let condition = Condition {
        subject,
        stages: Stages::ALL,
        least: EXPLAINS,
        ratio: "beside a discard / not",
        sides: ["commands beside a discard", "without one"],
        may_follow: false,
    };
    let found = condition.judge(facts, |c| {
        c.is_read_or_write().then(|| overlaps.meet(facts, c))
    });
    let (stratum, comparison) = match found {
        Ok(found) => found,
        Err(answer) => return answer,
    };
    let name = facts.disk_name(stratum.ctrl, stratum.nsid);
    let cause = Cause::new(
        "discard-storm",
        &name,
        format!(
            "discards slow down the other commands of {name}: {:.1} times the time",
            comparison.ratio.ratio
        ),
        format!(
            "mount without `discard` and run fstrim at quiet times; limit one discard by \
             /sys/block/{name}/queue/discard_max_bytes"
        ),
    )
    .with_risk("blocks are returned to the device later")
    .explaining(comparison.explains)
    .shown_by(
        &format!("{}, discard in flight / none", facts.stratum_name(&stratum)),
        comparison.text(),
    )
    .shown_by("discards", discards);
    Answer::cause(cause)
}
