// SPDX-License-Identifier: MIT OR Apache-2.0
//! Requests are split, because they are larger than the device takes.

use super::super::Answer;
use super::super::Cause;
use super::super::Facts;
use crate::units::size_text;

/// Commands per request of an application.
const TIMES: f64 = 1.5;

pub fn check(facts: &Facts) -> Answer {
    let Some(all) = facts.counted(|a| a.splits.as_ref()) else {
        return Answer::Unknown("splits were not observed (record --context)".into());
    };
    if facts.lacks_requests() {
        return Answer::Unknown("commands of a disk were left out, as by a filter".into());
    }
    let (mut causes, mut most) = (Vec::new(), 1.0_f64);
    for splits in all {
        // a filter may have left the disk out
        if facts.of_disk(splits.ctrl, splits.nsid).next().is_none() {
            continue;
        }
        let commands = facts.sum(facts.of_disk(splits.ctrl, splits.nsid), |_| 1) as u64;
        let whole = commands.saturating_sub(splits.count).max(1);
        let times = commands as f64 / whole as f64;
        most = most.max(times);
        if times < TIMES {
            continue;
        }
        let name = facts.disk_name(splits.ctrl, splits.nsid);
        let mut cause = Cause::new(
            "split",
            &name,
            format!("requests of {name} are split: {times:.1} commands for each"),
            format!(
                "submit at most max_sectors_kb at a time, or raise it up to max_hw_sectors_kb \
                 (/sys/block/{name}/queue); the device's own limit is MDTS"
            ),
        )
        .shown_by("splits", splits.count)
        .shown_by("commands", commands);
        if let Some(disk) = facts.disk(splits.ctrl, splits.nsid) {
            let limits = [
                ("queue/max_sectors_kb", disk.max_bytes),
                ("queue/max_hw_sectors_kb", disk.max_hw_bytes),
            ];
            for (what, bytes) in limits {
                if let Some(bytes) = bytes {
                    cause = cause.shown_by(what, size_text(bytes));
                }
            }
        }
        causes.push(cause);
    }
    Answer::of(causes, format!("{most:.2} commands for each request"))
}
