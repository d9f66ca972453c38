// SPDX-License-Identifier: MIT OR Apache-2.0
//! Requests are split, because they are larger than a limit of the queue. What that costs is not
//! measured: a note.

use super::not_observed;
use crate::diagnose::report::{Answer, Cause, Facts, Subject};
use crate::model::machine::MachineDisk;
use crate::units::size_text;

/// Commands per request of an application.
const TIMES: f64 = 1.5;

/// What may be done: a limit is raised only where the device allows more.
fn advice(name: &str, disk: Option<&MachineDisk>) -> String {
    let now = disk.and_then(|d| d.max_bytes);
    let most = disk.and_then(|d| d.max_hw_bytes);
    match (now, most) {
        (Some(now), Some(most)) if now < most => format!(
            "if one command should carry more: raise /sys/block/{name}/queue/max_sectors_kb from {} to at most {}",
            now >> 10,
            most >> 10
        ),
        (Some(_), Some(most)) => format!(
            "the device takes at most {} in a command (MDTS): larger requests are split on any machine",
            size_text(most)
        ),
        _ => {
            format!("compare the sizes of requests with /sys/block/{name}/queue/max_hw_sectors_kb")
        }
    }
}

pub fn check(facts: &Facts, subject: Subject) -> Answer {
    let Some(all) = facts.counted(|a| a.splits.as_ref()) else {
        return not_observed(facts, "splits");
    };
    let Subject::Disk(ctrl, nsid) = subject else {
        return Answer::Absent("no disk".into());
    };
    if let Some(why) = facts.lacks(subject) {
        return Answer::Open(why);
    }
    let own = all.iter().filter(|s| s.ctrl == ctrl);
    let splits = own.clone().find(|s| s.nsid == nsid || s.nsid == 0);
    let splits = splits.map_or(0, |s| s.count);
    let commands = facts.sum(facts.of_subject(subject), |_| 1) as u64;
    let whole = commands.saturating_sub(splits).max(1);
    let times = commands as f64 / whole as f64;
    if times < TIMES {
        return Answer::Absent(format!("{times:.2} commands for each request"));
    }
    let name = facts.subject_name(subject);
    let disk = facts.disk(ctrl, nsid);
    let mut note = Cause::new(
        "split",
        &name,
        format!("requests of {name} are split: {times:.1} commands for each"),
        advice(&name, disk),
    )
    .shown_by("splits", splits)
    .shown_by("commands", commands);
    let limits = [
        ("queue/max_sectors_kb", disk.and_then(|d| d.max_bytes)),
        ("queue/max_hw_sectors_kb", disk.and_then(|d| d.max_hw_bytes)),
    ];
    for (what, bytes) in limits {
        if let Some(bytes) = bytes {
            note = note.shown_by(what, size_text(bytes));
        }
    }
    Answer::note(note)
}
