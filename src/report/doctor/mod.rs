// SPDX-License-Identifier: MIT OR Apache-2.0
//! What `doctor` finds: the machine, its controllers, the attach method of each point, and what the user
//! could change. Data and rules; nothing here attaches or changes anything.
//!
//! It has to work where nothing else does: whatever can't be read is a [`Fact`] without a value,
//! and rules that would need it stay silent.
//!
//! [`Fact`]: crate::machine::fact::Fact

mod advice;
#[cfg(test)]
pub(crate) mod fixture;
mod points;

use serde::Serialize;

use super::finding::Finding;
use super::finding::Severity;

use crate::machine::System;
use crate::machine::nvme::NvmeDetail;
use crate::machine::nvme::NvmeParameters;
use crate::machine::overview::Machine;
use crate::model::stage::StageSet;
use crate::probe::catalog::Role;
use crate::probe::facts::KernelFacts;
use crate::probe::plan::Policy;
use crate::probe::plan::plan_with;

/// Where the types of a part of the kernel are described.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct BtfLine {
    /// The part: `vmlinux`, `nvme_core`, `nvme`.
    pub what: String,
    /// Where its BTF is, or why there is none.
    pub source: String,
}

/// A way to a point that is not taken.
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
    /// The way that is taken; `None` where there is none.
    pub got: Option<String>,
    /// The ways that would have been better.
    pub rejected: Vec<RejectedMethod>,
}

/// What the maps of a command take in the kernel.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct MemoryLine {
    /// As in `latency --stages`.
    pub command: String,
    /// Bytes.
    pub map_bytes: usize,
}

/// Everything that `doctor` says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct DoctorReport {
    /// The machine.
    pub machine: Machine,
    /// The driver's parameters.
    pub parameters: NvmeParameters,
    /// The controllers, by number.
    pub controllers: Vec<NvmeDetail>,
    /// Where types are described.
    pub btf: Vec<BtfLine>,
    /// The attach method of each point, in the order of a command's life.
    pub points: Vec<PointLine>,
    /// What a run would take of the kernel's memory; empty where nobody has calculated it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub memory: Vec<MemoryLine>,
    /// What the plan was made from; none where nobody has looked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub facts: Option<KernelFacts>,
    /// What the user could change, the most important first; then what to keep in mind.
    pub findings: Vec<Finding>,
}

impl DoctorReport {
    /// Looks at the machine, and says what follows from it alone: `btf` and `points` are left
    /// empty (see [`Self::plan`]). With `identify` each live controller on PCI is sent one Identify command.
    pub fn of(system: &System, identify: bool) -> Self {
        let machine = system.machine();
        let controllers = system.nvme_details(&machine.hypervisor, identify);
        Self::new(machine, system.nvme_parameters(), controllers)
    }

    fn new(machine: Machine, parameters: NvmeParameters, controllers: Vec<NvmeDetail>) -> Self {
        Self {
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

    /// Adds what the kernel offers, and the attach method of each point of the fine stage set.
    pub fn plan(&mut self, facts: KernelFacts, policy: &Policy) {
        let plan = plan_with(StageSet::Fine, &Role::EVENTS, &facts, policy);
        self.btf = points::btf(&facts);
        self.points = points::points(&plan);
        self.findings.extend(points::finding(&plan, &facts));
        self.facts = Some(facts);
    }

    /// The advice of findings of this severity.
    pub fn advice(&self, severity: Severity) -> impl Iterator<Item = &str> {
        let findings = self.findings.iter().filter(move |f| f.severity == severity);
        findings.map(|f| f.advice.as_str())
    }
}
