// SPDX-License-Identifier: MIT OR Apache-2.0
//! Data are copied through bounce buffers (swiotlb).

use super::condition::COPYING;
use super::{not_observed, percent};
use crate::diagnose::portion::Reaches;
use crate::diagnose::report::{Answer, Cause, Facts, Subject};

/// Bounces per command.
const PER_COMMAND: f64 = 0.5;
/// The stages that copy have this part of the time.
const PART: f64 = 0.2;
/// The pool is nearly full.
const FULL: f64 = 0.9;

/// The advice: a larger pool only where the pool is short.
fn advice(is_full: bool) -> &'static str {
    if is_full {
        "give it a larger pool (`swiotlb=N`, in slabs of 2 KiB) or a kernel with CONFIG_SWIOTLB_DYNAMIC; remove \
         `swiotlb=force` if it is not needed"
    } else {
        "remove `swiotlb=force` if it is not needed; an encrypted guest needs it: larger requests bounce as \
         much, fewer bytes bounce less"
    }
}

pub fn check(facts: &Facts, subject: Subject) -> Answer {
    let Some(bounces) = facts.counted(|a| a.bounces) else {
        return not_observed(facts, "bounce buffers");
    };
    let per_command = match facts.per_request(bounces.count) {
        Ok(number) => number,
        Err(why) => return Answer::Open(why),
    };
    if per_command < PER_COMMAND {
        return Answer::Absent(format!("{per_command:.2} bounces per command"));
    }
    let Some(portion) = facts.portion(subject, COPYING) else {
        return Answer::Absent("no commands".into());
    };
    let pool = facts.counted(|a| a.bounce_pool).filter(|p| p.size > 0);
    let full = pool.map_or(0.0, |p| p.used as f64 / p.size as f64);
    match portion.is_at_least(PART) {
        Reaches::Yes => {}
        Reaches::Open => return Answer::Open(portion.undecided()),
        Reaches::No => {
            return Answer::Out(format!(
                "data bounce, but {} have {}",
                COPYING.name(),
                portion.text()
            ));
        }
    }
    let mut cause = Cause::new(
        "bounce",
        "machine",
        format!(
            "data are copied through bounce buffers (swiotlb) on their way to the device: {} of the time",
            portion.range()
        ),
        advice(full >= FULL),
    )
    .with_risk("a device without an IOMMU can then write to all of the guest's memory")
    .explaining_stages(&portion)
    .shown_by("bounces per command", format!("{per_command:.1}"))
    .shown_by(&COPYING.name(), portion.text());
    if pool.is_some() {
        cause = cause.shown_by("pool in use", percent(full));
    }
    Answer::cause(cause)
}
