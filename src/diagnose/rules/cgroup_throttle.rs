// SPDX-License-Identifier: MIT OR Apache-2.0
//! Limits of cgroups (io.max) hold bios back: blk-throttle.

use super::before::{Before, Wait, cgroup_file, unseen};
use crate::diagnose::report::{Answer, Cause, Command, Facts, Stages, Subject};
use crate::model::machine::{IoLimit, IoLimits};
use crate::units::{rate, size_text};

/// Most limits that are shown.
const SHOWN: usize = 4;
const RISK: &str = "the limit protects the others that use the disk";

/// Reads or writes, and what limits them.
struct Direction {
    name: &'static str,
    code: u8,
    limits: fn(&IoLimit) -> bool,
}

const DIRECTIONS: [Direction; 2] = [
    Direction {
        name: "reads",
        code: 2,
        limits: |limit| limit.rbps.is_some() || limit.riops.is_some(),
    },
    Direction {
        name: "writes",
        code: 1,
        limits: |limit| limit.wbps.is_some() || limit.wiops.is_some(),
    },
];

pub fn check(facts: &Facts, subject: Subject) -> Answer {
    let wait = Before::of(facts, subject, Stages::THROTTLE, "a limit of a cgroup");
    match wait {
        Wait::Large(before) => cause(facts, subject, &before),
        Wait::Judged(answer) => answer,
        Wait::Unseen => match limits(facts, subject) {
            Some(limits) if limits.cgroups.is_empty() && !limits.more => {
                Answer::Absent("no cgroup had a limit on it (io.max) at the begin".into())
            }
            _ => unseen(facts),
        },
    }
}

/// The limits on a disk, at the begin; `None`: not recorded.
fn limits(facts: &Facts, subject: Subject) -> Option<&IoLimits> {
    let Subject::Disk(ctrl, nsid) = subject else {
        return None;
    };
    facts.disk(ctrl, nsid)?.limits.as_ref()
}

fn cause(facts: &Facts, subject: Subject, before: &Before) -> Answer {
    let waited = |command: &&Command| command.time_within(Stages::THROTTLE) > 0;
    let of = |direction: &Direction| {
        let code = direction.code;
        let own = facts.of_disk(before.disk.ctrl, before.disk.nsid);
        own.filter(move |c| c.code() == code).filter(waited)
    };
    let held: Vec<&Direction> =
        (DIRECTIONS.iter()).filter(|direction| of(direction).next().is_some()).collect();
    let known = limits(facts, subject);
    let is_whole = known.is_some_and(|limits| !limits.more);
    let all = known.map_or(&[][..], |limits| limits.cgroups.as_slice());
    // those of the other direction hold none of these back
    let likely = all.iter().filter(|limit| held.iter().any(|held| (held.limits)(limit)));
    let likely: Vec<&IoLimit> = likely.collect();
    let name = facts.subject_name(subject);
    let cause = Cause::new(
        "cgroup-throttle",
        &name,
        format!(
            "limits of cgroups (io.max) hold bios of {name} back for {} of the time",
            before.portion.range()
        ),
        advice(facts, before, if is_whole { &likely } else { &[] }),
    );
    let mut cause = before.shown_in(cause).with_risk(RISK);
    if let Some(cgroup) = before.cgroup(facts) {
        cause = cause.shown_by("cgroup that waited most", cgroup);
    }
    for direction in held {
        let first = of(direction).map(|c| c.end_ns).min().unwrap_or(0);
        let last = of(direction).map(|c| c.end_ns).max().unwrap_or(0);
        let count = facts.sum(of(direction), |_| 1);
        if last <= first || count < 2.0 {
            continue;
        }
        // n commands end in n - 1 intervals
        let per_second = (count - 1.0) / count / ((last - first) as f64 / 1e9);
        let commands = count * per_second;
        let bytes = facts.sum(of(direction), |c| c.bytes.into()) * per_second;
        let name = format!("{} that waited", direction.name);
        let rate = format!("{} IOPS, {}/s", rate(commands), size_text(bytes as u64));
        cause = cause.shown_by(&name, rate);
    }
    for limit in likely.iter().take(SHOWN) {
        let cgroup = match limit.cgroup.is_empty() {
            true => "a cgroup whose name was not recorded".into(),
            false => limit.cgroup.to_string(),
        };
        cause = cause.shown_by(&format!("{cgroup}: io.max"), limit);
    }
    if likely.len() > SHOWN {
        cause = cause.shown_by("more cgroups with limits", likely.len() - SHOWN);
    }
    if likely.is_empty() && is_whole {
        cause = cause.shown_by("io.max at the begin", "no limit on it");
    }
    Answer::cause(cause)
}

/// How to take the limit away, if there is only one that it can be.
fn advice(facts: &Facts, before: &Before, likely: &[&IoLimit]) -> String {
    let number = before.settings(facts).and_then(|disk| disk.number);
    let (&[limit], Some([major, minor])) = (likely, number) else {
        let cgroup = before.cgroup(facts);
        let find = match cgroup {
            Some(_) => "",
            None => {
                ". `latency --by cgroup` shows which cgroup has the commands, if it was recorded"
            }
        };
        let cgroup = cgroup.map_or("the cgroup".into(), |name| format!("the cgroup {name}"));
        return format!(
            "raise the limit of {cgroup} (io.max, or blkio.throttle of version 1; systemd: IOReadIOPSMax and the \
             like of the unit), or take load off it{find}"
        );
    };
    let file = cgroup_file(facts, &limit.cgroup, "io.max");
    let all = limit.all().into_iter();
    let off =
        all.filter_map(|(name, limit)| Some(format!("{name}=max")).filter(|_| limit.is_some()));
    let off = off.collect::<Vec<_>>().join(" ");
    format!(
        "raise the limit: `echo \"{major}:{minor} {off}\" > {file}` takes it away (where systemd sets it, set \
         IOReadIOPSMax and the like of the unit)"
    )
}
