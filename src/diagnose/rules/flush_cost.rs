// SPDX-License-Identifier: MIT OR Apache-2.0
//! Flushes take the time, or slow down the writes beside them.

use super::condition::Condition;
use super::overlap::Overlaps;
use super::percent;
use crate::diagnose::report::{Answer, Cause, Command, Comparison, Facts, Stages, Subject};
use crate::model::command_class::CommandClass;

const FLUSH: u8 = 0;
const WRITE: u8 = 1;
/// Flushes have this part of the time.
const PART: f64 = 0.3;
/// The part of the time that goes with flushes in flight.
const EXPLAINS: f64 = 0.1;

/// The disk whose flushes take most time.
fn disk(facts: &Facts, ctrl: u32) -> String {
    let strata = facts.strata_of(Subject::Controller(ctrl));
    let mut strata = strata.map(|s| s.stratum);
    let most = strata.find(|s| s.opcode.code == FLUSH);
    facts.disk_name(ctrl, most.map_or(0, |s| s.nsid))
}

/// Flushes, and the kinds of commands that they slow down.
fn kinds(facts: &Facts, ctrl: u32, slower: Option<&Comparison>) -> Vec<(CommandClass, f64)> {
    let own = facts.strata_of(Subject::Controller(ctrl));
    let own = own.map(|s| s.stratum);
    let own = own.filter(|s| s.opcode.code == FLUSH);
    let slowed = slower.into_iter().flat_map(|c| c.kinds.iter().copied());
    own.map(|stratum| (stratum, 1.0)).chain(slowed).collect()
}

pub fn check(facts: &Facts, subject: Subject) -> Answer {
    if let Some(why) = facts.lacks(subject) {
        return Answer::Open(why);
    }
    let flushes = facts.of_subject(subject).filter(|c| c.code() == FLUSH);
    let flushes = facts.sums(flushes, Command::total);
    let all = facts.sums(facts.of_subject(subject), Command::total);
    let share = facts.clock.share(&flushes, &all);
    let (Some(share), Some(ctrl)) = (share.filter(|s| s.part > 0.0), subject.ctrl()) else {
        return Answer::Absent("no flush".into());
    };
    let overlaps = Overlaps::of(facts, ctrl, &[FLUSH]);
    let condition = Condition {
        subject,
        stages: Stages::ALL,
        least: EXPLAINS,
        sides: ["writes beside a flush", "without one"],
        may_follow: false,
    };
    let slower = condition.judge(facts, |c| (c.code() == WRITE).then(|| overlaps.meet(facts, c)));
    let is_large = share.is_at_least(PART);
    let slower = match slower {
        Ok(found) => Some(found),
        Err(_) if is_large => None,
        Err(Answer::Open(why)) => return Answer::Open(why),
        Err(_) => return Answer::Out(format!("flushes have {} of the time", share.text())),
    };
    let name = format!("nvme{ctrl}");
    let sentence = match &slower {
        Some((_, found)) if !is_large => format!(
            "flushes slow down the writes of {name}: {:.1} times the time",
            found.ratio.ratio
        ),
        _ => format!("flushes take {} of the time on {name}", percent(share.part)),
    };
    let longer = slower.as_ref().map_or(0.0, |(_, c)| c.explains);
    let cause = Cause::new(
        "flush-cost",
        &name,
        sentence,
        format!(
            "let the application flush less often (group commits); where losing the last writes is \
             acceptable, or the cache survives a power cut, `echo \"write through\" > \
             /sys/block/{}/queue/write_cache` sends no flushes",
            disk(facts, ctrl)
        ),
    )
    .with_risk("without flushes, a power cut loses data that the application believes written")
    .explaining(longer.max(share.part))
    .concerning(kinds(facts, ctrl, slower.as_ref().map(|(_, c)| c)))
    .shown_by("flushes", format!("{} of the time", share.text()));
    Answer::cause(match slower {
        Some((stratum, comparison)) => {
            let what = format!("{}, flush in flight / none", facts.stratum_name(&stratum));
            cause.shown_by(&what, comparison.text())
        }
        None => cause,
    })
}
