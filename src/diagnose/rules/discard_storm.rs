// SPDX-License-Identifier: MIT OR Apache-2.0
//! Discards slow down the commands beside them.

use super::condition::Condition;
use super::overlap::Overlaps;
use crate::diagnose::report::{Answer, Cause, Facts, Stages, Subject};

/// Write Zeroes and Dataset Management.
const DISCARDS: [u8; 2] = [8, 9];
/// The part of the time that goes with it.
const EXPLAINS: f64 = 0.15;

/// The disk whose discards take most time.
fn discarding(facts: &Facts, ctrl: u32) -> String {
    let strata = facts.strata_of(Subject::Controller(ctrl));
    let mut strata = strata.map(|s| s.stratum);
    let most = strata.find(|s| DISCARDS.contains(&s.opcode.code));
    facts.disk_name(ctrl, most.map_or(0, |s| s.nsid))
}

pub fn check(facts: &Facts, subject: Subject) -> Answer {
    let own = facts.of_subject(subject);
    let discards = own.filter(|c| DISCARDS.contains(&c.code())).count();
    let lacks = facts.lacks(subject);
    let Some(ctrl) = subject.ctrl().filter(|_| discards > 0) else {
        return lacks.map_or_else(|| Answer::Absent("no discard".into()), Answer::Open);
    };
    let overlaps = Overlaps::of(facts, ctrl, &DISCARDS);
    let condition = Condition {
        subject,
        stages: Stages::ALL,
        least: EXPLAINS,
        sides: ["commands beside a discard", "without one"],
        may_follow: false,
    };
    let found = condition.judge(facts, |c| c.is_read_or_write().then(|| overlaps.meet(facts, c)));
    let (stratum, comparison) = match found {
        Ok(found) => found,
        // commands beside a discard that was left out are among those without one
        Err(answer) => return lacks.map_or(answer, Answer::Open),
    };
    let name = facts.disk_name(stratum.ctrl, stratum.nsid);
    let from = discarding(facts, ctrl);
    let cause = Cause::new(
        "discard-storm",
        &name,
        format!(
            "discards on {from} slow down the commands of {name}: {:.1} times the time",
            comparison.ratio.ratio
        ),
        format!(
            "mount without `discard` and run fstrim at quiet times; limit one discard by \
             /sys/block/{from}/queue/discard_max_bytes"
        ),
    )
    .with_risk("blocks are returned to the device later")
    .explaining_longer(&comparison)
    .shown_by(
        &format!("{}, discard in flight / none", facts.stratum_name(&stratum)),
        comparison.text(),
    )
    .shown_by("discards", discards);
    Answer::cause(cause)
}
