// SPDX-License-Identifier: MIT OR Apache-2.0
//! A path of a multipath namespace failed.

use crate::diagnose::incidents::is_host_abort;
use crate::diagnose::report::{Answer, Cause, Facts, Subject};
use crate::nvme::status::StatusType;

pub fn check(facts: &Facts, subject: Subject) -> Answer {
    let count = subject.ctrl().and_then(|ctrl| facts.incidents.path_errors.get(&ctrl));
    let Some(count) = count else {
        return Answer::Absent("no command failed with a path-related status".into());
    };
    let name = facts.subject_name(subject);
    let failed = facts.incidents.failed.iter();
    let failed = failed.filter(|(status, command)| {
        let is_path = status.kind() == StatusType::Path && !is_host_abort(*status);
        is_path && subject.ctrl() == Some(command.disk.ctrl)
    });
    let failed = failed.map(|(_, command)| *command).collect();
    Answer::cause(
        Cause::new(
            "path-failover",
            &name,
            format!(
                "a path through {name} failed: {count} {} ended with a path-related status",
                if *count == 1 { "command" } else { "commands" }
            ),
            format!(
                "check the link and the ANA state of {name} (`nvme list-subsys`), and the policy of the \
                 subsystem (/sys/class/nvme-subsystem/*/iopolicy)"
            ),
        )
        .shown_by("commands with a path-related status", count)
        .about(facts, failed),
    )
}
