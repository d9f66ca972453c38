// SPDX-License-Identifier: MIT OR Apache-2.0
//! What stages contain that were not observed apart.

use crate::diagnose::report::Portion;
use std::cell::LazyCell;
use std::collections::BTreeSet;

use super::command::Command;
use super::facts::Facts;
use super::stages::Stages;
use super::subject::Subject;
use crate::model::stage::StageSet;
use crate::model::text::Text;

/// A joined stage with less of the time is not explained.
const PART: f64 = 0.05;

impl Facts {
    /// The transport of a controller: `pcie`, `tcp`, ...
    pub fn transport(&self, ctrl: u32) -> Option<&Text> {
        let setting = self.controller(ctrl).and_then(|c| c.transport.as_ref());
        setting.or_else(|| self.transports.get(&ctrl))
    }

    /// The transport of a controller, if it is a network or the kernel's own loop: there the driver has
    /// neither doorbells nor interrupts.
    pub fn fabric(&self, ctrl: u32) -> Option<&'static str> {
        let transport = self.transport(ctrl)?;
        let fabrics = ["tcp", "rdma", "fc", "loop"];
        fabrics.into_iter().find(|name| transport == name)
    }

    /// The first polled queue of a controller. The driver puts them last.
    pub fn first_polled(&self, ctrl: u32) -> Option<u32> {
        let polled = self.machine.as_ref()?.poll_queues.filter(|n| *n > 0)?;
        let queues = self.controller(ctrl)?.io_queues?;
        Some(queues.checked_sub(polled)? + 1)
    }

    /// Whether the completions of a queue are polled: it has no interrupt. Without the settings, a queue is
    /// polled if no command of it had an interrupt, and commands of others had one.
    pub fn is_polled(&self, ctrl: u32) -> impl Fn(u16) -> bool {
        let first = self.first_polled(ctrl);
        let interrupted = |c: &&Command| c.runs().any(|(stages, _)| Stages::IRQ.covers(stages));
        // most runs need it for no queue
        let with = LazyCell::new(move || -> BTreeSet<u16> {
            let with = self.of_ctrl(ctrl).filter(interrupted);
            with.map(|c| c.qid).collect()
        });
        move |qid| match (first, &self.machine) {
            (Some(first), _) => u32::from(qid) >= first,
            (None, Some(machine)) if machine.poll_queues == Some(0) => false,
            _ => !with.is_empty() && !with.contains(&qid),
        }
    }

    /// What the largest joined stage of a controller contains. `None`: stages were observed apart.
    pub fn joined(&self, ctrl: u32) -> Option<String> {
        let stages = self.largest_joined(ctrl)?;
        let name = stages.short();
        Some(match self.fabric(ctrl) {
            Some("loop") => format!(
                "{name} contains the target in this kernel and its storage: `loop` has no doorbell"
            ),
            Some(transport) => format!(
                "{name} contains the network, the target and its storage: {transport} has neither doorbell nor \
                 CQE point"
            ),
            None if !stages.meets(Stages::SUBMIT) && self.are_polled(ctrl) => {
                format!(
                    "{name} contains the device and the wait for the next poll: queues are polled"
                )
            }
            None if stages.covers(Stages::SUBMIT | Stages::DEVICE) => format!(
                "{name} is the time of commands whose doorbell was not observed: its write, and the device"
            ),
            None if self.stage_set == StageSet::Basic => {
                format!("{name} is one stage: recorded without --stages=fine, which separates it")
            }
            None => {
                format!("{name} is the time of commands whose points within it were not observed")
            }
        })
    }

    /// Whether most commands of a controller are on polled queues.
    fn are_polled(&self, ctrl: u32) -> bool {
        let Some(first) = self.first_polled(ctrl) else {
            return false;
        };
        let on = |polled: bool| {
            let own = self.of_ctrl(ctrl);
            own.filter(|c| (u32::from(c.qid) >= first) == polled).count()
        };
        on(true) > on(false)
    }

    /// The joined stage with most time.
    fn largest_joined(&self, ctrl: u32) -> Option<Stages> {
        let strata = self.strata_of(Subject::Controller(ctrl));
        let mut sums: Vec<(Stages, u64)> = Vec::new();
        for (stages, ns) in strata.flat_map(|s| &s.stages) {
            match sums.iter_mut().find(|(found, _)| found == stages) {
                Some((_, sum)) => *sum = sum.saturating_add(*ns),
                None => sums.push((*stages, *ns)),
            }
        }
        let total = sums.iter().fold(0.0, |total, (_, ns)| total + *ns as f64);
        let joined = sums.into_iter().filter(|(stages, _)| stages.are_joined());
        let (stages, ns) = joined.max_by_key(|(_, ns)| *ns)?;
        (ns as f64 >= PART * total).then_some(stages)
    }

    /// The device's part; where it was observed only together with others, that of all stages from the end
    /// of the set-up to the completion by the driver, in which a limit of the device has to be.
    pub fn portion_at_device(&self, subject: Subject) -> Option<Portion> {
        let device = self.portion(subject, Stages::DEVICE | Stages::IRQ)?;
        if device.is_most() != super::portion::Reaches::Open {
            return Some(device);
        }
        let first = Stages::MAP | Stages::SUBMIT | Stages::DEVICE;
        self.portion(subject, first | Stages::IRQ | Stages::COMPLETE)
    }
}
