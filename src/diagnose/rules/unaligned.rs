// SPDX-License-Identifier: MIT OR Apache-2.0
//! Commands that are not aligned to physical blocks take longer.

use super::before::FULL;
use super::condition::Condition;
use crate::diagnose::report::{Answer, Cause, Command, Facts, Stages, Subject};

/// The part of the time that goes with it.
const EXPLAINS: f64 = 0.1;

pub fn check(facts: &Facts, subject: Subject) -> Answer {
    if facts.machine.is_none() {
        return Answer::NotLooked(FULL.into());
    }
    let Subject::Disk(ctrl, nsid) = subject else {
        return Answer::Absent("no disk".into());
    };
    let disk = facts.disk(ctrl, nsid);
    let sizes =
        disk.and_then(|d| Some((u64::from(d.physical_bytes?), u64::from(d.logical_bytes?))));
    let Some((physical, logical)) = sizes else {
        return Answer::Open("the block sizes of this disk are not known".into());
    };
    if physical <= logical {
        return Answer::Absent("physical blocks are no larger than logical ones".into());
    }
    let is_off = |c: &Command| {
        if !c.is_read_or_write() {
            return None;
        }
        let begin = c.slba.checked_mul(logical)?;
        Some(begin % physical != 0 || u64::from(c.bytes) % physical != 0)
    };
    let condition = Condition {
        subject,
        stages: Stages::DEVICE,
        least: EXPLAINS,
        sides: ["commands off the physical blocks", "on them"],
        may_follow: false,
    };
    let (stratum, comparison) = match condition.judge(facts, is_off) {
        Ok(found) => found,
        Err(answer) => return answer,
    };
    let name = facts.subject_name(subject);
    let cause = Cause::new(
        "unaligned",
        &name,
        format!("commands of {name} that are not aligned to its physical blocks take longer"),
        "align partitions and file systems to the physical block size",
    )
    .explaining_longer(&comparison)
    .shown_by(
        &format!("device of {}, unaligned / aligned", facts.stratum_name(&stratum)),
        comparison.text(),
    )
    .shown_by("unaligned commands", comparison.with);
    Answer::cause(cause)
}
