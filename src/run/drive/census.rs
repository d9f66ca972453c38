// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which controllers and namespaces a recording has, for filters that name others.

use std::collections::{BTreeMap, BTreeSet};

use crate::model::filter::Filter;
use crate::model::ids::NamespaceId;
use crate::model::text::Text;
use crate::recording::{Fact, Item};

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
