// SPDX-License-Identifier: MIT OR Apache-2.0
//! The verdict of `doctor`: which commands can run on this machine, and what the others lack. Pure.

use serde::Serialize;

use crate::machine::fact::Fact;
use crate::machine::overview::Machine;
use crate::model::point::Point;
use crate::model::stage::StageSet;
use crate::probe::facts::KernelFacts;
use crate::probe::plan::{AttachPlan, NoPlan, Policy, StartSource, plan};

/// A command that traces the driver, as in `latency --stages`, and what it observes.
pub type Tracing = (&'static str, StageSet);

/// Whether a command can run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Readiness {
    /// As in `latency --stages`.
    pub command: &'static str,
    /// It can run.
    pub ready: bool,
    /// What is missing, and what to do; `None` if it is ready.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub missing: Option<String>,
    /// Points that it would not observe. The stages at such a point are merged.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub unobserved: Vec<&'static str>,
}

impl Readiness {
    fn of(command: &'static str, missing: Option<String>, unobserved: Vec<&'static str>) -> Self {
        Self { command, ready: missing.is_none(), missing, unobserved }
    }
}

/// The verdict.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Verdict {
    /// Every command can run, and observes all of its points.
    pub ready: bool,
    /// The commands that trace the driver.
    pub commands: Vec<Readiness>,
}

/// The verdict on a machine. `tracing`: the commands that trace. `inflight`: what that command lacks,
/// which attaches nothing.
pub(super) fn verdict(
    tracing: &[Tracing],
    machine: &Machine,
    has_controller: bool,
    facts: &KernelFacts,
    policy: &Policy,
    inflight: Option<String>,
) -> Verdict {
    let lacks = facts.unsupported();
    let lacks = lacks.or_else(|| missing(machine, has_controller));
    let traces = tracing.iter().map(|&(command, stages)| {
        let planned = plan(stages, facts, policy);
        let unobserved = planned.as_ref().map_or(vec![], unobserved);
        let missing = lacks.clone().or_else(|| planned.err().map(no_method));
        Readiness::of(command, missing, unobserved)
    });
    let mut commands: Vec<Readiness> = traces.collect();
    commands.push(Readiness::of("inflight", lacks.or(inflight), vec![]));
    Verdict { ready: commands.iter().all(|c| c.ready && c.unobserved.is_empty()), commands }
}

/// What every command lacks.
fn missing(machine: &Machine, has_controller: bool) -> Option<String> {
    if machine.user_namespace.is(&true) {
        return Some("this is a user namespace: run in the machine itself".into());
    }
    if let Fact::Known(privileges) = &machine.privileges
        && !privileges.has("CAP_SYS_ADMIN")
    {
        let needed = ["CAP_BPF", "CAP_PERFMON"];
        let lacks: Vec<_> = needed.into_iter().filter(|c| !privileges.has(c)).collect();
        if !lacks.is_empty() {
            return Some(format!("no {}: run as root", lacks.join(" and no ")));
        }
    }
    (!has_controller).then(|| "there is no NVMe controller".into())
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
mod tests {
    use super::super::fixture::{capability, guest};
    use super::*;
    use crate::machine::overview::Privileges;
    use crate::probe::facts::TypeSource;
    use crate::probe::plan::tests::everything;

    const TRACING: [Tracing; 3] = [
        ("top", StageSet::Basic),
        ("latency", StageSet::Total),
        ("latency --stages", StageSet::Basic),
    ];

    fn machine(names: &[&'static str]) -> Machine {
        let mut machine = guest().machine;
        machine.privileges = Fact::Known(Privileges {
            uid: 0,
            capabilities: names.iter().map(|n| capability(n, true)).collect(),
        });
        machine
    }

    fn lacks(verdict: &Verdict) -> Vec<&str> {
        let missing = verdict.commands.iter().map(|c| c.missing.as_deref());
        missing.map(Option::unwrap_or_default).collect()
    }

    #[test]
    fn a_machine_with_everything_is_ready() {
        let root = machine(&["CAP_SYS_ADMIN"]);
        let found = verdict(&TRACING, &root, true, &everything(), &Policy::default(), None);
        assert!(found.ready, "{found:#?}");
        let some = machine(&["CAP_BPF", "CAP_PERFMON"]);
        let found = verdict(&TRACING, &some, true, &everything(), &Policy::default(), None);
        assert!(found.commands.iter().all(|c| c.ready), "{found:#?}");
    }

    #[test]
    fn what_every_command_lacks_is_said_of_each() {
        let policy = Policy::default();
        let user = machine(&["CAP_BPF"]);
        let found = verdict(&TRACING, &user, false, &everything(), &policy, Some("BTF".into()));
        assert!(!found.ready);
        assert_eq!(lacks(&found), ["no CAP_PERFMON: run as root"; 4]);
        let root = machine(&["CAP_SYS_ADMIN"]);
        let found = verdict(&TRACING, &root, false, &everything(), &policy, None);
        assert_eq!(lacks(&found), ["there is no NVMe controller"; 4]);
    }

    #[test]
    fn a_kernel_that_is_too_old_is_named() {
        let mut facts = everything();
        facts.release = "4.18.0-553.el8_10.x86_64".into();
        let root = machine(&["CAP_SYS_ADMIN"]);
        let found = verdict(&TRACING, &root, true, &facts, &Policy::default(), None);
        let all = lacks(&found);
        assert!(all.iter().all(|why| why.contains("4.18.0-553")), "{all:?}");
    }

    #[test]
    fn a_kernel_without_a_method_is_not_ready_and_a_missing_point_is_named() {
        let root = machine(&["CAP_SYS_ADMIN"]);
        let policy = Policy::default();
        let nothing = KernelFacts::default();
        let found = verdict(&TRACING, &root, true, &nothing, &policy, Some("no types".into()));
        let of_trace = found.commands[0].missing.as_deref().unwrap();
        assert!(of_trace.starts_with("no method for setup_out"), "{of_trace}");
        assert_eq!(found.commands[3].missing.as_deref(), Some("no types"));

        let mut facts = everything();
        facts.nvme_pci_types = TypeSource::None;
        facts.functions.retain(|f| f == "nvme_setup_cmd");
        facts.symbols = Some(["nvme_setup_cmd".to_owned()].into());
        let found = verdict(&TRACING, &root, true, &facts, &policy, None);
        let latency = |n: usize| &found.commands[n];
        assert!(latency(1).ready && latency(1).unobserved.is_empty());
        assert_eq!(latency(2).unobserved, ["doorbell"]);
        assert!(!found.ready);
    }
}
