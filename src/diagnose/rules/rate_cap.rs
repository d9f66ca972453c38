// SPDX-License-Identifier: MIT OR Apache-2.0
//! The rate stays the same however many commands are in flight: a limit of the provider, or a
//! saturated device. Without the vendor's log these two look the same. Where the number in flight does
//! not change, a limit does not show, and is not ruled out.

use super::percent;
use super::waits::PART;
use crate::diagnose::portion::Reaches;
use crate::diagnose::rates::{Flat, Reading};
use crate::diagnose::report::{Answer, Cause, Facts, Portion, Rates, Stages, Subject};
use crate::nvme::log::EbsStats;
use crate::units::{rate, size_text};

/// A limit counts that was exceeded for this part of the run.
const LOGGED: f64 = 0.05;

/// The part of the run in which more was asked for than the provider allows, by the volume's own log,
/// for each of its limits.
fn beyond(facts: &Facts, ctrl: u32) -> Option<[(&'static str, f64); 4]> {
    let mut logs = facts.logs.iter().flatten();
    let (first, last) = logs.find(|(_, last)| last.instance == ctrl)?;
    let (first, last) = (first.ebs?, last.ebs?);
    let part = |of: fn(&EbsStats) -> u64| {
        let micros = of(&last).saturating_sub(of(&first)) as f64;
        micros / (facts.covers.as_micros() as f64).max(1.0)
    };
    Some([
        ("IOPS of the volume", part(|s| s.volume_iops_us)),
        ("throughput of the volume", part(|s| s.volume_throughput_us)),
        ("IOPS of the instance", part(|s| s.instance_iops_us)),
        ("throughput of the instance", part(|s| s.instance_throughput_us)),
    ])
}

/// A limit that the volume's own log shows.
fn logged(facts: &Facts, ctrl: u32) -> Option<Cause> {
    let limits = beyond(facts, ctrl)?;
    let most = limits.iter().max_by(|a, b| a.1.total_cmp(&b.1))?;
    (most.1 >= LOGGED).then(|| {
        let name = format!("nvme{ctrl}");
        let cause = Cause::new(
            "rate-cap",
            &name,
            format!("{name} was asked for more than the {} allow", most.0),
            "raise this limit at the provider, or submit less at a time",
        )
        .explaining(most.1.min(1.0));
        let shown = limits.iter().filter(|(_, part)| *part > 0.0);
        shown.fold(cause, |cause, (what, part)| {
            cause.shown_by(&format!("time beyond the {what}"), percent(*part))
        })
    })
}

pub fn check(facts: &Facts, subject: Subject) -> Answer {
    let Some(ctrl) = subject.ctrl() else {
        return Answer::Absent("no controller".into());
    };
    if let Some(cause) = logged(facts, ctrl) {
        return Answer::cause(cause);
    }
    if let Some(why) = facts.lacks(subject) {
        return Answer::Open(why);
    }
    let Some(portion) = facts.portion_at_device(subject) else {
        return Answer::Absent("no commands".into());
    };
    match portion.is_most() {
        Reaches::Yes => {}
        Reaches::No => {
            let stages = portion.stages;
            return Answer::Out(format!("{} {} {}", stages.short(), stages.have(), portion.text()));
        }
        Reaches::Open => return Answer::Open(portion.undecided()),
    }
    let throttled = facts.portion(subject, Stages::THROTTLE);
    if let Some(throttled) = throttled.filter(|p| p.is_at_least(PART) == Reaches::Yes) {
        return Answer::Open(format!(
            "a limit of a cgroup may make the rate: throttle has {}",
            throttled.text()
        ));
    }
    let reading = facts.rates.get(&ctrl).map(Rates::reading);
    let flat = match reading {
        Some(Reading::Limit(flat)) => flat,
        Some(Reading::None(why)) => return Answer::Out(why),
        Some(Reading::Open(why)) => return Answer::Open(why),
        None => return Answer::Absent("no commands".into()),
    };
    Answer::cause(cause(ctrl, &portion, &flat))
}

/// The cause: the rate of a controller is flat.
fn cause(ctrl: u32, portion: &Portion, flat: &Flat) -> Cause {
    let name = format!("nvme{ctrl}");
    let limit = match flat.is_bytes {
        false => format!("{} IOPS", rate(flat.rate)),
        true => format!("{}/s", size_text(flat.rate as u64)),
    };
    let (low, high) = flat.in_flight;
    let cause = Cause::new(
        "rate-cap",
        &name,
        format!("{name} does no more than {limit}: a limit, or a saturated device"),
        "compare with the limits that the provider states (IOPS and throughput of the volume and of \
         the instance), and raise them; or submit fewer commands at a time, which wait less",
    );
    cause
        .explaining_stages(portion)
        .shown_by("rate", limit)
        .shown_by("commands in flight", format!("{low:.1} to {high:.1}"))
        .shown_by(
            "variance / mean of completions",
            format!("{:.2} (independent ones: 1)", flat.dispersion),
        )
        .shown_by("changes of it that submissions made", percent(flat.by_submissions))
}
