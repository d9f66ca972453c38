// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a rule is applied to: the machine, a controller, a disk.

use std::collections::BTreeSet;

use super::facts::Facts;
use crate::model::command_class::CommandClass;
use crate::model::ids::NamespaceId;
use crate::model::machine::{Class, MachineController, MachineDisk};
use crate::nvme::opcode::QueueKind;

/// What a rule is applied to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Subject {
    /// All of it.
    Machine,
    /// The controller with this instance.
    Controller(u32),
    /// The namespace of a controller.
    Disk(u32, u32),
}

/// The kind of subject that a rule has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// The machine.
    Machine,
    /// Each controller.
    Controller,
    /// Each namespace.
    Disk,
}

impl Subject {
    /// The controller; `None`: the machine.
    pub const fn ctrl(self) -> Option<u32> {
        match self {
            Self::Machine => None,
            Self::Controller(ctrl) | Self::Disk(ctrl, _) => Some(ctrl),
        }
    }

    /// Whether a class is one of its own.
    pub fn has(self, class: CommandClass) -> bool {
        match self {
            Self::Machine => true,
            Self::Controller(ctrl) => class.ctrl == ctrl,
            Self::Disk(ctrl, nsid) => (class.ctrl, class.nsid) == (ctrl, nsid),
        }
    }
}

impl Facts {
    /// The name of a subject: `machine`, `nvme0`, `nvme0n1`.
    pub fn subject_name(&self, subject: Subject) -> String {
        match subject {
            Subject::Machine => "machine".into(),
            Subject::Controller(ctrl) => format!("nvme{ctrl}"),
            Subject::Disk(ctrl, nsid) => self.disk_name(ctrl, nsid),
        }
    }

    /// The name of a namespace's disk, else of its controller. Sentences and advice have it, so it is a
    /// name of the kernel, or `DISK`.
    pub fn disk_name(&self, ctrl: u32, nsid: u32) -> String {
        let disk = self.disks.get(&NamespaceId::new(ctrl, nsid));
        disk.map_or_else(|| format!("nvme{ctrl}"), ToString::to_string)
    }

    /// `read 4K nvme0n1`
    pub fn class_name(&self, class: CommandClass) -> String {
        let CommandClass { ctrl, nsid, opcode, size } = class;
        let name = opcode.name().map_or_else(|| opcode.to_string(), str::to_owned);
        let admin = if opcode.queue == QueueKind::Admin { "admin " } else { "" };
        let size = if size.bytes() == 0 { String::new() } else { format!(" {size}") };
        format!("{admin}{name}{size} {}", self.disk_name(ctrl, nsid))
    }

    /// The subjects of a scope: those with commands, incidents or stuck commands. Flushes and other commands
    /// without blocks have their namespace, too.
    pub fn subjects(&self, scope: Scope) -> Vec<Subject> {
        if scope == Scope::Machine {
            return vec![Subject::Machine];
        }
        let mut all: BTreeSet<Subject> = self.classes.subjects().collect();
        let others = self.incidents.ctrls().chain(self.in_flight.iter().map(|s| s.ctrl));
        all.extend(others.map(Subject::Controller));
        let is_disk = |subject: &Subject| matches!(subject, Subject::Disk(..));
        all.retain(|subject| is_disk(subject) == (scope == Scope::Disk));
        all.into_iter().collect()
    }

    /// The settings of a controller.
    pub fn controller(&self, ctrl: u32) -> Option<&MachineController> {
        self.machine.as_ref()?.controllers.iter().find(|c| c.instance == ctrl)
    }

    /// The settings of a namespace.
    pub fn disk(&self, ctrl: u32, nsid: u32) -> Option<&MachineDisk> {
        self.controller(ctrl)?.disks.iter().find(|d| d.nsid == nsid)
    }

    /// Whether there is no hypervisor, as far as this is known.
    pub fn is_metal(&self) -> bool {
        self.machine.as_ref().and_then(|m| m.is_virtual) == Some(false)
    }

    /// The kind of device behind a controller; `None`: not recorded.
    pub fn device_class(&self, ctrl: u32) -> Option<Class> {
        Some(self.controller(ctrl)?.class)
    }

    /// Where to look behind a controller, by its kind.
    pub fn behind(&self, ctrl: u32) -> String {
        let log = format!("`nvme smart-log /dev/nvme{ctrl}`");
        if let Some(transport) = self.fabric(ctrl) {
            return format!("look at the network ({transport}), the target and its storage");
        }
        match self.device_class(ctrl) {
            Some(Class::Physical) => {
                format!("read the device's own log ({log}), and compare with its data sheet")
            }
            Some(Class::Passthrough) => {
                format!("read the device's own log ({log}), and see what else uses it on the host")
            }
            Some(Class::Cloud) => {
                "compare with the provider's metrics and limits of the volume".into()
            }
            _ => format!(
                "look behind the controller: the storage of the virtual machine, the provider's metrics, the device's \
                 log ({log})"
            ),
        }
    }
}
