// SPDX-License-Identifier: MIT OR Apache-2.0
//! Flushes take the time, or slow down the writes beside them.

use super::super::Answer;
use super::super::Cause;
use super::super::Facts;
use super::super::Stages;
use super::discard_storm::Overlaps;

const FLUSH: u8 = 0;
const WRITE: u8 = 1;
/// Flushes have this part of the time.
const PART: f64 = 0.3;
/// The part of the time that goes with flushes in flight.
const EXPLAINS: f64 = 0.1;

/// The disk whose flushes take most time.
fn disk(facts: &Facts, ctrl: u32) -> String {
    let mut strata = facts.strata.iter().map(|s| s.stratum);
    let most = strata.find(|s| s.ctrl == ctrl && s.opcode.code == FLUSH);
    facts.disk_name(ctrl, most.map_or(0, |s| s.nsid))
}

pub fn check(facts: &Facts) -> Answer {
    let flushes = facts.all().filter(|c| c.code() == FLUSH);
    if flushes.count() == 0 {
        return Answer::Out("no flush".into());
    }
    let overlaps = Overlaps::of(facts, &[FLUSH]);
    let mut causes = Vec::new();
    let mut most = 0.0_f64;
    for ctrl in facts.ctrls() {
        let time = |code: Option<u8>| {
            let all = facts.of_ctrl(ctrl);
            let of = all.filter(move |c| code.is_none_or(|code| c.code() == code));
            facts.sums(of, super::super::Command::total)
        };
        let Some(share) = facts.clock.share(&time(Some(FLUSH)), &time(None)) else {
            continue;
        };
        most = most.max(share.part);
        let slower = facts.compare(Stages::ALL, |c| {
            (c.stratum.ctrl == ctrl && c.code() == WRITE)
                .then(|| overlaps.meet(c, facts.expected(c)))
        });
        let slower = slower.filter(|(_, c)| c.goes_with(EXPLAINS));
        if share.low < PART && slower.is_none() {
            continue;
        }
        let name = format!("nvme{ctrl}");
        let explains = slower.map_or(0.0, |(_, c)| c.explains).max(share.part);
        let mut cause = Cause::new(
            "flush-cost",
            &name,
            format!("flushes of {name} take the time"),
            format!(
                "let the application flush less often (group commits); where losing the last writes is \
                 acceptable, or the cache survives a power cut, `echo \"write through\" > \
                 /sys/block/{}/queue/write_cache` sends no flushes",
                disk(facts, ctrl)
            ),
        )
        .with_risk("without flushes, a power cut loses data that the application believes written")
        .explaining(explains)
        .shown_by("flushes", format!("{} of the time", share.text()));
        if let Some((stratum, comparison)) = slower {
            let what = format!("{}, flush in flight / none", facts.stratum_name(&stratum));
            cause = cause.shown_by(&what, comparison.text());
        }
        causes.push(cause);
    }
    Answer::of(
        causes,
        format!("flushes have {} of the time", super::percent(most)),
    )
}
