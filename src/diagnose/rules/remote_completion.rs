// SPDX-License-Identifier: MIT OR Apache-2.0
//! Commands that another CPU completes take longer to complete.

use super::condition::Condition;
use crate::diagnose::report::{Answer, Cause, Facts, Stages, Subject};

/// The part of the time that goes with it.
const EXPLAINS: f64 = 0.1;
/// The stages after the CQE.
const STAGES: Stages = Stages::COMPLETE.with(Stages::END);

/// What changes it: a value that the queue does not have yet.
fn advice(name: &str, rq_affinity: Option<u32>) -> String {
    match rq_affinity {
        Some(2) => "give each CPU a queue, so that its commands complete on it".into(),
        _ => format!("echo 2 > /sys/block/{name}/queue/rq_affinity, or give each CPU a queue"),
    }
}

pub fn check(facts: &Facts, subject: Subject) -> Answer {
    let condition = Condition {
        subject,
        stages: STAGES,
        least: EXPLAINS,
        sides: ["remote completions", "local completions"],
        may_follow: false,
    };
    let found = condition.judge(facts, |c| Some(c.submit_cpu? != c.end_cpu?));
    let (stratum, comparison) = match found {
        Ok(found) => found,
        Err(answer) => return answer,
    };
    let name = facts.disk_name(stratum.ctrl, stratum.nsid);
    let disk = facts.disk(stratum.ctrl, stratum.nsid);
    let cause = Cause::new(
        "remote-completion",
        &name,
        format!(
            "commands of {name} take longer to complete on another CPU than the submitting one"
        ),
        advice(&name, disk.and_then(|d| d.rq_affinity)),
    )
    .with_risk("an interrupt to the submitting CPU for each completion")
    .explaining_longer(&comparison)
    .shown_by(
        &format!("complete+end of {}, remote / local", facts.stratum_name(&stratum)),
        comparison.text(),
    )
    .shown_by("completed elsewhere", comparison.with);
    Answer::cause(cause)
}
