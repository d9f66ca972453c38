// SPDX-License-Identifier: MIT OR Apache-2.0
//! The rate stays the same however many commands are in flight: a limit of the provider, or a
//! saturated device. Without the vendor's log these two look the same.

use super::super::Answer;
use super::super::Cause;
use super::super::Command;
use super::super::Facts;
use super::super::Stages;
use super::percent;
use crate::nvme::log::EbsStats;
use crate::units::rate;
use crate::units::size_text;

/// Fewest slices.
const SLICES: usize = 12;
/// Standard deviation of a flat rate, by its mean.
const FLAT: f64 = 0.06;
/// The number in flight varies by this factor.
const VARIES: f64 = 1.5;
/// A slice counts if not fewer are in flight.
const DEPTH: f64 = 2.0;

/// A limit counts that was exceeded for this part of the run.
const LOGGED: f64 = 0.05;

/// Standard deviation by mean.
fn variation(values: &[f64]) -> f64 {
    let n = values.len() as f64;
    let mean = values.iter().sum::<f64>() / n;
    let squares: f64 = values.iter().map(|v| (v - mean).powi(2)).sum();
    (squares / n).sqrt() / mean.max(f64::MIN_POSITIVE)
}

/// The slices that are busy, and between busy ones: their neighbours may be busy for a part only.
fn busy(depths: &[f64]) -> Vec<usize> {
    let windows = depths.windows(3).enumerate();
    let busy = windows.filter(|(_, depths)| depths.iter().all(|d| *d >= DEPTH));
    busy.map(|(n, _)| n + 1).collect()
}

fn pick(values: &[f64], slices: &[usize]) -> Vec<f64> {
    slices.iter().map(|&n| values[n]).collect()
}

/// The 10 % and the 90 % quantile.
fn spread(values: &[f64]) -> (f64, f64) {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let at = |q: f64| sorted[((sorted.len() - 1) as f64 * q).round() as usize];
    (at(0.1), at(0.9))
}

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
        (
            "throughput of the instance",
            part(|s| s.instance_throughput_us),
        ),
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

pub fn check(facts: &Facts) -> Answer {
    let (mut causes, mut reason) = (Vec::new(), "the rate follows the number in flight");
    for ctrl in facts.ctrls() {
        if let Some(cause) = logged(facts, ctrl) {
            causes.push(cause);
            continue;
        }
        let of = |value: &dyn Fn(&Command) -> u64| facts.sums(facts.of_ctrl(ctrl), value);
        let (counts, bytes) = (of(&|_| 1), of(&|c| c.bytes.into()));
        let width = facts.clock.width_ns() as f64;
        let depths: Vec<f64> = of(&Command::total).iter().map(|ns| ns / width).collect();
        let busy = busy(&depths);
        if busy.len() < SLICES {
            reason = "not long enough with two commands in flight";
            continue;
        }
        let [counts, bytes, depths] = [counts, bytes, depths].map(|all| pick(&all, &busy));
        let (low, high) = spread(&depths);
        if high < low * VARIES {
            reason = "the number in flight did not vary: a limit would not show";
            continue;
        }
        let (flat_counts, flat_bytes) = (variation(&counts), variation(&bytes));
        let all = facts.of_ctrl(ctrl);
        let device = facts
            .share(all, Stages::DEVICE | Stages::IRQ)
            .unwrap_or_default();
        if flat_counts.min(flat_bytes) > FLAT || !device.is_most() {
            continue;
        }
        let name = format!("nvme{ctrl}");
        let seconds = facts.clock.width_ns() as f64 / 1e9;
        let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len() as f64 / seconds;
        let limit = if flat_counts <= flat_bytes {
            format!("{} IOPS", rate(mean(&counts)))
        } else {
            format!("{}/s", size_text(mean(&bytes) as u64))
        };
        causes.push(
            Cause::new(
                "rate-cap",
                &name,
                format!("{name} does no more than {limit}: a limit, or a saturated device"),
                "compare with the limits that the provider states (IOPS and throughput of the volume and of \
                 the instance), and raise them; or submit fewer commands at a time, which wait less",
            )
            .explaining(device.part)
            .shown_by("rate", limit)
            .shown_by("its variation", format!("{:.1} %", flat_counts.min(flat_bytes) * 100.0))
            .shown_by("commands in flight", format!("{low:.1} to {high:.1}")),
        );
    }
    Answer::of(causes, reason)
}
