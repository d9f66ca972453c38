// SPDX-License-Identifier: MIT OR Apache-2.0
//! The virtual CPUs did not run: the host ran something else, or the virtual machine monitor stalled.
//! From inside, these two look the same.

use super::super::Answer;
use super::super::Cause;
use super::super::Facts;
use super::super::Stages;
use super::percent;

/// The CPUs were away for this part of the time.
const AWAY: f64 = 0.05;
/// Gaps of this part suffice: too few commands are without one for a comparison.
const CERTAIN: f64 = 0.2;
/// And this part of the time of the commands went with it.
const EXPLAINS: f64 = 0.1;

pub fn check(facts: &Facts) -> Answer {
    let Some(span) = &facts.activity else {
        return Answer::Unknown("steal and gaps were not observed (record --context)".into());
    };
    let cpus = &span.counted.cpus;
    let has_timer = cpus.iter().any(|cpu| cpu.gaps.is_some());
    let all = (span.ns as f64 * cpus.len() as f64).max(1.0);
    let stolen = cpus.iter().map(|cpu| cpu.steal_ns).sum::<u64>() as f64 / all;
    let away = cpus.iter().map(|cpu| cpu.gap_ns).sum::<u64>() as f64 / all;
    let slower = facts.compare_all(Stages::ALL, |command| {
        has_timer.then(|| facts.gaps.met(command, facts.expected(command)))
    });
    let goes_with = slower.filter(|(_, c)| c.goes_with(EXPLAINS));
    if stolen < AWAY && away < CERTAIN && (away < AWAY || goes_with.is_none()) {
        return Answer::Out(format!(
            "steal {}, gaps in the timers {}",
            percent(stolen),
            if has_timer {
                percent(away)
            } else {
                "not observed".into()
            }
        ));
    }
    let mut cause = Cause::new(
        "vcpu-stolen",
        "machine",
        format!(
            "the virtual CPUs did not run for {} of the time: the host is busy, or the virtual machine \
             monitor stalls",
            percent(stolen.max(away))
        ),
        "give the machine CPUs of its own on the host (fewer guests, pinning, no CPU limit); if the host \
         is idle, look for stalls of the monitor (snapshots, migration, its storage in the same thread)",
    )
    .shown_by("steal", percent(stolen));
    if has_timer {
        cause = cause.shown_by("gaps in the timers", percent(away));
    }
    if let Some((stratum, comparison)) = goes_with {
        let name = facts.stratum_name(&stratum);
        cause = cause
            .shown_by(&format!("{name} with a gap / without"), comparison.text())
            .explaining(comparison.explains);
    }
    Answer::Found(vec![cause])
}
