// SPDX-License-Identifier: MIT OR Apache-2.0
//! Names of disks and cgroups. A command contains only its controller, a namespace id, and ids of
//! cgroups.

use crate::machine::System;
use crate::machine::cgroups::CgroupPaths;
use crate::model::event::{CommandId, Event};
use crate::model::filter::Filter;
use crate::model::ids::NamespaceId;
use crate::model::machine::{ControllerInfo, DiskInfo};
use crate::model::origin::Cgroups;
use crate::model::report::disk_names::namespace_name;
use crate::model::text::{Text, clean};
use crate::nvme::decode::CommandSet;
use crate::nvme::opcode::QueueKind;
use crate::recording::CgroupInfo;
use std::collections::{BTreeMap, BTreeSet};
use std::mem::take;

/// Disk name and command set of each namespace, from sysfs or from a recording.
#[derive(Debug, Default)]
pub struct Names {
    /// `None`: the names come from a recording.
    system: Option<System>,
    pub(super) controllers: Vec<ControllerInfo>,
    /// The last lookup; the next one is usually the same. Id 0 has no disk.
    last: (NamespaceId, DiskInfo),
    /// One more read of sysfs is allowed: a new namespace may have appeared.
    pub(super) may_rescan: bool,
    /// The controllers have changed since the session has passed them on.
    pub(super) changed: bool,
    /// Cgroups of this machine; `None`: of a recording.
    paths: Option<CgroupPaths>,
    /// Those of a recording.
    cgroups: Cgroups,
}

impl Names {
    /// Reads the namespaces of this machine. For a recording, start with the default and call
    /// [`Names::set`].
    pub fn of(system: System) -> Self {
        let paths = Some(CgroupPaths::new(&system));
        let mut names = Self { paths, ..Self::default() };
        names.set(system.controllers());
        names.system = Some(system);
        names
    }

    /// Adds cgroups of a recording.
    pub fn add_cgroups(&mut self, all: &[CgroupInfo]) {
        self.cgroups.extend(all.iter().map(|one| (one.id, one.path.clone())));
    }

    /// The cgroups that are known so far.
    pub fn cgroups(&self) -> &Cgroups {
        self.paths.as_ref().map_or(&self.cgroups, CgroupPaths::known)
    }

    /// Looks up the cgroups of an event.
    pub fn learn_cgroups(&mut self, event: &Event) {
        let Some(paths) = &mut self.paths else {
            return;
        };
        for id in event.what.submission().into_iter().flat_map(|s| s.origin.cgroups()) {
            paths.path(id);
        }
    }

    /// The disk of an event's command, as [`Names::of_command`], and the paths of cgroups.
    pub fn of_event(&mut self, event: &Event) -> (&str, CommandSet, &Cgroups) {
        self.learn_cgroups(event);
        self.of_command(event.what.id());
        (&self.last.1.name, self.last.1.set(), self.cgroups())
    }

    /// Sets the controllers and their namespaces.
    pub fn set(&mut self, controllers: Vec<ControllerInfo>) {
        self.changed |= self.controllers != controllers;
        (self.last, self.controllers) = (<_>::default(), controllers);
    }

    fn disk(&self, id: NamespaceId) -> Option<&DiskInfo> {
        let controller = self.controllers.iter().find(|c| c.instance == id.ctrl)?;
        controller.disks.iter().find(|disk| disk.nsid == id.nsid)
    }

    /// Bytes of a logical block of the namespace of a command, if known.
    pub fn lba_bytes(&self, id: &CommandId) -> Option<u32> {
        self.disk(id.namespace()).map(|disk| disk.lba_bytes).filter(|bytes| *bytes > 0)
    }

    /// The disk of a command, as in the kernel's own trace: none for admin commands.
    #[inline]
    pub fn of_command(&mut self, id: Option<&CommandId>) -> (&str, CommandSet) {
        let id = id.filter(|id| id.opcode.queue == QueueKind::Io);
        let key = id.map_or_else(NamespaceId::default, CommandId::namespace);
        if self.last.0 != key {
            self.turn_to(key);
        }
        (&self.last.1.name, self.last.1.set())
    }

    fn turn_to(&mut self, key: NamespaceId) {
        // a new namespace may have appeared
        let may_be_new = key.nsid != 0 && self.disk(key).is_none();
        if may_be_new && take(&mut self.may_rescan) {
            let all = self.system.as_ref().map(System::controllers);
            all.into_iter().for_each(|all| self.set(all));
        }
        self.last = (key, self.disk(key).cloned().unwrap_or_default());
    }
}

/// Controllers and their namespaces: of this machine, or of a recording as far as it was read. Each has the
/// name of its disk; empty: nobody knows it. The controller itself has the namespace id 0.
#[derive(Default)]
pub struct Devices(BTreeMap<(u32, u32), Text>);

impl Devices {
    /// Adds controllers and their namespaces.
    pub fn add(&mut self, controllers: &[ControllerInfo]) {
        for controller in controllers {
            self.0.entry((controller.instance, 0)).or_default();
            let disks = controller.disks.iter();
            self.0.extend(disks.map(|d| ((controller.instance, d.nsid), d.name.clone())));
        }
    }

    /// Adds the controller and the namespace of an event. Admin commands may have the broadcast id.
    pub fn add_event(&mut self, event: &Event) {
        let (ctrl, id) = (event.what.ctrl(), event.what.id());
        self.0.entry((ctrl, 0)).or_default();
        let nsid = id.map_or(0, |id| id.namespace().nsid);
        self.0.entry((ctrl, if nsid == u32::MAX { 0 } else { nsid })).or_default();
    }

    /// The controllers and the namespace ids of a disk, by its name.
    pub fn places(&self, disk: &str) -> (BTreeSet<u32>, BTreeSet<u32>) {
        let named = self.0.iter().filter(|(_, name)| name.as_str() == disk);
        named.map(|(place, _)| *place).unzip()
    }

    /// The disk, or the first controller or namespace of a filter, that is not there, and what is.
    pub fn lacks(&self, disk: Option<&str>, filter: &Filter) -> Option<String> {
        let has_namespace = |id: &u32| {
            let all_or_none = [0, u32::MAX];
            let mut places = self.0.keys().filter(|(ctrl, _)| filter.has_ctrl(*ctrl));
            all_or_none.contains(id) || places.any(|(_, nsid)| nsid == id)
        };
        let disk = disk.filter(|disk| self.places(disk).0.is_empty());
        let ctrl = filter.ctrls.iter().find(|ctrl| !self.0.contains_key(&(**ctrl, 0)));
        let nsid = filter.nsids.iter().find(|id| !has_namespace(id));
        let what = match (disk, ctrl, nsid) {
            (Some(disk), ..) => format!("disk {}", clean(disk)),
            (_, Some(ctrl), _) => format!("controller nvme{ctrl}"),
            (.., Some(nsid)) => format!("namespace with id {nsid}"),
            _ => return None,
        };
        let known = self.0.iter().map(|((ctrl, nsid), name)| match nsid {
            0 => format!("nvme{ctrl}"),
            _ => format!("{} (id {nsid})", namespace_name(Some(name), *ctrl, *nsid)),
        });
        let known = Some(known.collect::<Vec<_>>().join(", ")).filter(|known| !known.is_empty());
        Some(format!("no {what}: it has {}", known.as_deref().unwrap_or("none")))
    }
}
