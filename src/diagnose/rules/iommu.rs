// SPDX-License-Identifier: MIT OR Apache-2.0
//! Each command maps and unmaps its data in the IOMMU.

use super::condition::COPYING;
use super::not_observed;
use crate::diagnose::portion::Reaches;
use crate::diagnose::report::{Answer, Cause, Facts, Subject};
use crate::model::text::Text;

/// Mappings per command.
const PER_COMMAND: f64 = 0.5;
/// The stages that map have this part of the time.
const PART: f64 = 0.2;

/// The advice: what is not in use yet.
fn advice(group: Option<&str>) -> &'static str {
    match group {
        Some("DMA-FQ") => "boot with iommu.passthrough=1: invalidation is lazy already",
        _ => "boot with iommu.strict=0 (lazy invalidation), or with iommu.passthrough=1",
    }
}

pub fn check(facts: &Facts, subject: Subject) -> Answer {
    let controller = subject.ctrl().and_then(|ctrl| facts.controller(ctrl));
    let group = controller.and_then(|c| c.iommu_group.as_ref().map(Text::as_str));
    if let Some(transport) = subject.ctrl().and_then(|ctrl| facts.fabric(ctrl)) {
        return Answer::Absent(format!("{transport} maps no data for a controller"));
    }
    if group == Some("identity") {
        return Answer::Absent("its IOMMU group has the type `identity`: nothing is mapped".into());
    }
    let Some(maps) = facts.counted(|a| a.iommu_maps) else {
        return not_observed(facts, "mappings of the IOMMU");
    };
    let per_command = match facts.per_request(maps.count) {
        Ok(number) => number,
        Err(why) => return Answer::Open(why),
    };
    if per_command < PER_COMMAND {
        return Answer::Absent(format!("{per_command:.2} mappings of the IOMMU per command"));
    }
    if controller.is_some() && group.is_none() {
        return Answer::Absent("it is in no IOMMU group: others map".into());
    }
    let Some(portion) = facts.portion(subject, COPYING) else {
        return Answer::Absent("no commands".into());
    };
    match portion.is_at_least(PART) {
        Reaches::Yes => {}
        Reaches::Open => return Answer::Open(portion.undecided()),
        Reaches::No => {
            return Answer::Out(format!("{} have {}", COPYING.name(), portion.text()));
        }
    }
    let name = facts.subject_name(subject);
    let cause = Cause::new(
        "iommu",
        &name,
        format!(
            "each command of {name} maps and unmaps its data in the IOMMU: {} of the time",
            portion.range()
        ),
        advice(group),
    )
    .with_risk(
        "lazy: a device can use a stale mapping for some milliseconds; passthrough: it can access all \
         memory",
    )
    .explaining_stages(&portion)
    .shown_by("mappings per command", format!("{per_command:.1}"))
    .shown_by(&COPYING.name(), portion.text());
    Answer::cause(match group {
        Some(group) => cause.shown_by("type of the IOMMU group", group),
        None => cause,
    })
}
