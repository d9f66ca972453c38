// SPDX-License-Identifier: MIT OR Apache-2.0
//! A path of a multipath namespace failed.

use super::super::Answer;
use super::super::Cause;
use super::super::Facts;

pub fn check(facts: &Facts) -> Answer {
    let causes = facts.incidents.path_errors.iter().map(|(ctrl, count)| {
        let name = format!("nvme{ctrl}");
        Cause::new(
            "path-failover",
            &name,
            format!("a path through {name} failed: its commands were sent again on another one"),
            format!(
                "check the link and the ANA state of {name} (`nvme list-subsys`), and the policy of the \
                 subsystem (/sys/class/nvme-subsystem/*/iopolicy)"
            ),
        )
        .shown_by("commands with a path related status", count)
    });
    Answer::of(
        causes.collect(),
        "no command failed with a path related status",
    )
}
