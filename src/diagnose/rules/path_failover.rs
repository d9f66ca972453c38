// SPDX-License-Identifier: MIT OR Apache-2.0
//! A path of a multipath namespace failed.

use crate::diagnose::report::{Answer, Cause, Facts, Subject};

pub fn check(facts: &Facts, subject: Subject) -> Answer {
    let count = subject.ctrl().and_then(|ctrl| facts.incidents.path_errors.get(&ctrl));
    let Some(count) = count else {
        return Answer::Absent("no command failed with a path related status".into());
    };
    let name = facts.subject_name(subject);
    Answer::cause(
        Cause::new(
            "path-failover",
            &name,
            format!(
                "a path through {name} failed: {count} {} ended with a path related status",
                if *count == 1 { "command" } else { "commands" }
            ),
            format!(
                "check the link and the ANA state of {name} (`nvme list-subsys`), and the policy of the \
                 subsystem (/sys/class/nvme-subsystem/*/iopolicy)"
            ),
        )
        .shown_by("commands with a path related status", count),
    )
}
