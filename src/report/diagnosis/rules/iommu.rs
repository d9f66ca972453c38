// SPDX-License-Identifier: MIT OR Apache-2.0
//! Each command maps and unmaps its data in the IOMMU.

use super::super::Answer;
use super::super::Cause;
use super::super::Facts;
use super::super::Stages;

/// Mappings per command.
const PER_COMMAND: f64 = 0.5;
/// The stages that map have this part of the time.
const PART: f64 = 0.2;

pub fn check(facts: &Facts) -> Answer {
    let Some(maps) = facts.counted(|a| a.iommu_maps) else {
        return Answer::Unknown(
            "mappings of the IOMMU were not observed (record --context)".into(),
        );
    };
    let per_command = maps.count as f64 / facts.requests().max(1) as f64;
    if per_command < PER_COMMAND {
        return Answer::Out(format!(
            "{per_command:.2} mappings of the IOMMU per command"
        ));
    }
    let stages = Stages::MAP | Stages::COMPLETE | Stages::END;
    let mut causes = Vec::new();
    let mut most = 0.0_f64;
    for ctrl in facts.ctrls() {
        let all = facts.of_ctrl(ctrl);
        let Some(share) = facts.share(all, stages) else {
            continue;
        };
        most = most.max(share.part);
        if share.part < PART || share.low < PART / 2.0 {
            continue;
        }
        let name = format!("nvme{ctrl}");
        let mut cause = Cause::new(
            "iommu",
            &name,
            format!("each command of {name} maps and unmaps its data in the IOMMU"),
            "boot with iommu.strict=0 (lazy invalidation), or with iommu.passthrough=1",
        )
        .with_risk(
            "lazy: a device can use a stale mapping for some milliseconds; passthrough: it can access all \
             memory",
        )
        .explaining(share.part)
        .shown_by("mappings per command", format!("{per_command:.1}"))
        .shown_by(&stages.name(), format!("{} of the time", share.text()));
        if let Some(group) = facts
            .controller(ctrl)
            .and_then(|c| c.iommu_group.as_deref())
        {
            cause = cause.shown_by("type of the IOMMU group", group);
        }
        causes.push(cause);
    }
    let otherwise = format!(
        "{} have {} of the time",
        stages.name(),
        super::percent(most)
    );
    Answer::of(causes, otherwise)
}
