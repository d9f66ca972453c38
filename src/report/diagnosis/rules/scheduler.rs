// SPDX-License-Identifier: MIT OR Apache-2.0
//! The I/O scheduler holds requests back.

use std::collections::BTreeSet;

use super::super::Answer;
use super::super::Cause;
use super::super::Command;
use super::super::Facts;
use super::super::Share;
use super::super::Stages;

pub fn check(facts: &Facts) -> Answer {
    let disks: BTreeSet<(u32, u32)> = facts
        .strata
        .iter()
        .map(|s| (s.stratum.ctrl, s.stratum.nsid))
        .collect();
    let (mut causes, mut any, mut most) = (Vec::new(), false, Share::default());
    for (ctrl, nsid) in disks {
        let scheduler = facts.disk(ctrl, nsid).and_then(|d| d.scheduler.as_deref());
        let Some(scheduler) = scheduler.filter(|s| *s != "none") else {
            continue;
        };
        any = true;
        let of = |c: &&Command| (c.stratum.ctrl, c.stratum.nsid) == (ctrl, nsid);
        let Some(share) = facts.share(facts.all().filter(of), Stages::QUEUE) else {
            continue;
        };
        if share.part > most.part {
            most = share;
        }
        if !share.is_most() {
            continue;
        }
        let name = facts.disk_name(ctrl, nsid);
        let cause = Cause::new(
            "scheduler",
            &name,
            format!("requests of {name} wait in the I/O scheduler {scheduler}"),
            format!("echo none > /sys/block/{name}/queue/scheduler"),
        );
        causes.push(
            cause
                .with_risk("requests are no longer merged, sorted or weighted by the scheduler")
                .explaining(share.part)
                .shown_by("queue", format!("{} of the time", share.text()))
                .shown_by("queue/scheduler", scheduler),
        );
    }
    match (&facts.machine, any) {
        (None, _) => Answer::Unknown("the scheduler was not recorded".into()),
        (_, false) => Answer::Out("no disk with commands has a scheduler".into()),
        _ => Answer::of(
            causes,
            format!("the queue stage has {} of the time", most.text()),
        ),
    }
}
