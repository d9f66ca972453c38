// SPDX-License-Identifier: MIT OR Apache-2.0
//! The attach method of each point, as text. Pure.

use super::{BtfLine, PointLine, RejectedMethod};
use crate::model::point::Point;
use crate::model::report::finding::{Finding, Severity};
use crate::probe::catalog::{CATALOG, Home, Method};
use crate::probe::facts::{KernelFacts, PreemptionSource, TypeSource};
use crate::probe::plan::{AttachPlan, NoPlan, PointPlan, Rejection, StartSource};

/// The source of the types of each part of the kernel.
pub(super) fn btf(facts: &KernelFacts) -> Vec<BtfLine> {
    let said = |types: &TypeSource, home: Home, module: &str| match types {
        TypeSource::None if facts.built_in.contains(&home) => {
            format!("none: {module} is built in, and the kernel's BTF does not describe it")
        }
        TypeSource::None => {
            format!("none: {module} is not loaded, or without BTF, and no file of btf/ fits")
        }
        TypeSource::BuiltIn => "built into the kernel, in its BTF".into(),
        TypeSource::Module => format!("/sys/kernel/btf/{module}"),
        TypeSource::Shipped(release) => {
            format!("btf/{release}.c, made from these very modules (same build ids)")
        }
        TypeSource::File(path) => format!("{path} (--btf)"),
    };
    let vmlinux =
        if facts.vmlinux_btf { "/sys/kernel/btf/vmlinux" } else { "none (CONFIG_DEBUG_INFO_BTF)" };
    [
        ("vmlinux", vmlinux.to_owned()),
        ("nvme_core", said(&facts.nvme_core_types, Home::NvmeCore, "nvme_core")),
        ("nvme", said(&facts.nvme_pci_types, Home::NvmePci, "nvme")),
    ]
    .map(|(what, source)| BtfLine { what: what.into(), source })
    .into()
}

fn rejected(all: &[Rejection]) -> Vec<RejectedMethod> {
    all.iter()
        .map(|r| RejectedMethod {
            method: if r.hook.contains(' ') { r.hook.clone() } else { r.method.name().into() },
            why: r.why.to_string(),
        })
        .collect()
}

/// `fexit nvme_queue_rq, nvme_queue_rqs`, with what the method may miss.
fn got(point: &PointPlan, plan: &AttachPlan) -> Option<String> {
    let Some(method) = point.method else {
        let field = point.point() == Some(Point::Start) && plan.start == StartSource::Field;
        return field.then(|| "start_time_ns of the request (unless iostats are off)".into());
    };
    let mut text = String::new();
    let mut last = "";
    let seconds = point.hooks.iter().any(|&h| CATALOG[h].is_second());
    for &number in point.hooks.iter().filter(|&&h| !CATALOG[h].is_second()) {
        let (kind, target) = (CATALOG[number].kind.name(), CATALOG[number].target.name());
        let comma = if text.is_empty() { "" } else { ", " };
        if kind == last {
            text += &format!("{comma}{target}");
        } else {
            text += &format!("{comma}{kind} {target}");
        }
        last = kind;
    }
    if seconds {
        text += "; attached twice: an interrupt may come while the first one runs";
    }
    if method.loses() {
        text += match (plan.misses_counted, point.point()) {
            (_, Some(Point::SetupIn | Point::Issue | Point::Doorbell)) => {
                "; where a kprobe is missed, the stages around are one"
            }
            (true, _) => "; misses interrupts under load, counted",
            (false, _) => "; misses interrupts under load, and nobody counts them",
        };
    }
    Some(text)
}

fn line(point: &PointPlan, plan: &AttachPlan) -> PointLine {
    PointLine {
        point: point.name().into(),
        got: got(point, plan),
        rejected: rejected(&point.rejected),
    }
}

/// The points of a plan. Without a plan, the point that has no method.
pub(super) fn points(plan: &Result<AttachPlan, NoPlan>) -> Vec<PointLine> {
    match plan {
        Ok(plan) => plan.points.iter().map(|p| line(p, plan)).collect(),
        Err(none) => vec![PointLine {
            point: none.point.name().into(),
            got: None,
            rejected: rejected(&none.rejected),
        }],
    }
}

/// The points before the request, which `--stages=full` adds; none without a plan.
pub(super) fn waits(plan: &Result<AttachPlan, NoPlan>) -> Vec<PointLine> {
    let Ok(plan) = plan else { return vec![] };
    let is_before = |point: &Point| *point < Point::Start;
    let found = |point: Point| {
        let absent = plan.absent.iter().find(|(p, _)| *p == point);
        if let Some((_, why)) = absent {
            return Some(PointLine {
                point: point.name().into(),
                got: Some(format!("nothing can wait here: {why}")),
                rejected: vec![],
            });
        }
        plan.point(point).map(|point| line(point, plan))
    };
    let all = Point::ALL.into_iter().filter(is_before);
    all.filter_map(found).collect()
}

/// A change that lets the plan observe more.
pub(super) fn finding(plan: &Result<AttachPlan, NoPlan>, facts: &KernelFacts) -> Option<Finding> {
    let complete = match plan {
        Ok(plan) => plan.method_of(Point::Complete),
        Err(_) => None,
    };
    let lossy = complete.is_none_or(Method::loses);
    let (rule, advice) = if facts.vmlinux_btf && !facts.nvme_core_types.is_known() {
        (
            "driver-types-unknown",
            "load the driver (`modprobe nvme`), or, if it is, give BTF of its modules with --btf \
             (see btf/README.md): the doorbell, and admin commands before the first other one, \
             are observed then",
        )
    } else if lossy && !facts.vmlinux_btf {
        (
            "no-kernel-btf",
            "boot a kernel with CONFIG_DEBUG_INFO_BTF, or give BTF of this one with --btf (BTFHub \
             has it for many): every completion is observed then",
        )
    } else {
        return None;
    };
    let finding = Finding::new(rule, Severity::Warning, advice);
    Some(finding.shown_by("BTF of vmlinux", facts.vmlinux_btf))
}

/// A note if the preemption mode is not known.
pub(super) fn preemption(facts: &KernelFacts) -> Option<Finding> {
    let unknown = facts.preemption_source == PreemptionSource::Unknown;
    unknown.then(|| {
        let advice = "the preemption mode of the kernel is not known, and counts as full: times \
                      stay exact, but programs check more, and with fewer queues than CPUs some \
                      doorbells are discarded. Root reads it from debugfs \
                      (/sys/kernel/debug/sched/preempt) or the kernel's memory";
        Finding::new("preemption-unknown", Severity::Note, advice)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::probe::facts::Preemption;

    #[test]
    fn an_unknown_preemption_mode_is_a_note() {
        let mut facts = KernelFacts { preemption: Preemption::Full, ..KernelFacts::default() };
        let found = preemption(&facts).unwrap();
        assert_eq!((found.rule, found.severity), ("preemption-unknown", Severity::Note));
        assert_eq!(facts.preemption_text(), "not known, counts as full");
        facts.preemption_source = PreemptionSource::Memory;
        assert!(preemption(&facts).is_none());
        assert_eq!(facts.preemption_text(), "full or lazy (the kernel's memory)");
    }
}
