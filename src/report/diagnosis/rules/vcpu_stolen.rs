// SPDX-License-Identifier: MIT OR Apache-2.0
//! The virtual CPUs did not run: the host ran something else, or the virtual machine monitor stalled.
//! From inside, these two look the same.

use std::collections::BTreeMap;

use super::super::Answer;
use super::super::Cause;
use super::super::Command;
use super::super::Facts;
use super::super::Stages;
use super::percent;
use crate::model::activity::Gap;

/// The CPUs were away for this part of the time.
const AWAY: f64 = 0.05;
/// And this part of the time of the commands went with it.
const EXPLAINS: f64 = 0.1;

/// Gaps by CPU, in order.
fn by_cpu(gaps: &[Gap]) -> BTreeMap<u32, Vec<Gap>> {
    let mut all: BTreeMap<u32, Vec<Gap>> = BTreeMap::new();
    for gap in gaps {
        all.entry(gap.cpu).or_default().push(*gap);
    }
    for gaps in all.values_mut() {
        gaps.sort_by_key(|g| g.begin_ns);
    }
    all
}

/// Whether a CPU of this command had a gap in this time.
fn had_gap(gaps: &BTreeMap<u32, Vec<Gap>>, command: &Command, (from, to): (u64, u64)) -> bool {
    let cpus = [command.submit_cpu, command.end_cpu];
    cpus.into_iter().flatten().any(|cpu| {
        let gaps = gaps.get(&cpu.into()).map_or(&[][..], Vec::as_slice);
        let next = gaps.partition_point(|g| g.end_ns < from);
        gaps.get(next).is_some_and(|g| g.begin_ns <= to)
    })
}

pub fn check(facts: &Facts) -> Answer {
    let Some(span) = &facts.activity else {
        return Answer::Unknown("steal and gaps were not observed (record --context)".into());
    };
    let cpus = &span.counted.cpus;
    let has_timer = cpus.iter().any(|cpu| cpu.gaps.is_some());
    let all = (span.ns as f64 * cpus.len() as f64).max(1.0);
    let stolen = cpus.iter().map(|cpu| cpu.steal_ns).sum::<u64>() as f64 / all;
    let away = cpus.iter().map(|cpu| cpu.gap_ns).sum::<u64>() as f64 / all;
    let gaps = by_cpu(&facts.gaps);
    let slower = facts.compare(Stages::ALL, |command| {
        has_timer.then(|| had_gap(&gaps, command, facts.expected(command)))
    });
    let goes_with = slower.filter(|(_, c)| c.goes_with(EXPLAINS));
    if stolen < AWAY && (away < AWAY || goes_with.is_none()) {
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
            .shown_by(&format!("{name} with a gap, by without"), comparison.text())
            .explaining(comparison.explains);
    }
    Answer::Found(vec![cause])
}
