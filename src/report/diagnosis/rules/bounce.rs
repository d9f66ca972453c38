// SPDX-License-Identifier: MIT OR Apache-2.0
//! Data are copied through bounce buffers (swiotlb).

use super::super::Answer;
use super::super::Cause;
use super::super::Facts;
use super::super::Stages;
use super::percent;

/// Bounces per command.
const PER_COMMAND: f64 = 0.5;
/// The stages that copy have this part of the time.
const PART: f64 = 0.2;
/// The pool is nearly full.
const FULL: f64 = 0.9;

pub fn check(facts: &Facts) -> Answer {
    let Some(bounces) = facts.counted(|a| a.bounces) else {
        return Answer::Unknown("bounce buffers were not observed (record --context)".into());
    };
    let per_command = bounces.count as f64 / facts.requests().max(1) as f64;
    if per_command < PER_COMMAND {
        return Answer::Out(format!("{per_command:.2} bounces per command"));
    }
    let stages = Stages::MAP | Stages::COMPLETE | Stages::END;
    let share = facts
        .share(facts.commands.kept.iter(), stages)
        .unwrap_or_default();
    let pool = facts.counted(|a| a.bounce_pool);
    let full = pool.map_or(0.0, |p| p.used as f64 / p.size.max(1) as f64);
    if (share.part < PART || share.low < PART / 2.0) && full < FULL {
        return Answer::Out(format!(
            "data bounce, but {} have {} of the time",
            stages.name(),
            share.text()
        ));
    }
    let mut cause = Cause::new(
        "bounce",
        "machine",
        "data are copied through bounce buffers (swiotlb) on their way to the device".into(),
        "remove `swiotlb=force` if it is not needed; an encrypted guest needs it: give it a larger pool \
         (`swiotlb=N`, in slabs of 2 KiB) or a kernel with CONFIG_SWIOTLB_DYNAMIC",
    )
    .with_risk("a device without an IOMMU can then write to all of the guest's memory")
    .explaining(share.part)
    .shown_by("bounces per command", format!("{per_command:.1}"))
    .shown_by(&stages.name(), format!("{} of the time", share.text()));
    if pool.is_some() {
        cause = cause.shown_by("pool in use", percent(full));
    }
    Answer::Found(vec![cause])
}
