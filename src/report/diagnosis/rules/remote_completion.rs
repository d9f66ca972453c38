// SPDX-License-Identifier: MIT OR Apache-2.0
//! Commands that another CPU completes take longer to complete.

use super::super::Answer;
use super::super::Cause;
use super::super::Facts;
use super::super::Stages;
use super::not_shown;

/// The part of the time that goes with it.
const EXPLAINS: f64 = 0.1;

pub fn check(facts: &Facts) -> Answer {
    let stages = Stages::COMPLETE | Stages::END;
    let found = facts.compare(stages, |c| Some(c.submit_cpu? != c.end_cpu?));
    let Some((stratum, comparison)) = found else {
        return Answer::Out(
            "too few commands completed on another CPU, or on the submitting one".into(),
        );
    };
    if !comparison.goes_with(EXPLAINS) {
        return not_shown("remote / local", &comparison);
    }
    let name = facts.disk_name(stratum.ctrl, stratum.nsid);
    let cause = Cause::new(
        "remote-completion",
        &name,
        format!(
            "commands of {name} take longer to complete on another CPU than the submitting one"
        ),
        format!("echo 2 > /sys/block/{name}/queue/rq_affinity, or give each CPU a queue"),
    )
    .with_risk("an interrupt to the submitting CPU for each completion")
    .explaining(comparison.explains)
    .shown_by(
        &format!(
            "complete+end of {}, remote / local",
            facts.stratum_name(&stratum)
        ),
        comparison.text(),
    )
    .shown_by("completed elsewhere", comparison.with);
    Answer::Found(vec![cause])
}
