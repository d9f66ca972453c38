// SPDX-License-Identifier: MIT OR Apache-2.0
//! Names of disks and cgroups. A command contains only its controller, a namespace id, and ids of
//! cgroups.

use crate::machine::System;
use crate::machine::cgroups::CgroupPaths;
use crate::model::event::{CommandId, Event, Submission};
use crate::model::filter::Filter;
use crate::model::ids::NamespaceId;
use crate::model::machine::ControllerInfo;
use crate::model::origin::Cgroups;
use crate::model::text::Text;
use crate::nvme::decode::CommandSet;
use crate::nvme::opcode::QueueKind;
use crate::recording::{CgroupInfo, Fact, Item};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::mem::replace;

/// A namespace.
#[derive(Clone, Debug, Default)]
struct Disk {
    name: Text,
    set: CommandSet,
}

/// Disk name and command set of each namespace, from sysfs or from a recording.
#[derive(Debug)]
pub struct Names {
    /// `None`: the names come from a recording.
    system: Option<System>,
    controllers: Vec<ControllerInfo>,
    disks: HashMap<NamespaceId, Disk>,
    /// Bytes of a logical block.
    sizes: HashMap<NamespaceId, u32>,
    /// The last lookup; the next one is usually the same. Id 0 has no disk.
    last: (NamespaceId, Disk),
    may_rescan: bool,
    changed: bool,
    /// Cgroups of this machine; `None`: of a recording.
    paths: Option<CgroupPaths>,
    /// Those of a recording.
    cgroups: Cgroups,
}

impl Names {
    /// Reads the namespaces of this machine.
    pub fn of(system: System) -> Self {
        let mut names = Self::recorded();
        names.paths = Some(CgroupPaths::new(&system));
        names.system = Some(system);
        names.rescan();
        names
    }

    /// The names of a recording, which [`Names::set`] sets.
    pub fn recorded() -> Self {
        Self {
            system: None,
            controllers: Vec::new(),
            disks: HashMap::new(),
            sizes: HashMap::new(),
            last: (NamespaceId::new(0, 0), Disk::default()),
            may_rescan: false,
            changed: false,
            paths: None,
            cgroups: Cgroups::new(),
        }
    }

    /// Adds cgroups of a recording.
    pub fn add_cgroups(&mut self, all: &[CgroupInfo]) {
        let all = all.iter().map(|one| (one.id, one.path.clone()));
        self.cgroups.extend(all);
    }

    /// The cgroups that are known so far.
    pub fn cgroups(&self) -> &Cgroups {
        self.paths.as_ref().map_or(&self.cgroups, CgroupPaths::known)
    }

    /// Looks up the cgroups of an event.
    pub fn learn_cgroups(&mut self, event: &Event) {
        let origin = event.what.submission().map(|s| s.origin);
        if let Some((paths, origin)) = self.paths.as_mut().zip(origin) {
            for id in origin.cgroups() {
                paths.path(id);
            }
        }
    }

    /// The disk of an event's command, as [`Names::of_command`], and the paths of cgroups.
    pub fn of_event(&mut self, event: &Event) -> (&str, CommandSet, &Cgroups) {
        let has_origin = |s: &Submission| s.origin.is_some();
        if self.paths.is_some() && event.what.submission().is_some_and(has_origin) {
            self.learn_cgroups(event);
        }
        let (disk, set) = match self.learn(event.what.id()) {
            true => (self.last.1.name.as_str(), self.last.1.set),
            false => ("", CommandSet::Nvm),
        };
        (disk, set, self.cgroups())
    }

    /// Allows one more read of sysfs, because a new namespace may have appeared.
    pub const fn allow_rescan(&mut self) {
        self.may_rescan = true;
    }

    fn rescan(&mut self) {
        self.may_rescan = false;
        if let Some(system) = &self.system {
            let all = system.controllers();
            self.set(all);
        }
    }

    /// Sets the controllers and their namespaces.
    pub fn set(&mut self, controllers: Vec<ControllerInfo>) {
        self.changed |= self.controllers != controllers;
        self.disks.clear();
        let sizes = controllers.iter().flat_map(ControllerInfo::block_sizes);
        self.sizes = sizes.collect();
        self.last = (NamespaceId::new(0, 0), Disk::default());
        for controller in &controllers {
            for disk in &controller.disks {
                let id = NamespaceId::new(controller.instance, disk.nsid);
                self.disks.insert(id, Disk { name: disk.name.clone(), set: disk.set() });
            }
        }
        self.controllers = controllers;
    }

    /// The controllers.
    pub fn controllers(&self) -> &[ControllerInfo] {
        &self.controllers
    }

    /// Whether the controllers have changed since the last call.
    #[inline]
    pub const fn take_changed(&mut self) -> bool {
        replace(&mut self.changed, false)
    }

    /// Bytes of a logical block of the namespace of a command, if known.
    pub fn lba_bytes(&self, id: &CommandId) -> Option<u32> {
        let size = self.sizes.get(&id.namespace()).copied();
        size.filter(|bytes| *bytes > 0)
    }

    /// The disk of a command, as in the kernel's own trace: none for admin commands.
    pub fn of_command(&mut self, id: Option<&CommandId>) -> (&str, CommandSet) {
        match self.learn(id) {
            true => (&self.last.1.name, self.last.1.set),
            false => ("", CommandSet::Nvm),
        }
    }

    /// Looks up the disk of a command. Returns false if it can have none.
    #[inline]
    fn learn(&mut self, id: Option<&CommandId>) -> bool {
        let Some(id) = id.filter(|id| id.opcode.queue == QueueKind::Io) else {
            return false;
        };
        if self.last.0 != id.namespace() {
            self.turn_to(id.namespace());
        }
        true
    }

    fn turn_to(&mut self, key: NamespaceId) {
        // a new namespace may have appeared
        if self.may_rescan && !self.disks.contains_key(&key) {
            self.rescan();
        }
        let none = Disk::default();
        let disk = self.disks.get(&key).unwrap_or(&none);
        // reuses the allocation
        self.last.1.name.clone_from(&disk.name);
        (self.last.0, self.last.1.set) = (key, disk.set);
    }
}

/// The controllers and namespaces of a recording, as far as it was read.
#[derive(Debug, Default)]
pub struct Census {
    /// By controller and namespace id: the name of the disk. Those without commands are among them.
    disks: BTreeMap<u32, BTreeMap<u32, Text>>,
    /// Namespaces of commands.
    used: BTreeSet<NamespaceId>,
}

/// Whether this can be the name of a disk. Text of a recording may be anything.
fn is_name(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|b| b.is_ascii_alphanumeric())
}

/// `name`, or `name (details)`.
fn with(name: String, details: &str) -> String {
    if details.is_empty() { name } else { format!("{name} ({details})") }
}

fn list(all: impl Iterator<Item = String>) -> String {
    let all: Vec<String> = all.collect();
    if all.is_empty() { "none".into() } else { all.join(", ") }
}

impl Census {
    /// Takes an item in.
    pub fn add(&mut self, item: &Item<'_>) {
        match item {
            Item::Fact(Fact::Controllers(all)) => {
                for controller in all {
                    let disks = self.disks.entry(controller.instance).or_default();
                    let named = controller.disks.iter().map(|d| (d.nsid, d.name.clone()));
                    disks.extend(named);
                }
            }
            Item::Event(event) => {
                let ctrl = event.what.ctrl();
                self.disks.entry(ctrl).or_default();
                if let Some(id) = event.what.id() {
                    self.used.insert(id.namespace());
                }
            }
            _ => {}
        }
    }

    fn controllers(&self) -> String {
        list(self.disks.iter().map(|(instance, disks)| {
            let names: Vec<&str> = disks.values().map(Text::as_str).collect();
            let names: Vec<&str> = names.into_iter().filter(|name| is_name(name)).collect();
            with(format!("nvme{instance}"), &names.join(", "))
        }))
    }

    /// The controllers and the namespace ids of a disk, by its name.
    pub fn places(&self, disk: &str) -> (BTreeSet<u32>, BTreeSet<u32>) {
        let all = self.disks.iter().flat_map(|(ctrl, disks)| {
            let named = disks.iter().filter(|(_, name)| name.as_str() == disk);
            named.map(|(nsid, _)| (*ctrl, *nsid))
        });
        all.unzip()
    }

    /// The disks, for a filter that names another.
    pub fn disks(&self) -> String {
        let names = self.disks.values().flat_map(BTreeMap::values);
        list(names.filter(|name| is_name(name)).map(ToString::to_string))
    }

    /// The first controller or namespace of a filter that is not there, and those that are.
    pub fn lacks(&self, filter: &Filter) -> Option<String> {
        let missing = filter.ctrls.iter().find(|c| !self.disks.contains_key(c));
        if let Some(instance) = missing {
            let all = self.controllers();
            return Some(format!("no controller nvme{instance}: it has {all}"));
        }
        let of = |ctrl: &u32| filter.has_ctrl(*ctrl);
        // admin commands use 0 and the broadcast id
        let is_special = |nsid: u32| nsid == 0 || nsid == u32::MAX;
        let mut all: BTreeMap<u32, Vec<&str>> = BTreeMap::new();
        for id in self.used.iter().filter(|id| of(&id.ctrl)) {
            all.entry(id.nsid).or_default();
        }
        for (_, disks) in self.disks.iter().filter(|(ctrl, _)| of(ctrl)) {
            for (nsid, name) in disks {
                let names = all.entry(*nsid).or_default();
                names.extend(Some(name.as_str()).filter(|name| is_name(name)));
            }
        }
        let mut wanted = filter.nsids.iter().filter(|nsid| !is_special(**nsid));
        let missing = wanted.find(|nsid| !all.contains_key(nsid))?;
        let known = all.iter().filter(|(nsid, _)| !is_special(**nsid));
        let have = list(known.map(|(nsid, names)| with(nsid.to_string(), &names.join(", "))));
        Some(format!("no namespace with id {missing}: it has {have}"))
    }
}
