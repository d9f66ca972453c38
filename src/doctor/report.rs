// SPDX-License-Identifier: MIT OR Apache-2.0
//! The data and rules of `doctor`: the machine, its controllers, the attach method of each point,
//! and settings to change. Nothing here attaches or changes anything.
//!
//! It must work on machines where the other commands do not. What can't be read is `None`; rules that need
//! the value do not apply.

use crate::error::Kind;
use crate::machine::System;
use crate::machine::nvme::NvmeParameters;
use crate::machine::overview::Machine;
use crate::model::machine::MachineController;
use crate::model::point::Point;
use crate::model::report::latency::{Finding, Severity};
use crate::model::stage::StageSet;
use crate::probe::catalog::{CATALOG, Home, Method, Role};
use crate::probe::facts::{KernelFacts, PreemptionSource, TypeSource};
use crate::probe::plan::{
    AttachPlan, NoPlan, PointPlan, Policy, Rejection, StartSource, plan, plan_with,
};
use crate::run::exit::number;
use serde::Serialize;
use std::cmp::Reverse;

mod advice;

/// The source of the types of one part of the kernel.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct BtfLine {
    /// The part: `vmlinux`, `nvme_core`, `nvme`.
    pub what: String,
    /// Where its BTF is, or why it has none.
    pub source: String,
}

/// A better attach method that is not available.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct RejectedMethod {
    /// As in `fexit nvme_queue_rq`.
    pub method: String,
    /// Why, in a few words.
    pub why: String,
}

/// A point of a command's life, and its attach method.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PointLine {
    /// Its name.
    pub point: String,
    /// The attach method; `None` if there is none.
    pub got: Option<String>,
    /// Better methods that are not available.
    pub rejected: Vec<RejectedMethod>,
}

/// Kernel memory of the maps of a command.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct MemoryLine {
    /// As in `latency --stages`.
    pub command: String,
    /// Bytes.
    pub map_bytes: usize,
}

/// The report of `doctor`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct DoctorReport {
    /// Which commands can run; empty if nothing was planned.
    pub verdict: Verdict,
    /// The machine.
    pub machine: Machine,
    /// The driver's parameters.
    pub parameters: NvmeParameters,
    /// The controllers, by number.
    pub controllers: Vec<MachineController>,
    /// Sources of types.
    pub btf: Vec<BtfLine>,
    /// The attach method of each point, in the order of a command's life.
    pub points: Vec<PointLine>,
    /// Kernel memory of a run; empty if not calculated.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub memory: Vec<MemoryLine>,
    /// The facts that the plan is based on; `None` if they were not collected.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub facts: Option<KernelFacts>,
    /// Settings to change, the most important first; then notes.
    pub findings: Vec<Finding>,
}

impl DoctorReport {
    /// Inspects the machine. Leaves out what depends on the plan (see [`Self::plan`]). With `identify`,
    /// sends one Identify command to each live PCI controller.
    pub fn of(system: &System, identify: bool) -> Self {
        let machine = system.machine();
        let controllers = system.nvme_details(machine.hypervisor.present, identify);
        Self::new(machine, system.nvme_parameters(), controllers)
    }

    fn new(
        machine: Machine,
        parameters: NvmeParameters,
        controllers: Vec<MachineController>,
    ) -> Self {
        Self {
            verdict: Verdict::default(),
            findings: advice::findings(&machine, &parameters, &controllers),
            machine,
            parameters,
            controllers,
            btf: Vec::new(),
            points: Vec::new(),
            memory: Vec::new(),
            facts: None,
        }
    }

    /// Adds the verdict, the sources of types, and the attach method of each point of the full stage set;
    /// from the request on, the method of the fine one. `tracing`: the commands that trace. `inflight`: what
    /// that command lacks.
    pub fn plan(
        &mut self,
        facts: KernelFacts,
        policy: &Policy,
        tracing: &[Tracing],
        inflight: Option<String>,
    ) {
        let machine = &self.machine;
        let has_controller = !self.controllers.is_empty();
        self.verdict = verdict(tracing, machine, has_controller, &facts, policy, inflight);
        let plan = plan_with(StageSet::Fine, &Role::EVENTS, &facts, policy);
        self.btf = btf(&facts);
        self.points = waits(&plan_with(StageSet::Full, &[], &facts, policy));
        self.points.extend(points(&plan));
        // without a controller, loading the driver is what the verdict says
        let loads_driver = |found: &Finding| found.rule == "driver-types-unknown";
        let found = finding(&plan, &facts);
        self.findings.extend(found.filter(|found| has_controller || !loads_driver(found)));
        self.findings.extend(preemption(&facts));
        self.findings.sort_by_key(|f| Reverse(f.severity)); // stable: notes come last
        self.facts = Some(facts);
    }

    /// The advice of all findings of this severity.
    pub fn advice(&self, severity: Severity) -> impl Iterator<Item = &str> {
        let findings = self.findings.iter().filter(move |f| f.severity == severity);
        findings.map(|f| f.advice.as_str())
    }
}

/// The source of the types of each part of the kernel.
pub(crate) fn btf(facts: &KernelFacts) -> Vec<BtfLine> {
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
pub(crate) fn points(plan: &Result<AttachPlan, NoPlan>) -> Vec<PointLine> {
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
pub(crate) fn waits(plan: &Result<AttachPlan, NoPlan>) -> Vec<PointLine> {
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
pub(crate) fn finding(plan: &Result<AttachPlan, NoPlan>, facts: &KernelFacts) -> Option<Finding> {
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
pub(crate) fn preemption(facts: &KernelFacts) -> Option<Finding> {
    let unknown = facts.preemption_source == PreemptionSource::Unknown;
    unknown.then(|| {
        let advice = "the preemption mode of the kernel is not known, and counts as full: times \
                      stay exact, but programs check more, and with fewer queues than CPUs some \
                      doorbells are discarded. It is in /sys/kernel/debug/sched/preempt: as \
                      root, mount debugfs";
        Finding::new("preemption-unknown", Severity::Note, advice)
    })
}

/// A command that traces the driver, as in `latency --stages`, and what it observes.
pub type Tracing = (&'static str, StageSet);

/// Whether a command can run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Readiness {
    /// As in `latency --stages`.
    pub command: &'static str,
    /// What is missing; `None` if it can run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub missing: Option<String>,
    /// Points that it would not observe. The stages at such a point are merged.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub unobserved: Vec<&'static str>,
}

/// Why no command can trace.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Blocker {
    /// With what the commands that trace end.
    #[serde(skip)]
    pub kind: Kind,
    pub what: String,
    /// What to do.
    pub advice: String,
}

/// Whether this machine can be traced.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Verdict {
    /// `None`: it can.
    pub blocked: Option<Blocker>,
    /// The method that observes completions.
    pub method: Option<&'static str>,
    pub commands: Vec<Readiness>,
}

impl Verdict {
    /// The exit code of `doctor`, and of the commands that trace.
    pub fn exit_code(&self) -> u8 {
        self.blocked.as_ref().map_or(0, |blocked| number(blocked.kind))
    }
}

/// The verdict on a machine. `tracing`: the commands that trace. `inflight`: what that command lacks,
/// which attaches nothing.
pub(crate) fn verdict(
    tracing: &[Tracing],
    machine: &Machine,
    has_controller: bool,
    facts: &KernelFacts,
    policy: &Policy,
    inflight: Option<String>,
) -> Verdict {
    let old = || {
        let advice = "boot a newer kernel".into();
        Some(Blocker { kind: Kind::Kernel, what: facts.unsupported()?, advice })
    };
    let mut blocked = lacks(machine, has_controller).or_else(old);
    let mut method = None;
    let mut commands = Vec::new();
    for &(command, stages) in tracing {
        let planned = plan(stages, facts, policy);
        let (missing, unobserved) = match planned {
            Ok(plan) => {
                method = method.or(plan.method_of(Point::Complete).map(Method::name));
                (None, unobserved(&plan))
            }
            Err(none) => (Some(no_method(none)), vec![]),
        };
        commands.push(Readiness { command, missing, unobserved });
    }
    if commands.iter().all(|command| command.missing.is_some()) {
        let what = commands.first().and_then(|command| command.missing.clone());
        let advice =
            "boot a kernel with BTF (CONFIG_DEBUG_INFO_BTF), or see -v for what each method lacks";
        let none = |what| Blocker { kind: Kind::Kernel, what, advice: advice.into() };
        blocked = blocked.or(what.map(none));
    }
    commands.push(Readiness { command: "inflight", missing: inflight, unobserved: vec![] });
    Verdict { blocked, method, commands }
}

/// What every command lacks, in the order in which the commands check it.
fn lacks(machine: &Machine, has_controller: bool) -> Option<Blocker> {
    let blocker = |kind, what: &str, advice: &str| {
        Some(Blocker { kind, what: what.into(), advice: advice.into() })
    };
    if machine.user_namespace == Some(true) {
        return blocker(
            Kind::Privilege,
            "this is a user namespace, whose capabilities do not reach the kernel",
            "run in the machine itself, not in a container",
        );
    }
    if let Some(privileges) = &machine.privileges
        && !privileges.has("CAP_SYS_ADMIN")
    {
        let needed = ["CAP_BPF", "CAP_PERFMON"];
        let lacks: Vec<_> = needed.into_iter().filter(|c| !privileges.has(c)).collect();
        if !lacks.is_empty() {
            let mut what = format!("this process lacks {}", lacks.join(" and "));
            if !has_controller {
                what += ", and this machine has no NVMe controller";
            }
            return blocker(Kind::Privilege, &what, "run as root (sudo)");
        }
    }
    if has_controller {
        return None;
    }
    blocker(
        Kind::NoDevice,
        "this machine has no NVMe controller",
        "modprobe nvme (`lspci | grep -i nvme` shows whether there is a device)",
    )
}

/// Points of a command's life without a method.
fn unobserved(plan: &AttachPlan) -> Vec<&'static str> {
    let from_field = plan.start == StartSource::Field;
    let points = plan.points.iter().filter(|point| {
        let is_start = point.point() == Some(Point::Start);
        let is_point = point.point().is_some_and(|p| plan.stage_set.has_point(p));
        is_point && point.method.is_none() && !(is_start && from_field)
    });
    points.map(|point| point.name()).collect()
}

fn no_method(none: NoPlan) -> String {
    let why = none.rejected.first().map(|r| format!(": {}", r.why));
    format!("no method for {}{}", none.point.name(), why.unwrap_or_default())
}

#[cfg(test)]
pub(crate) mod fixture;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::overview::Privileges;
    use crate::probe::facts::{Preemption, TypeSource};
    use crate::probe::plan::tests::everything;
    use fixture::{capability, guest};

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

    const TRACING: [Tracing; 3] = [
        ("top", StageSet::Basic),
        ("latency", StageSet::Total),
        ("latency --stages", StageSet::Basic),
    ];

    fn machine(names: &[&'static str]) -> Machine {
        let capabilities = names.iter().map(|n| capability(n, true)).collect();
        let privileges = Some(Privileges { uid: 0, capabilities });
        Machine { privileges, ..guest().machine }
    }

    fn blocked(verdict: &Verdict) -> (u8, &str) {
        let what = verdict.blocked.as_ref().map_or("", |blocked| &blocked.what);
        (verdict.exit_code(), what)
    }

    /// The machine, whether it has a controller, the facts, the exit code, and words of the reason.
    #[test]
    fn the_exit_code_is_the_one_that_tracing_would_have() {
        let [root, some, user] =
            [&["CAP_SYS_ADMIN"][..], &["CAP_BPF", "CAP_PERFMON"], &["CAP_BPF"]].map(machine);
        let old = KernelFacts { release: "4.18.0-553.el8_10.x86_64".into(), ..everything() };
        let nothing = KernelFacts::default();
        for (machine, has_controller, facts, code, words) in [
            (&root, true, &everything(), 0, ""),
            (&some, true, &everything(), 0, ""),
            (&user, false, &old, 4, "lacks CAP_PERFMON"),
            (&root, false, &old, 6, "no NVMe controller"),
            (&root, true, &old, 5, "4.18.0-553"),
            (&root, true, &nothing, 5, "no method for setup_out"),
        ] {
            let policy = Policy::default();
            let found = verdict(&TRACING, machine, has_controller, facts, &policy, None);
            let (is_code, what) = blocked(&found);
            assert_eq!(is_code, code, "{words}: {what}");
            assert!(what.contains(words), "{words}: {what}");
        }
        // what one command lacks does not block the others
        let mut facts = everything();
        facts.nvme_pci_types = TypeSource::None;
        facts.functions.retain(|f| f == "nvme_setup_cmd");
        facts.symbols = Some(["nvme_setup_cmd".to_owned()].into());
        let (policy, missing) = (Policy::default(), Some("no types".into()));
        let found = verdict(&TRACING, &root, true, &facts, &policy, missing);
        assert_eq!(blocked(&found), (0, ""));
        let unobserved: Vec<_> = found.commands.iter().map(|c| c.unobserved.clone()).collect();
        assert_eq!(unobserved[1..3], [vec![], vec!["doorbell"]]);
        assert_eq!(found.commands[3].missing.as_deref(), Some("no types"));
    }
}
