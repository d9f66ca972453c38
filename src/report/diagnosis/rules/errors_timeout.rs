// SPDX-License-Identifier: MIT OR Apache-2.0
//! Commands failed, were retried, or timed out.

use std::collections::BTreeSet;

use super::super::Answer;
use super::super::Cause;
use super::super::Facts;
use crate::nvme::status::Status;
use crate::nvme::status::StatusType;

/// Whether a failure is one of the device, not of a request that it does not support.
fn is_failure_of_device(code: u16) -> bool {
    let status = Status(code);
    match status.kind() {
        // invalid opcode, field, namespace
        StatusType::Generic => !matches!(status.code(), 0x01 | 0x02 | 0x0b),
        StatusType::CommandSpecific | StatusType::Path => false,
        _ => true,
    }
}

pub fn check(facts: &Facts) -> Answer {
    let incidents = &facts.incidents;
    let failed = incidents.failures.iter();
    let failed: Vec<_> = failed
        .filter(|((_, code), _)| is_failure_of_device(*code))
        .collect();
    let unpolled = |ctrl: u32| {
        let all = incidents.timeouts.iter();
        all.filter(|t| t.id.ctrl == ctrl && !t.polled).count() as u64
    };
    let mut ctrls: BTreeSet<u32> = failed.iter().map(|((ctrl, _), _)| *ctrl).collect();
    ctrls.extend(incidents.resets.keys());
    ctrls.extend(
        incidents
            .controllers()
            .into_iter()
            .filter(|&c| unpolled(c) > 0),
    );
    let path_errors = |ctrl| incidents.path_errors.get(&ctrl).copied().unwrap_or(0);
    let retried = |ctrl: &u32| incidents.retries.get(ctrl).copied().unwrap_or(0);
    ctrls.extend(incidents.retries.keys().filter(|&&c| path_errors(c) == 0));
    let causes = ctrls.into_iter().map(|ctrl| {
        let name = format!("nvme{ctrl}");
        let mut cause = Cause::new(
            "errors-timeout",
            &name,
            format!("commands of {name} failed or timed out; each retry waits and runs again"),
            format!(
                "read `dmesg | grep {name}` and `nvme smart-log /dev/{name}`; where the storage is slow \
                 for longer than the timeout, raise it (nvme_core.io_timeout)"
            ),
        );
        for ((_, code), count) in failed.iter().filter(|((c, _), _)| *c == ctrl) {
            cause = cause.shown_by(&format!("{}", Status(*code)), format!("{count} commands"));
        }
        let counts = [
            ("retries", retried(&ctrl)),
            ("timeouts", unpolled(ctrl)),
            ("resets", incidents.resets.get(&ctrl).copied().unwrap_or(0)),
        ];
        for (what, count) in counts.into_iter().filter(|(_, n)| *n > 0) {
            cause = cause.shown_by(what, count);
        }
        cause
    });
    Answer::of(causes.collect(), "no failure, retry, timeout or reset")
}
