// SPDX-License-Identifier: MIT OR Apache-2.0
//! Commands failed, were retried, or timed out.

use crate::diagnose::affected::times_text;
use crate::diagnose::report::{Affected, Answer, Cause, Facts, Subject};
use crate::nvme::status::{Status, StatusType};

/// Fewer failures or retries are a note.
const SEVERAL: u64 = 3;

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

/// What happened to the commands of a controller.
#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    failed: u64,
    media: u64,
    retries: u64,
    timeouts: u64,
    /// Timeouts of completed commands that nothing had polled.
    unpolled: u64,
    resets: u64,
}

impl Counts {
    fn sentence(&self, name: &str) -> String {
        let count = |n: u64, one: &str, many: &str| {
            let what = if n == 1 { one } else { many };
            (n > 0).then(|| format!("{n} {what}"))
        };
        let parts = [
            count(self.failed, "command failed", "commands failed"),
            count(self.timeouts, "command timed out", "commands timed out"),
            count(
                self.unpolled,
                "completed command timed out because nothing polled its queue",
                "completed commands timed out because nothing polled their queues",
            ),
            count(self.retries, "retry", "retries"),
            count(self.resets, "reset", "resets"),
        ];
        let parts: Vec<String> = parts.into_iter().flatten().collect();
        format!("{name}: {}", parts.join(", "))
    }

    /// `blocks`: those of the media errors.
    fn advice(&self, name: &str, blocks: &str) -> String {
        let mut parts = vec![format!("read `dmesg | grep {name}`")];
        if self.media > 0 {
            let blocks = match blocks {
                "" => "the blocks that dmesg names".to_owned(),
                blocks => format!("the blocks {blocks}"),
            };
            parts.push(format!(
                "the medium has errors: see `nvme smart-log /dev/{name}` and `nvme error-log /dev/{name}`, and \
                 restore the data of {blocks}"
            ));
        }
        if self.timeouts > 0 {
            parts.push(
                "where the storage is slow for longer than the timeout, raise it (nvme_core.io_timeout)"
                    .into(),
            );
        }
        if self.unpolled > 0 {
            parts.push(
                "see why the application stopped polling: the driver finds completions of polled queues only then"
                    .into(),
            );
        }
        if self.retries > 0 {
            parts.push("each retry waits and runs again".into());
        }
        parts.join("; ")
    }
}

pub fn check(facts: &Facts, subject: Subject) -> Answer {
    let Some(ctrl) = subject.ctrl() else {
        return Answer::Absent("no controller".into());
    };
    let incidents = &facts.incidents;
    let own = incidents.failures.range((ctrl, 0)..=(ctrl, u16::MAX));
    let failed: Vec<(u16, u64)> = own
        .map(|((_, code), count)| (*code, *count))
        .filter(|(code, _)| is_failure_of_device(*code))
        .collect();
    let of = |map: &std::collections::BTreeMap<u32, u64>| map.get(&ctrl).copied().unwrap_or(0);
    let media = failed.iter().filter(|(code, _)| Status(*code).kind() == StatusType::Media);
    let is_polled = facts.is_polled(ctrl);
    let counts = Counts {
        failed: failed.iter().map(|(_, count)| count).sum(),
        media: media.map(|(_, count)| count).sum(),
        // those of a failed path are the path's
        retries: of(&incidents.retries).saturating_sub(of(&incidents.path_errors)),
        timeouts: incidents.unpolled(ctrl).count() as u64,
        unpolled: incidents.polled(ctrl).filter(|t| is_polled(t.id.qid)).count() as u64,
        resets: of(&incidents.resets),
    };
    let timeouts = counts.timeouts + counts.unpolled;
    if counts.failed + counts.retries + timeouts + counts.resets == 0 {
        return Answer::Absent(match facts.fabric(ctrl) {
            Some(transport) => {
                format!("no failure, retry or reset (timeouts of {transport} are not observed)")
            }
            None => "no failure, retry, timeout or reset".into(),
        });
    }
    let name = format!("nvme{ctrl}");
    let affected = |wanted: &dyn Fn(Status) -> bool| -> Vec<Affected> {
        let own = incidents.failed.iter().filter(|(_, command)| command.disk.ctrl == ctrl);
        own.filter(|(status, _)| wanted(*status)).map(|(_, command)| *command).collect()
    };
    let blocks = facts.blocks_of(&affected(&|status| status.kind() == StatusType::Media));
    let advice = counts.advice(&name, &blocks);
    let mut cause = Cause::new("errors-timeout", &name, counts.sentence(&name), advice);
    for (code, count) in &failed {
        cause = cause.shown_by(&format!("{}", Status(*code)), format!("{count} commands"));
    }
    for (what, count) in
        [("retries", counts.retries), ("timeouts", timeouts), ("resets", counts.resets)]
    {
        if count > 0 {
            cause = cause.shown_by(what, count);
        }
    }
    if let Some(times) = incidents.reset_times.get(&ctrl) {
        let times = times.iter().map(|at| (*at, *at));
        cause = cause.shown_by("reset at", times_text(facts.clock_of_day, times));
    }
    let mut commands = affected(&|status| is_failure_of_device(status.code_and_type()));
    let timed_out = incidents.unpolled(ctrl);
    let unpolled = incidents.polled(ctrl).filter(|t| is_polled(t.id.qid));
    commands.extend(timed_out.chain(unpolled).map(|t| t.affected));
    if counts.retries > 0 {
        commands.extend(incidents.retried.iter().filter(|command| command.disk.ctrl == ctrl));
    }
    if !commands.is_empty() {
        cause = cause.about(facts, commands);
    }
    let is_incident = timeouts + counts.resets > 0 || counts.failed.max(counts.retries) >= SEVERAL;
    match is_incident {
        true => Answer::cause(cause),
        false => Answer::note(cause),
    }
}
