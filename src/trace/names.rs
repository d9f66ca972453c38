//! The names of disks: a command names only a controller and a namespace id.

use std::collections::HashMap;

use crate::event::CommandId;
use crate::host::Host;
use crate::nvme::decode::CommandSet;
use crate::nvme::opcode::QueueKind;

/// What sysfs says of each namespace.
#[derive(Debug)]
pub struct Names {
    host: Host,
    disks: HashMap<(u32, u32), (String, CommandSet)>,
    may_look: bool,
}

impl Names {
    /// Of this machine.
    pub fn of(host: Host) -> Self {
        let mut names = Self {
            host,
            disks: HashMap::new(),
            may_look: false,
        };
        names.look();
        names
    }

    /// Some time has passed: what was not there may have come.
    pub const fn may_look(&mut self) {
        self.may_look = true;
    }

    fn look(&mut self) {
        self.may_look = false;
        self.disks.clear();
        for controller in self.host.controllers() {
            for ns in controller.namespaces {
                self.disks
                    .insert((controller.instance, ns.nsid), (ns.name, ns.set));
            }
        }
    }

    /// The disk of a command, as the kernel's own trace has it: none for admin commands.
    pub fn of_command(&mut self, id: Option<&CommandId>) -> (&str, CommandSet) {
        let Some(id) = id.filter(|id| id.opcode.queue == QueueKind::Io) else {
            return ("", CommandSet::Nvm);
        };
        let key = (id.ctrl, id.nsid);
        if self.may_look && !self.disks.contains_key(&key) {
            self.look();
        }
        self.disks
            .get(&key)
            .map_or(("", CommandSet::Nvm), |(name, set)| (name, *set))
    }
}
