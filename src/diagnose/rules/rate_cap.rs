// SPDX-License-Identifier: MIT OR Apache-2.0
//! The rate stays the same however many commands are in flight: a limit of the provider, or a
//! saturated device. Without the vendor's log these two look the same. Where the number in flight does
//! not change, a limit does not show, and is not ruled out.

use super::conditions::SUBMISSION;
use crate::diagnose::facts::Stages;
use crate::diagnose::rates::Flat;
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

/// A limit of a volume, and the time beyond it, in microseconds.
type Limit = (&'static str, fn(&EbsStats) -> u64);

/// Whether the volume's own log shows that more was asked for than the provider allows.
fn is_logged(case: &Case<'_>, verdict: &mut Verdict) -> bool {
    const LIMITS: [Limit; 4] = [
        ("IOPS of the volume", |s| s.volume_iops_us),
        ("throughput of the volume", |s| s.volume_throughput_us),
        ("IOPS of the instance", |s| s.instance_iops_us),
        ("throughput of the instance", |s| s.instance_throughput_us),
    ];
    let mut logs = case.facts.logs.iter().flatten();
    let own = logs.find(|(_, last)| last.instance == case.ctrl());
    let Some((first, last)) = own.and_then(|(first, last)| first.ebs.zip(last.ebs)) else {
        return false;
    };
    let covers = (case.facts.covers.as_micros() as f64).max(1.0);
    let part = |of: fn(&EbsStats) -> u64| of(&last).saturating_sub(of(&first)) as f64 / covers;
    let limits = LIMITS.map(|(what, of)| (what, part(of)));
    let largest = limits.into_iter().max_by(|(_, a), (_, b)| a.total_cmp(b));
    let Some((what, most)) = largest.filter(|(_, most)| *most >= 0.05) else {
        return false;
    };
    for (what, part) in limits {
        verdict.shows_if(&format!("time beyond the {what}"), (part > 0.0).then(|| percent(part)));
    }
    verdict.text = format!("{{name}} was asked for more than the {what} allow");
    verdict.share = Some(Share::of(most.min(1.0)));
    verdict.advice = "raise this limit at the provider, or submit less at a time".into();
    true
}

fn rate_cap(case: &Case<'_>, verdict: &mut Verdict) -> Result<(), Reason> {
    if is_logged(case, verdict) {
        return Ok(());
    }
    case.needs_all()?;
    // a limit of the device is in the device's time; if that was not observed apart, it is between the end of the
    // setup and the completion by the driver
    let wider = SUBMISSION.with(Stages::AT_DEVICE).with(Stages::COMPLETE);
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
    let Flat { in_flight: (low, high), .. } = flat;
    verdict.shows("commands in flight", format!("{low:.1} to {high:.1}"));
    Ok(())
}
