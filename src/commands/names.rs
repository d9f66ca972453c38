// SPDX-License-Identifier: MIT OR Apache-2.0
//! Names of disks. A command contains only its controller and a namespace id.

use std::collections::HashMap;

use nvme_deep::machine::System;
use nvme_deep::model::event::CommandId;
use nvme_deep::nvme::decode::CommandSet;
use nvme_deep::nvme::opcode::QueueKind;

/// Controller and namespace id.
type Key = (u32, u32);

/// Disk name and command set of each namespace, from sysfs.
#[derive(Debug)]
pub struct Names {
    system: System,
    disks: HashMap<Key, (String, CommandSet)>,
    /// The last lookup; the next one is usually the same.
    last: (Key, String, CommandSet),
    may_look: bool,
}

impl Names {
    /// Reads the namespaces of this machine.
    pub fn of(system: System) -> Self {
        let mut names = Self {
            system,
            disks: HashMap::new(),
            last: Self::no_disk(),
            may_look: false,
        };
        names.look();
        names
    }

    /// The entry of no namespace: id 0 has no disk.
    const fn no_disk() -> (Key, String, CommandSet) {
        ((0, 0), String::new(), CommandSet::Nvm)
    }

    /// Allows one more read of sysfs, because a new namespace may have appeared.
    pub const fn may_look(&mut self) {
        self.may_look = true;
    }

    fn look(&mut self) {
        self.may_look = false;
        self.disks.clear();
        self.last = Self::no_disk();
        for controller in self.system.controllers() {
            for ns in controller.namespaces {
                self.disks
                    .insert((controller.instance, ns.nsid), (ns.name, ns.set));
            }
        }
    }

    /// The disk of a command, as in the kernel's own trace: none for admin commands.
    pub fn of_command(&mut self, id: Option<&CommandId>) -> (&str, CommandSet) {
        let Some(id) = id.filter(|id| id.opcode.queue == QueueKind::Io) else {
            return ("", CommandSet::Nvm);
        };
        let key = (id.ctrl, id.nsid);
        if self.last.0 != key {
            self.turn_to(key);
        }
        (&self.last.1, self.last.2)
    }

    fn turn_to(&mut self, key: Key) {
        if self.may_look && !self.disks.contains_key(&key) {
            self.look();
        }
        // reuses the String's allocation
        self.last.1.clear();
        self.last.2 = CommandSet::Nvm;
        if let Some((name, set)) = self.disks.get(&key) {
            self.last.1.push_str(name);
            self.last.2 = *set;
        }
        self.last.0 = key;
    }
}
