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
    controllers: Vec<ControllerInfo>,
    /// The last lookup; the next one is usually the same. Id 0 has no disk.
    last: (NamespaceId, DiskInfo),
    may_rescan: bool,
    changed: bool,
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

    /// Allows one more read of sysfs, because a new namespace may have appeared.
    pub const fn allow_rescan(&mut self) {
        self.may_rescan = true;
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

    /// The controllers.
    pub fn controllers(&self) -> &[ControllerInfo] {
        &self.controllers
    }

    /// Whether the controllers have changed since the last call.
    #[inline]
    pub fn take_changed(&mut self) -> bool {
        take(&mut self.changed)
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

/// Controllers and their namespaces: of this machine, or of a recording as far as it was read.
#[derive(Default)]
pub struct Devices {
    /// The name of the disk by controller and namespace id; empty: nobody knows it.
    disks: BTreeMap<u32, BTreeMap<u32, Text>>,
}

/// `name`, or `name (disks)`.
fn with<'n>(name: String, disks: impl Iterator<Item = &'n Text>) -> String {
    let disks: Vec<&str> = disks.map(Text::as_str).filter(|disk| !disk.is_empty()).collect();
    if disks.is_empty() { name } else { format!("{name} ({})", disks.join(", ")) }
}

fn list(all: impl Iterator<Item = String>) -> String {
    let all: Vec<String> = all.collect();
    if all.is_empty() { "none".into() } else { all.join(", ") }
}

impl Devices {
    /// Adds controllers and their namespaces.
    pub fn add(&mut self, controllers: &[ControllerInfo]) {
        for controller in controllers {
            let named = controller.disks.iter().map(|disk| (disk.nsid, disk.name.clone()));
            self.disks.entry(controller.instance).or_default().extend(named);
        }
    }

    /// Adds the controller and the namespace of an event.
    pub fn add_event(&mut self, event: &Event) {
        let disks = self.disks.entry(event.what.ctrl()).or_default();
        if let Some(id) = event.what.id() {
            disks.entry(id.namespace().nsid).or_default();
        }
    }

    /// The controllers and the namespace ids of a disk, by its name.
    pub fn places(&self, disk: &str) -> (BTreeSet<u32>, BTreeSet<u32>) {
        let all = self.disks.iter().flat_map(|(ctrl, of)| of.iter().map(move |at| (*ctrl, at)));
        let named = all.filter(|(_, (_, name))| name.as_str() == disk);
        named.map(|(ctrl, (nsid, _))| (ctrl, *nsid)).unzip()
    }

    /// The disk, or the first controller or namespace of a filter, that is not there, and those that are.
    pub fn lacks(&self, disk: Option<&str>, filter: &Filter) -> Option<String> {
        if let Some(disk) = disk {
            let all = self.disks.values().flat_map(BTreeMap::values);
            let all = all.filter(|name| !name.is_empty()).map(ToString::to_string);
            let lacks = self.places(disk).0.is_empty();
            return lacks.then(|| format!("no disk {}: it has {}", clean(disk), list(all)));
        }
        if let Some(wanted) = filter.ctrls.iter().find(|ctrl| !self.disks.contains_key(ctrl)) {
            let known = self.disks.iter();
            let known = known.map(|(ctrl, disks)| with(format!("nvme{ctrl}"), disks.values()));
            return Some(format!("no controller nvme{wanted}: it has {}", list(known)));
        }
        // admin commands use 0 and the broadcast id
        let is_disk = |nsid: &u32| *nsid != 0 && *nsid != u32::MAX;
        let mut known: BTreeMap<u32, Vec<&Text>> = BTreeMap::new();
        for (_, disks) in self.disks.iter().filter(|(ctrl, _)| filter.has_ctrl(**ctrl)) {
            for (nsid, name) in disks.iter().filter(|(nsid, _)| is_disk(nsid)) {
                known.entry(*nsid).or_default().push(name);
            }
        }
        let mut wanted = filter.nsids.iter().filter(|nsid| is_disk(nsid));
        let wanted = wanted.find(|nsid| !known.contains_key(nsid))?;
        let known = known.iter().map(|(id, names)| with(id.to_string(), names.iter().copied()));
        Some(format!("no namespace with id {wanted}: it has {}", list(known)))
    }
}
