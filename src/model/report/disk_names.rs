// SPDX-License-Identifier: MIT OR Apache-2.0
//! Names of disks. A command contains only its controller and a namespace id; texts call the namespace by
//! the name of its block device.
//!
//! The name is the one that sysfs has below the controller: `nvme0n1`, or `nvme0c1n1` for a path of a
//! multipath disk. It is never made of the numbers: under multipath the first number of `nvme0n1` is not
//! the controller's, and the second is never the namespace id. Where no name is known, the
//! namespace is `nvme0 ns 1`.

use std::collections::BTreeMap;

use crate::model::machine::ControllerInfo;
use crate::model::target::HostController;
use crate::model::text::{Text, word};
use crate::nvme::opcode::{Opcode, QueueKind};
use crate::nvme::subject::{FABRICS, Nsid, command_name, subject};

/// The name of a namespace: its disk's name, or `nvme0 ns 1` if nobody knows it.
#[must_use]
pub fn namespace_name(disk: Option<&str>, ctrl: u32, nsid: u32) -> String {
    disk.filter(|name| !name.is_empty())
        .map_or_else(|| format!("nvme{ctrl} ns {}", Nsid(nsid)), |name| word(name).into_owned())
}

/// The names of the disks of a run, by controller and namespace id, and of a target's controllers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DiskNames(BTreeMap<(u32, u32), Text>, BTreeMap<u32, Text>);

impl DiskNames {
    /// Names a disk.
    pub(crate) fn set(&mut self, ctrl: u32, nsid: u32, name: &Text) {
        if name.is_empty() {
            return;
        }
        // a new disk may get the name of one that is gone
        self.0.retain(|key, other| *key == (ctrl, nsid) || other != name);
        self.0.insert((ctrl, nsid), name.clone());
    }

    /// Adds the disks of these controllers. Known disks stay, even if they are gone.
    pub fn recorded(&mut self, controllers: &[ControllerInfo]) {
        for controller in controllers {
            for disk in &controller.disks {
                self.set(controller.instance, disk.nsid, &disk.name);
            }
        }
    }

    /// Names the controllers of a target.
    pub fn of_target(controllers: &[HostController]) -> Self {
        let names = controllers.iter().map(|c| (c.number, c.name.clone()));
        Self(BTreeMap::new(), names.collect())
    }

    /// `nvme0`, or a target's name for its controller.
    #[must_use]
    pub fn ctrl(&self, ctrl: u32) -> String {
        self.1.get(&ctrl).map_or_else(|| format!("nvme{ctrl}"), |name| word(name).into_owned())
    }

    /// `nvme0n1`, or `nvme0 ns 1` if the name is not known.
    #[must_use]
    pub fn disk(&self, ctrl: u32, nsid: u32) -> String {
        namespace_name(self.0.get(&(ctrl, nsid)).map(|name| &**name), ctrl, nsid)
    }

    /// What commands have in common, for headings: `nvme0n1 read`, `nvme0 ns all flush`,
    /// `nvme0 admin identify`.
    #[must_use]
    pub fn subject(&self, ctrl: u32, cdw1: u32, opcode: Opcode) -> String {
        let is_of_disk = opcode.queue == QueueKind::Io && opcode.code != FABRICS;
        let disk = self.0.get(&(ctrl, cdw1)).filter(|_| is_of_disk);
        let Some(disk) = disk else {
            return subject(&self.ctrl(ctrl), Some(cdw1), opcode);
        };
        let name = command_name(opcode, cdw1);
        let name = name.map_or_else(|| opcode.to_string(), str::to_owned);
        format!("{} {name}", word(disk))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::machine::DiskInfo;

    fn controller(instance: u32, disks: &[(&str, u32)]) -> ControllerInfo {
        let disks = disks.iter().map(|&(name, nsid)| DiskInfo {
            name: name.into(),
            nsid,
            ..DiskInfo::default()
        });
        ControllerInfo { instance, disks: disks.collect(), ..ControllerInfo::default() }
    }

    #[test]
    fn a_disk_that_is_gone_keeps_its_name_until_another_has_it() {
        let mut names = DiskNames::default();
        names.recorded(&[controller(0, &[("nvme0n1", 1), ("nvme0n2", 2)])]);
        names.recorded(&[controller(0, &[("nvme0n1", 3)])]);
        assert_eq!(names.disk(0, 1), "nvme0 ns 1");
        assert_eq!(names.disk(0, 2), "nvme0n2");
        assert_eq!(names.disk(0, 3), "nvme0n1");
    }
}
