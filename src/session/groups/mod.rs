// SPDX-License-Identifier: MIT OR Apache-2.0
//! The groups of a session (bpf/include/command.bpf.h): who has a number, and the names.

mod slots;

use std::collections::{BTreeMap, BTreeSet};
use std::mem::take;
use std::ops::RangeInclusive;

use libbpf_rs::{MapCore, MapFlags, MapHandle};

use self::slots::{GroupSlots, Key, Numbered};
use super::{Config, Layout, Session};
use crate::abi::{DecodeError, MAX_GROUPS, group_of, group_row, group_row_bytes, slot_group};
use crate::error::failed;
use crate::machine::System;
use crate::machine::cgroups::learn;
use crate::model::group::{By, Group, GroupNames, KeyPart, Owner};
use crate::model::ids::RowKey;
use crate::model::origin::owner;
use crate::model::snapshot::{Cells, Snapshot};
use crate::session::load::Loaded;
use anyhow::{Context, Result, anyhow};

/// Rows of a group: patterns of points.
const ROWS: u32 = 4;

/// The numbers of groups with rows of their own. The number 0 stands for the others.
pub(super) fn numbers(layout: &Layout) -> RangeInclusive<u32> {
    1..=(layout.cells.rows / ROWS).clamp(1, MAX_GROUPS - 1)
}

/// The groups of a run.
pub(super) struct Grouping {
    by: Vec<By>,
    system: System,
    groups: MapHandle,
    candidates: MapHandle,
    /// Numbers that the next groups take.
    free: MapHandle,
    slots: GroupSlots,
    names: GroupNames,
    /// Cgroups whose path was not found: they were gone.
    gone: BTreeSet<u64>,
}

/// The groups that have numbers, with the name of the thread of their first command.
type Rows = BTreeMap<u32, (Key, Group, [u8; 16])>;

impl Grouping {
    /// The groups of a run that has any.
    pub(super) fn of(loaded: &Loaded, config: &Config<'_>) -> Result<Option<Self>> {
        let by = config.settings.kernel_groups();
        if by.is_empty() {
            return Ok(None);
        }
        let mut grouping = Self {
            by: by.to_vec(),
            system: config.system.clone(),
            groups: loaded.map("groups")?,
            candidates: loaded.map("candidates")?,
            free: loaded.map("free_groups")?,
            slots: GroupSlots::default(),
            names: GroupNames::default(),
            gone: BTreeSet::new(),
        };
        if by.iter().any(|by| by.is_cgroup()) {
            grouping.names.cgroups = grouping.system.cgroup_paths().unwrap_or_default();
        }
        Ok(Some(grouping))
    }

    fn rows(&self) -> Result<Rows> {
        let mut all = Rows::new();
        for key in self.groups.keys() {
            let Some(value) = self.groups.lookup(&key, MapFlags::ANY)? else {
                continue;
            };
            let wrong = |DecodeError| anyhow!("a group of the wrong size");
            let row = group_row(&value).map_err(wrong)?;
            let group = Group(group_of(&key, &self.by).map_err(wrong)?);
            let key = key.try_into().map_err(|_| wrong(DecodeError))?;
            all.insert(row.number, (key, group, row.comm));
        }
        Ok(all)
    }

    /// Commands of the groups without a number, by group.
    fn waiting(&self) -> Result<BTreeMap<Key, u64>> {
        let mut all = BTreeMap::new();
        // a candidate that is forgotten meanwhile makes the kernel begin again
        let most = 2 * self.candidates.max_entries() as usize;
        for key in self.candidates.keys().take(most) {
            let Some(value) = self.candidates.lookup(&key, MapFlags::ANY)? else {
                continue;
            };
            let pair = key.try_into().ok().zip(value.try_into().ok());
            let (key, count) = pair.context("a candidate of the wrong size")?;
            all.insert(key, u64::from_ne_bytes(count));
        }
        Ok(all)
    }

    /// The names of these groups, as they are now. Those that are gone keep the last one.
    fn with_names(&self, names: &mut GroupNames, rows: &Rows) -> BTreeSet<u64> {
        let mut unknown = BTreeSet::new();
        for (_, group, comm) in rows.values() {
            for part in &group.0 {
                match part {
                    KeyPart::Process(pid) => {
                        let now = self.system.process_name(*pid);
                        let was = names.processes.get(pid).copied();
                        let name = now.or(was).unwrap_or(*comm);
                        names.processes.insert(*pid, name);
                    }
                    KeyPart::Cgroup(id) if !names.cgroups.contains_key(id) => {
                        unknown.insert(*id);
                    }
                    _ => {}
                }
            }
        }
        let owners = |names: &GroupNames| -> Vec<Owner> {
            let parts = rows.values().flat_map(|(_, group, _)| &group.0);
            let paths = parts.filter_map(|part| match part {
                KeyPart::Cgroup(id) => names.cgroups.get(id),
                _ => None,
            });
            paths.map(|path| owner(path)).collect()
        };
        if unknown.iter().any(|id| !self.gone.contains(id)) {
            let found = self.system.cgroup_paths().unwrap_or_default();
            names.cgroups.extend(found);
            unknown.retain(|id| !names.cgroups.contains_key(id));
        }
        let owners = owners(names);
        learn(&mut names.containers, &self.system, &owners);
        unknown
    }

    fn write(&self, changes: &slots::Changes) -> Result<()> {
        for key in &changes.take {
            self.groups.delete(key)?;
        }
        for (key, number) in &changes.give {
            let value = group_row_bytes(*number);
            if self.groups.update(key, &value, MapFlags::NO_EXIST).is_err() {
                // a program was first, with a number that another one had put back
                let back = self.free.update(&[], &number.to_ne_bytes(), MapFlags::ANY);
                back.map_err(failed("fill map `free_groups`"))?;
            }
            // it may have been forgotten
            let _ = self.candidates.delete(key);
        }
        Ok(())
    }
}

/// Cells by the number of their group, which their keys have instead of a namespace.
fn by_number(cells: Cells<RowKey>) -> Numbered {
    let cells = cells.into_iter();
    cells.map(|((row, pattern), cell)| ((row.nsid, pattern), cell)).collect()
}

impl Session {
    /// Once a second: learns the names of groups, and gives numbers to groups that grew.
    ///
    /// # Errors
    /// If a map cannot be read or written.
    pub fn assign_new_groups(&mut self) -> Result<()> {
        let Some(mut grouping) = self.grouping.take() else {
            return Ok(());
        };
        let done = self.tend(&mut grouping);
        self.grouping = Some(grouping);
        done
    }

    fn tend(&self, grouping: &mut Grouping) -> Result<()> {
        let rows = grouping.rows()?;
        let mut names = take(&mut grouping.names);
        grouping.gone = grouping.with_names(&mut names, &rows);
        grouping.names = names;
        let waiting = grouping.waiting()?;
        let candidates = grouping.slots.busiest(waiting);
        if candidates.is_empty() && grouping.slots.is_idle() {
            return Ok(());
        }
        let cells = self.numbered()?;
        let busy = self.groups_in_flight()?;
        let groups = rows.into_iter();
        let groups = groups.map(|(number, (key, group, _))| (number, (key, group)));
        let slots = &mut grouping.slots;
        let changes = slots.change(&groups.collect(), &cells, &busy, &candidates);
        grouping.write(&changes)
    }

    /// The cells of all numbers.
    fn numbered(&self) -> Result<Numbered> {
        let mut snapshot = Snapshot::default();
        self.add_cells(&mut snapshot)?;
        self.add_rowless(&mut snapshot)?;
        Ok(by_number(snapshot.cells))
    }

    /// The numbers of groups with commands in flight.
    fn groups_in_flight(&self) -> Result<BTreeSet<u32>> {
        let mut all = BTreeSet::new();
        self.each_held(|_, _, value| {
            all.insert(slot_group(value)?);
            Ok(())
        })?;
        Ok(all)
    }

    /// Gives the commands of a snapshot to their groups, if the run has any.
    pub(super) fn regroup(&self, snapshot: &mut Snapshot) -> Result<()> {
        let Some(grouping) = &self.grouping else {
            return Ok(());
        };
        let cells = by_number(take(&mut snapshot.cells));
        let rows = grouping.rows()?;
        snapshot.names = grouping.names.clone();
        grouping.with_names(&mut snapshot.names, &rows);
        let groups = rows.into_iter().map(|(number, (_, group, _))| (number, group));
        snapshot.groups = grouping.slots.groups(&groups.collect(), &cells);
        Ok(())
    }
}
