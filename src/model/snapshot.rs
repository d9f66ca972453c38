// SPDX-License-Identifier: MIT OR Apache-2.0
//! The contents of the maps at one instant. A source reads them; [`crate::model::report`] turns them into
//! rows.

use std::borrow::Cow;
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::mem::take;

use crate::model::counters::{Counters, Failures};
use crate::model::group::{Group, GroupNames};
use crate::model::histogram::Histogram;
use crate::model::ids::RowKey;
use crate::model::nvme_latency::SLOTS;
use crate::model::point::Pattern;
use crate::model::stage::StageSet;

/// The counts of one row and pattern, over all CPUs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cell {
    /// Bytes transferred.
    pub bytes: u64,
    /// Commands without any observed interval. They are in no histogram.
    pub unmeasured: u64,
    /// nvme_latency's buckets of the total.
    pub lat: [u64; SLOTS],
    /// Histograms of the stages and of the total, in the order of the cell.
    pub hists: Vec<Histogram>,
    /// For groups of stages: nanoseconds in each part ([`StageSet::Full`]) that was observed separately.
    /// Empty if no part was.
    pub parts: Vec<u64>,
}

impl Cell {
    /// A cell of this stage set without commands.
    pub fn empty(stage_set: StageSet) -> Self {
        Self {
            bytes: 0,
            unmeasured: 0,
            lat: [0; SLOTS],
            hists: vec![Histogram::new(); stage_set.histograms()],
            parts: Vec::new(),
        }
    }

    /// Number of commands.
    pub fn commands(&self) -> u64 {
        self.unmeasured + self.hists.last().map_or(0, Histogram::count)
    }

    /// Adds the commands of a cell of the same stage set.
    pub fn merge(&mut self, other: &Self) {
        self.bytes += other.bytes;
        self.unmeasured += other.unmeasured;
        self.lat.iter_mut().zip(other.lat).for_each(|(sum, n)| *sum += n);
        let hists = self.hists.iter_mut().zip(&other.hists);
        hists.for_each(|(sum, hist)| sum.merge(hist));
        add_parts(&mut self.parts, &other.parts);
    }

    /// The difference to `earlier`, a cell of the same row.
    pub fn minus(&self, earlier: &Self) -> Self {
        let mut lat = self.lat;
        lat.iter_mut().zip(earlier.lat).for_each(|(n, was)| *n = n.saturating_sub(was));
        let mut parts = self.parts.clone();
        parts.iter_mut().zip(&earlier.parts).for_each(|(ns, was)| *ns = ns.saturating_sub(*was));
        Self {
            parts,
            bytes: self.bytes.saturating_sub(earlier.bytes),
            unmeasured: self.unmeasured.saturating_sub(earlier.unmeasured),
            lat,
            hists: self.hists.iter().zip(&earlier.hists).map(|(a, b)| a.minus(b)).collect(),
        }
    }
}

/// Adds the times of parts.
pub fn add_parts(sum: &mut Vec<u64>, parts: &[u64]) {
    if sum.len() < parts.len() {
        sum.resize(parts.len(), 0);
    }
    sum.iter_mut().zip(parts).for_each(|(sum, ns)| *sum = sum.saturating_add(*ns));
}

/// The contents of all maps, since the start of the run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Snapshot {
    /// By row and pattern of points.
    pub cells: Cells<RowKey>,
    /// By group and pattern of points: of a run that groups its commands, which then are in no row.
    pub groups: Cells<Group>,
    /// The names of these groups.
    pub names: GroupNames,
    /// Hits of hooks, and exceptions.
    pub counters: Counters,
    /// Recursion misses by hook number.
    pub misses: Vec<u64>,
    /// By controller instance; empty if the run does not count them.
    pub failures: BTreeMap<u32, Failures>,
}

impl Snapshot {
    /// The cells of all rows and groups.
    fn all(&self) -> impl Iterator<Item = &Cell> {
        self.cells.values().chain(self.groups.values())
    }

    /// Number of commands in all rows.
    pub fn commands(&self) -> u64 {
        self.all().map(Cell::commands).sum()
    }

    /// Of these, commands that are in no histogram.
    pub fn unmeasured(&self) -> u64 {
        self.all().map(|c| c.unmeasured).sum()
    }

    /// The difference to `earlier`. Counters and failures still cover the whole run. Groups that
    /// lost their row since then are a part of the group of those without a row.
    pub fn minus(&self, earlier: &Self) -> Self {
        Self {
            cells: difference(&self.cells, &earlier.cells),
            groups: difference(&self.groups, &without_rows(&earlier.groups, &self.groups)),
            names: self.names.clone(),
            counters: self.counters.clone(),
            misses: self.misses.clone(),
            failures: self.failures.clone(),
        }
    }
}

/// Cells by their keys.
pub type Cells<K> = BTreeMap<(K, Pattern), Cell>;

/// Moves the groups with the fewest commands to the group of those without a row, until `keep` cells
/// are left, besides that group's.
pub fn fold_groups(groups: &mut Cells<Group>, keep: usize) {
    let mut commands: BTreeMap<&Group, (u64, usize)> = BTreeMap::new();
    for ((group, _), cell) in groups.iter().filter(|((g, _), _)| !g.is_other()) {
        let sum = commands.entry(group).or_default();
        *sum = (sum.0 + cell.commands(), sum.1 + 1);
    }
    let mut order: Vec<_> = commands.into_iter().map(|(g, n)| (n, g.clone())).collect();
    order.sort_by(|a, b| b.cmp(a));
    let mut left = keep;
    let gone: BTreeSet<Group> = order
        .into_iter()
        .skip_while(|((_, cells), _)| {
            let fits = *cells <= left;
            left = left.saturating_sub(*cells);
            fits
        })
        .map(|(_, group)| group)
        .collect();
    *groups = with_others(take(groups), |(group, _), _| gone.contains(group));
}

/// The same commands. Groups that are gone are added to the others.
fn with_others(
    groups: Cells<Group>,
    is_gone: impl Fn(&(Group, Pattern), &Cell) -> bool,
) -> Cells<Group> {
    let mut all = Cells::new();
    for (key, cell) in groups {
        let key = match is_gone(&key, &cell) {
            true => (Group::OTHER, key.1),
            false => key,
        };
        add(&mut all, key, cell);
    }
    all
}

/// The groups of `earlier`. Groups that lost their row before `later` are added to the others. Such a
/// group may have a row again, with fewer commands.
fn without_rows<'c>(earlier: &'c Cells<Group>, later: &Cells<Group>) -> Cow<'c, Cells<Group>> {
    let is_gone = |key: &(Group, Pattern), cell: &Cell| {
        let now = later.get(key).map_or(0, Cell::commands);
        !key.0.is_other() && now < cell.commands()
    };
    match earlier.iter().any(|(key, cell)| is_gone(key, cell)) {
        true => Cow::Owned(with_others(earlier.clone(), is_gone)),
        false => Cow::Borrowed(earlier),
    }
}

/// Adds a cell to the one with the same key.
pub fn add<K: Ord>(to: &mut BTreeMap<K, Cell>, key: K, cell: Cell) {
    match to.entry(key) {
        Entry::Vacant(place) => {
            place.insert(cell);
        }
        Entry::Occupied(sum) => sum.into_mut().merge(&cell),
    }
}

/// The cells of `later`, without what `earlier` has of each.
pub fn difference<K: Clone + Ord>(
    later: &BTreeMap<K, Cell>,
    earlier: &BTreeMap<K, Cell>,
) -> BTreeMap<K, Cell> {
    let pairs = later.iter().map(|(key, cell)| {
        let before = earlier.get(key);
        let cell = before.map_or_else(|| cell.clone(), |before| cell.minus(before));
        (key.clone(), cell)
    });
    pairs.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::group::KeyPart;
    use crate::testing::snapshot::cell;

    #[test]
    fn the_smallest_groups_lose_their_rows_and_no_command_is_lost() {
        let mut snapshot = Snapshot::default();
        for pid in 1..=8_u32 {
            let commands = vec![&[100][..]; pid as usize];
            let group = Group(vec![KeyPart::Process(pid)]);
            let cell = cell(StageSet::Total, 0, &commands);
            snapshot.groups.insert((group, 0), cell);
        }
        let before = snapshot.commands();
        let unfolded = snapshot.groups.clone();
        fold_groups(&mut snapshot.groups, 3);
        let left: Vec<_> = snapshot.groups.keys().map(|(group, _)| group).collect();
        let own = [6, 7, 8].map(|pid| Group(vec![KeyPart::Process(pid)]));
        assert_eq!(left, [&Group::OTHER, &own[0], &own[1], &own[2]]);
        assert_eq!(snapshot.commands(), before);
        assert_eq!(snapshot.groups[&(Group::OTHER, 0)].commands(), 1 + 2 + 3 + 4 + 5);
        // the others have no commands since then: those that they have now are not new
        let since = snapshot.minus(&Snapshot { groups: unfolded, ..Snapshot::default() });
        assert_eq!(since.commands(), 0);
        // those that come again have a row again; what they had before stays with the others
        let back = Group(vec![KeyPart::Process(1)]);
        let cell = cell(StageSet::Total, 0, &[&[5][..]; 20]);
        snapshot.groups.insert((back.clone(), 0), cell);
        fold_groups(&mut snapshot.groups, 3);
        assert!(snapshot.groups.contains_key(&(back, 0)));
        assert_eq!(snapshot.commands(), before + 20);
    }

    #[test]
    fn a_group_that_lost_its_row_and_has_one_again_has_only_its_new_commands() {
        let [group, other] = [Group(vec![KeyPart::Process(1)]), Group::OTHER];
        let of = |counts: [usize; 2]| {
            let cells = [&other, &group].into_iter().zip(counts);
            let cells = cells.map(|(group, n)| {
                let commands = vec![&[100][..]; n];
                ((group.clone(), 0), cell(StageSet::Total, 0, &commands))
            });
            Snapshot { groups: cells.collect(), ..Snapshot::default() }
        };
        let since = of([17, 5]).minus(&of([2, 10]));
        let counts: Vec<u64> = since.groups.values().map(Cell::commands).collect();
        // all ten joined the others, which had five new ones, too
        assert_eq!(counts, [5, 5]);
    }
}
