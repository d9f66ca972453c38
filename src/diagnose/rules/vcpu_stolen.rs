// SPDX-License-Identifier: MIT OR Apache-2.0
//! CPUs did not run: in a virtual machine the host ran something else, or the monitor stalled. From
//! inside, these two look the same.

use super::before::FULL;
use super::percent;
use crate::diagnose::report::{Answer, Cause, Compared, Facts, Stages, Subject};

/// Less is not mentioned.
const AWAY: f64 = 0.05;
/// The host has taken this part of the CPU time, by its own count.
const STOLEN: f64 = 0.1;
/// Timers were late for this part of the time.
const GAPS: f64 = 0.2;
/// Or for this part, and commands beside gaps take longer, by this part of all time.
const GAPS_SEEN: f64 = 0.1;
const EXPLAINS: f64 = 0.1;

/// The sentence and the advice, in words that fit the machine.
fn words(facts: &Facts, away: f64) -> (String, &'static str) {
    let part = percent(away);
    match facts.machine.as_ref().and_then(|m| m.is_virtual) {
        Some(false) => (
            format!(
                "CPUs did not run for {part} of the time: firmware (SMIs) takes them, or timers are late"
            ),
            "look for SMIs (turbostat's SMI column), firmware updates, and power management that stops timers",
        ),
        _ => (
            format!(
                "the virtual CPUs did not run for {part} of the time: the host is busy, or the virtual machine \
                 monitor stalls"
            ),
            "give the machine CPUs of its own on the host (fewer guests, pinning, no CPU limit); if the host \
             is idle, look for stalls of the monitor (snapshots, migration, its storage in the same thread)",
        ),
    }
}

pub fn check(facts: &Facts, subject: Subject) -> Answer {
    let Some(span) = &facts.activity else {
        return Answer::NotLooked(FULL.into());
    };
    let cpus = &span.counted.cpus;
    let all = (span.ns as f64 * cpus.len() as f64).max(1.0);
    let end_ns = span.counted.at_ns;
    let whole = (end_ns.saturating_sub(span.ns), end_ns);
    let timed = cpus.iter().map(|cpu| facts.gaps.timed_ns(cpu.cpu, whole)).sum::<u64>();
    let has_timer = timed > 0;
    let stolen = cpus.iter().map(|cpu| cpu.steal_ns).sum::<u64>() as f64 / all;
    let away = cpus.iter().map(|cpu| cpu.gap_ns).sum::<u64>() as f64 / (timed as f64).max(1.0);
    let most = stolen.max(away);
    let gaps = if has_timer { percent(away) } else { "not observed".into() };
    let text = format!("steal {}, gaps in the timers {gaps}", percent(stolen));
    if most < AWAY {
        return match has_timer || cpus.iter().any(|cpu| cpu.steal_ns > 0) {
            true => Answer::Absent(text),
            false => Answer::Open("neither steal nor gaps in the timers were observed".into()),
        };
    }
    let (stratum, compared) = facts.compare_all(subject, Stages::ALL, |command| {
        let expected = facts.expected(command);
        let is_known = facts.gaps.observe(command, expected);
        is_known.then(|| facts.gaps.met(command, expected))
    });
    let found = match compared {
        Compared::Found(found) => Some(found),
        Compared::TooFew { .. } => None,
    };
    let goes_with = found.as_ref().filter(|c| c.goes_with(EXPLAINS)).zip(stratum);
    let is_cause = stolen >= STOLEN || away >= GAPS || (away >= GAPS_SEEN && goes_with.is_some());
    if let Some(found) = &found
        && goes_with.is_none()
        && !is_cause
        && !found.is_vague()
        && found.unjudged < EXPLAINS
    {
        let part = percent(found.explains.max(0.0));
        return Answer::Out(format!(
            "{text}; commands beside a gap take {}, which explains {part} of the time",
            found.text()
        ));
    }
    let (sentence, advice) = words(facts, most);
    let mut cause = Cause::new("vcpu-stolen", "machine", sentence, advice)
        .shown_by("steal", percent(stolen))
        .shown_by("gaps in the timers", gaps);
    let mut explains = most;
    if let Some((comparison, stratum)) = goes_with {
        let name = facts.stratum_name(&stratum);
        cause = cause.shown_by(&format!("{name} with a gap / without"), comparison.text());
        explains = explains.max(comparison.explains);
    }
    match is_cause {
        true => Answer::cause(cause.explaining(explains)),
        // what it costs the commands is not measured
        false => Answer::note(cause),
    }
}
