// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a rule is applied to: the machine, a controller, a disk.

use std::collections::BTreeSet;

use super::command::Command;
use super::facts::Facts;
use crate::machine::nvme_class::Class;
use crate::model::command_class::CommandClass;
use crate::model::ids::NamespaceId;

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

    /// Whether a stratum is one of its own.
    pub fn has_kind(self, stratum: CommandClass) -> bool {
        match self {
            Self::Machine => true,
            Self::Controller(ctrl) => stratum.ctrl == ctrl,
            Self::Disk(ctrl, nsid) => (stratum.ctrl, stratum.nsid) == (ctrl, nsid),
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

    /// The commands of a subject.
    pub fn of_subject(&self, subject: Subject) -> Box<dyn Iterator<Item = &Command> + '_> {
        match subject {
            Subject::Machine => Box::new(self.all()),
            Subject::Controller(ctrl) => Box::new(self.of_ctrl(ctrl)),
            Subject::Disk(ctrl, nsid) => Box::new(self.of_disk(ctrl, nsid)),
        }
    }

    /// The subjects of a scope: those with commands, incidents or stuck commands.
    pub fn subjects(&self, scope: Scope) -> Vec<Subject> {
        let strata = self.strata.iter().map(|s| s.stratum);
        match scope {
            Scope::Machine => vec![Subject::Machine],
            Scope::Controller => {
                let mut all: BTreeSet<u32> = strata.map(|s| s.ctrl).collect();
                all.extend(self.incidents.all_controllers());
                all.extend(self.in_flight.iter().map(|s| s.ctrl));
                all.into_iter().map(Subject::Controller).collect()
            }
            Scope::Disk => {
                // flushes and other commands without blocks have their namespace, too
                let all: BTreeSet<NamespaceId> =
                    strata.map(|s| NamespaceId::new(s.ctrl, s.nsid)).collect();
                let all = all.into_iter();
                all.map(|id| Subject::Disk(id.ctrl, id.nsid)).collect()
            }
        }
    }
}

impl Facts {
    /// The kind of device behind a controller; `None`: not recorded.
    pub fn class(&self, ctrl: u32) -> Option<Class> {
        Class::named(self.controller(ctrl)?.class.as_str())
    }

    /// Where to look behind a controller, by its kind.
    pub fn behind(&self, ctrl: u32) -> String {
        let log = format!("`nvme smart-log /dev/nvme{ctrl}`");
        if let Some(transport) = self.fabric(ctrl) {
            return format!("look at the network ({transport}), the target and its storage");
        }
        match self.class(ctrl) {
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

    /// Who to report a fault of a controller to.
    pub fn maker(&self) -> &'static str {
        match self.machine.as_ref().and_then(|m| m.is_virtual) {
            Some(false) => "the maker of the device",
            _ => "the provider of the virtual machine monitor",
        }
    }
}
