// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reads the commands in flight from the memory of this kernel, for `inflight` and `diagnose`.

use std::path::Path;
use std::thread::sleep;
use std::time::Duration;

use crate::error::{Failure, Kind, not_permitted};
use crate::machine::clock::monotonic_ns;
use crate::machine::inflight::report::{AgeLimit, Ages, InFlight, Observed, Reading};
use crate::machine::inflight::{Memory, Ticks, Types, Walker};
use crate::machine::types::Layouts;
use crate::machine::{System, missing_capabilities};
use crate::model::filter::Filter;
use crate::model::ids::QueueId;
use crate::model::machine::ControllerInfo;
use crate::model::machine::Transport;
use crate::nvme::sqe::Sqe;
use crate::session::KernelMemory;
use anyhow::Result;

use crate::run::eprint_note;

/// Time between the two readings of a look: more than the 25.5 ms for which a controller may delay an
/// interrupt to join it with later ones (NVMe base 2.1, Interrupt Coalescing).
const APART: Duration = Duration::from_millis(30);

/// What to look at.
#[derive(Clone, Copy)]
pub struct Scope<'a> {
    /// Controllers, namespaces and queues.
    pub filter: &'a Filter,
    /// The age from which on a command gets a verdict.
    pub age: AgeLimit,
}

impl Scope<'_> {
    const fn ages(self, ticks: Option<Ticks>, at_ns: u64, run: Option<&Observed>) -> Ages<'_> {
        Ages { ticks, at_ns, limit: self.age, run }
    }
}

/// Reads the memory of this kernel: where to begin, and its types.
pub struct Access {
    memory: KernelMemory,
    types: Types,
    /// Address of `nvme_subsystems`.
    subsystems: u64,
    /// Address of `jiffies`.
    jiffies: Option<u64>,
}

fn lacks(what: &str) -> anyhow::Error {
    Failure::error(Kind::Kernel, what.to_owned())
}

impl Access {
    /// Prepares to read. Nothing is attached.
    ///
    /// # Errors
    /// Without the rights, or if the kernel does not describe its types; one sentence.
    pub fn open(btf: Option<&Path>, system: &System) -> Result<Self> {
        let (types, subsystems, jiffies) = Self::find(btf, system)?;
        Ok(Self { memory: KernelMemory::open()?, types, subsystems, jiffies })
    }

    /// The types, and the addresses of `nvme_subsystems` and `jiffies`. Nothing is loaded.
    ///
    /// # Errors
    /// As [`Self::open`].
    pub fn find(btf: Option<&Path>, system: &System) -> Result<(Types, u64, Option<u64>)> {
        let missing = missing_capabilities();
        if !missing.is_empty() {
            return Err(not_permitted(&missing));
        }
        let layouts = Layouts::load(system, btf)?;
        let types = Types::new(|name| layouts.of(name)).map_err(|missing| {
            lacks(&format!("{missing}: give BTF of the whole kernel with its modules (--btf FILE)"))
        })?;
        let names = ["nvme_subsystems", "jiffies"];
        let found = system.addresses(names);
        let [subsystems, jiffies] =
            found.map_err(|e| lacks(&format!("/proc/kallsyms can't be read ({e})")))?;
        let subsystems = subsystems.ok_or_else(|| {
            lacks(if system.lists_variables() {
                "/proc/kallsyms has no address of nvme_subsystems: run as root, with \
                 kernel.kptr_restrict below 2, and with the NVMe driver loaded"
            } else {
                "this kernel does not list its variables in /proc/kallsyms (CONFIG_KALLSYMS_ALL), so the \
                 driver's list of controllers cannot be found"
            })
        })?;
        Ok((types, subsystems, jiffies))
    }

    /// The length of a jiffy, and how many have passed.
    fn ticks(&mut self) -> Option<Ticks> {
        let mut now = [0; 8];
        let is_read = self.memory.read(self.jiffies?, &mut now);
        let since_boot = Duration::from_nanos(monotonic_ns());
        Ticks::new(u64::from_ne_bytes(now), since_boot).filter(|_| is_read)
    }

    /// Warns if the driver's queues cannot be read.
    pub fn say_missing(&self) {
        if !self.types.has_pci() {
            eprint_note(
                "this kernel does not describe the PCI driver's queues: there are no verdicts",
            );
        }
    }

    /// Reads everything, and what is old, again. `observe`: what a run has observed until now.
    ///
    /// # Errors
    /// If the list of controllers cannot be read; errors of `observe`.
    pub fn look(
        &mut self,
        controllers: &[ControllerInfo],
        scope: Scope<'_>,
        observe: &mut dyn FnMut() -> Result<Option<Observed>>,
    ) -> Result<InFlight> {
        // both readings have the ages of this moment: what is not old now gets no verdict
        let (ticks, at_ns) = (self.ticks(), monotonic_ns());
        let first = self.read(controllers, scope.filter)?;
        let mut run = observe()?;
        let mut second = None;
        if first.has_old(&scope.ages(ticks, at_ns, run.as_ref())) {
            sleep(APART);
            second = Some(self.read(controllers, scope.filter)?);
            run = observe()?;
        }
        let second = second.as_ref().unwrap_or(&first);
        let wanted = |queue: QueueId, sqe: Option<&Sqe>| {
            let Filter { nsids, qids, .. } = scope.filter;
            // a command without an SQE may be of any namespace
            let nsid = sqe.is_none_or(|sqe| nsids.contains(&sqe.nsid()));
            let qid = qids.contains(&queue.qid);
            (nsids.is_empty() || nsid) && (qids.is_empty() || qid)
        };
        Ok(InFlight::new(&first, second, &scope.ages(ticks, at_ns, run.as_ref()), wanted))
    }

    fn read(&mut self, controllers: &[ControllerInfo], filter: &Filter) -> Result<Reading> {
        let has_pci = self.types.has_pci();
        let mut walker = Walker::new(&mut self.memory, &self.types);
        let found = walker.controllers(self.subsystems);
        let found = found.ok_or_else(|| lacks("the list of NVMe subsystems can't be read"))?;
        let is_pci = |instance: u32| {
            let ctrl = controllers.iter().find(|c| c.instance == instance);
            has_pci
                && ctrl.is_some_and(|c| Transport::named(c.transport.as_str()) == Transport::Pcie)
        };
        let wanted = |instance| filter.has_ctrl(instance);
        Ok(Reading::take(&mut walker, &found, wanted, is_pci))
    }
}
