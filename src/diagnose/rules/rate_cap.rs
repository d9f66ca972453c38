// SPDX-License-Identifier: MIT OR Apache-2.0
//! The rate stays the same however many commands are in flight: a limit of the provider, or a
//! saturated device. Without the vendor's log these two look the same. Where the number in flight does
//! not change, a limit does not show, and is not ruled out.

use crate::diagnose::facts::Stages;
use crate::diagnose::rule::{Case, Kind, Rule, Tier};
use crate::diagnose::verdict::{MOST, Reason, Share, Verdict, absent, open};
use crate::nvme::log::EbsStats;
use crate::units::percent;

pub const RULE: Rule = Rule {
    id: "rate-cap",
    noun: "a rate limit",
    tier: Tier::Limit,
    kind: Kind::Event(rate_cap),
    found: "the rate stays the same while submissions change the number in flight by half and more, and completions \
            vary at most half as much as independent ones ([more](dev/diagnose.md)). Or, with `--log`, an EBS volume counts \
            5% of the time beyond a limit. Not judged if `throttle` has 30% of the time",
    text: "{name} does no more than {limit}: a limit, or a saturated device",
    advice: "compare with the limits that the provider states (IOPS and throughput of the volume and of the instance), \
             and raise them; or submit fewer commands at a time, so that each waits less",
    ..super::RULE
};

/// The parts of the run in which more was asked for than the provider allows, by the volume's own log, for each
/// of its limits.
fn beyond(case: &Case<'_>) -> Option<[(&'static str, f64); 4]> {
    let mut logs = case.facts.logs.iter().flatten();
    let (first, last) = logs.find(|(_, last)| last.instance == case.ctrl())?;
    let (first, last) = (first.ebs?, last.ebs?);
    let part = |of: fn(&EbsStats) -> u64| {
        let micros = of(&last).saturating_sub(of(&first)) as f64;
        micros / (case.facts.covers.as_micros() as f64).max(1.0)
    };
    Some([
        ("IOPS of the volume", part(|s| s.volume_iops_us)),
        ("throughput of the volume", part(|s| s.volume_throughput_us)),
        ("IOPS of the instance", part(|s| s.instance_iops_us)),
        ("throughput of the instance", part(|s| s.instance_throughput_us)),
    ])
}

/// Whether the volume's own log shows a limit.
fn is_logged(case: &Case<'_>, verdict: &mut Verdict) -> bool {
    let limits = beyond(case).unwrap_or_default();
    let Some((what, most)) = limits.iter().copied().max_by(|a, b| a.1.total_cmp(&b.1)) else {
        return false;
    };
    if most < 0.05 {
        return false;
    }
    verdict.share = Some(Share::of(most.min(1.0)));
    verdict.text = format!("{{name}} was asked for more than the {what} allow");
    verdict.advice = "raise this limit at the provider, or submit less at a time".into();
    for (what, part) in limits.iter().filter(|(_, part)| *part > 0.0) {
        verdict.shows(format!("time beyond the {what}"), percent(*part));
    }
    true
}

fn rate_cap(case: &Case<'_>, verdict: &mut Verdict) -> Result<(), Reason> {
    if is_logged(case, verdict) {
        return Ok(());
    }
    case.needs_all()?;
    // a limit of the device is in the device's time; if that was not observed apart, it is between the end of the
    // setup and the completion by the driver
    let wider = Stages::MAP | Stages::SUBMIT | Stages::AT_DEVICE | Stages::COMPLETE;
    let is_apart = case.share(Stages::AT_DEVICE).reaches(MOST).is_some();
    let stages = if is_apart { Stages::AT_DEVICE } else { wider };
    let share = case.large(stages, MOST)?;
    let throttled = case.share(Stages::THROTTLE);
    if throttled.reaches(0.3) == Some(true) {
        return Err(open(format!(
            "a limit of a cgroup may make the rate: throttle has {} of the time",
            throttled.text()
        )));
    }
    let rates = case.facts.rates.get(&case.ctrl()).ok_or_else(|| absent("no commands"))?;
    let flat = rates.limit()?;
    verdict.has_share(share, stages);
    verdict.shows("rate", flat.limit());
    verdict.name("limit", flat.limit());
    let (low, high) = flat.in_flight;
    verdict.shows("commands in flight", format!("{low:.1} to {high:.1}"));
    let dispersion = format!("{:.2} (independent ones: 1)", flat.dispersion);
    verdict.shows("variance / mean of completions", dispersion);
    verdict
        .shows("changes in the number in flight made by submissions", percent(flat.by_submissions));
    Ok(())
}
