// SPDX-License-Identifier: MIT OR Apache-2.0
//! The data and rules of `doctor`: the machine, its controllers, the attach method of each point,
//! and settings to change. Nothing here attaches or changes anything.
//!
//! It must work on machines where the other commands do not. Data that can't be read is a [`Fact`]
//! without a value; rules that need the value do not apply.
//!
//! [`Fact`]: crate::machine::fact::Fact

mod advice;
#[cfg(test)]
pub(crate) mod fixture;
mod points;
mod verdict;

use std::cmp::Reverse;

use serde::Serialize;

pub use self::verdict::{Readiness, Tracing, Verdict};
use crate::model::report::finding::{Finding, Severity};

use crate::machine::System;
use crate::machine::nvme::{NvmeDetail, NvmeParameters};
use crate::machine::overview::Machine;
use crate::model::stage::StageSet;
use crate::probe::catalog::Role;
use crate::probe::facts::KernelFacts;
use crate::probe::plan::{Policy, plan_with};

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
    pub controllers: Vec<NvmeDetail>,
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
    /// Inspects the machine and adds the findings that depend on it alone. Leaves `btf` and
    /// `points` empty (see [`Self::plan`]). With `identify`, sends one Identify command to each
    /// live PCI controller.
    pub fn of(system: &System, identify: bool) -> Self {
        let machine = system.machine();
        let controllers = system.nvme_details(&machine.hypervisor, identify);
        Self::new(machine, system.nvme_parameters(), controllers)
    }

    fn new(machine: Machine, parameters: NvmeParameters, controllers: Vec<NvmeDetail>) -> Self {
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
    /// from the request on, the method of the fine one. `tracing`: the commands that trace. `inflight`: what that command lacks.
    pub fn plan(
        &mut self,
        facts: KernelFacts,
        policy: &Policy,
        tracing: &[Tracing],
        inflight: Option<String>,
    ) {
        let machine = &self.machine;
        let has_controller = !self.controllers.is_empty();
        self.verdict = verdict::verdict(tracing, machine, has_controller, &facts, policy, inflight);
        let plan = plan_with(StageSet::Fine, &Role::EVENTS, &facts, policy);
        self.btf = points::btf(&facts);
        self.points = points::waits(&plan_with(StageSet::Full, &[], &facts, policy));
        self.points.extend(points::points(&plan));
        self.findings.extend(points::finding(&plan, &facts));
        self.findings.extend(points::preemption(&facts));
        self.findings.sort_by_key(|f| Reverse(f.severity)); // stable: notes come last
        self.facts = Some(facts);
    }

    /// The advice of all findings of this severity.
    pub fn advice(&self, severity: Severity) -> impl Iterator<Item = &str> {
        let findings = self.findings.iter().filter(move |f| f.severity == severity);
        findings.map(|f| f.advice.as_str())
    }
}
