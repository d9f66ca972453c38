// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which groups have a number. Pure: what is read from the maps comes in, what is to be written goes out.
//!
//! The first groups take the free numbers. When none is left, the commands of the others are counted in
//! the row of the number 0, and by group as candidates. A candidate that was busier than the idlest
//! group in the last second gets its number, in three steps of a second each: the number is taken away;
//! no command in flight has it; it is given. What the cells of the number have then stays with the
//! former group, so no command is lost or counted twice, whatever happens in between.

use std::collections::{BTreeMap, BTreeSet};

use crate::abi::GROUP_BYTES;
use crate::model::group::Group;
use crate::model::point::Pattern;
use crate::model::snapshot::{Cell, Cells, add, fold_groups};

/// Bytes of a group.
const KEY: usize = GROUP_BYTES;

/// A group as the BPF side has it.
pub(super) type Key = [u8; KEY];

/// Cells by the number of their group.
pub(super) type Numbered = BTreeMap<(u32, Pattern), Cell>;

/// Most numbers that are taken away in a second.
const MOST_CHANGES: usize = 64;
/// Most cells of groups that have no number any more.
const MOST_FORMER: usize = 1024;
/// A candidate must have this many times the commands of the group that it displaces: two groups that
/// are equally busy would displace each other each second.
const MUCH_MORE: u64 = 2;

/// A number between two groups.
#[derive(Clone, Debug)]
struct Retired {
    /// The group that had it.
    group: Group,
    /// No command in flight had it a second ago.
    was_free: bool,
}

/// The numbers of groups.
#[derive(Clone, Debug, Default)]
pub(super) struct GroupSlots {
    retired: BTreeMap<u32, Retired>,
    /// What the cells of a number had before its present group.
    before: Numbered,
    /// The commands of groups that had a number.
    former: Cells<Group>,
    /// Commands of each number, as they were last read.
    used: BTreeMap<u32, u64>,
    /// Commands of each candidate, as they were last read.
    waited: BTreeMap<Key, u64>,
}

/// What is to be written.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Changes {
    /// Groups that lose their numbers.
    pub(super) take: Vec<Key>,
    /// Candidates that get one.
    pub(super) give: Vec<(Key, u32)>,
}

fn commands_by_number(cells: &Numbered) -> BTreeMap<u32, u64> {
    let mut sums = BTreeMap::new();
    for ((number, _), cell) in cells {
        *sums.entry(*number).or_default() += cell.commands();
    }
    sums
}

impl GroupSlots {
    /// Whether there is nothing to do until a group finds no free number.
    pub(super) fn is_idle(&self) -> bool {
        self.retired.is_empty()
    }

    /// The candidates with commands since the last call, busiest first. `counts`: since they are known.
    pub(super) fn busiest(&mut self, counts: BTreeMap<Key, u64>) -> Vec<(u64, Key)> {
        let new = |(key, count): (&Key, &u64)| {
            let before = self.waited.get(key).copied().unwrap_or(0);
            // the kernel may have forgotten the candidate meanwhile, and begun again
            let more = count.checked_sub(before).unwrap_or(*count);
            (more, *key)
        };
        let mut all: Vec<_> = counts.iter().map(new).filter(|(n, _)| *n > 0).collect();
        all.sort_unstable_by(|a, b| b.cmp(a));
        self.waited = counts;
        all
    }

    /// What is to be changed. `groups` have numbers, `cells` are the cells of all numbers, `busy` the numbers
    /// of commands in flight, `candidates` as [`GroupSlots::busiest`] returns them.
    pub(super) fn change(
        &mut self,
        groups: &BTreeMap<u32, (Key, Group)>,
        cells: &Numbered,
        busy: &BTreeSet<u32>,
        candidates: &[(u64, Key)],
    ) -> Changes {
        let mut changes = Changes::default();
        let mut waiting = candidates.iter();
        for number in self.free(busy) {
            let Some((_, key)) = waiting.next() else {
                break;
            };
            self.part(number, cells);
            changes.give.push((*key, number));
        }
        let now = commands_by_number(cells);
        let used = |number: &u32| {
            let before = self.used.get(number).copied().unwrap_or(0);
            now.get(number).copied().unwrap_or(0).saturating_sub(before)
        };
        let mut idlest: Vec<_> = groups.keys().map(|n| (used(n), *n)).collect();
        idlest.sort_unstable();
        // each number that is still between two groups is for one of the candidates
        let pending = self.retired.len();
        let pairs = waiting.skip(pending).zip(idlest).take(MOST_CHANGES);
        for ((commands, _), (used, number)) in pairs {
            let Some((key, group)) = groups.get(&number) else {
                continue;
            };
            if *commands <= used.saturating_mul(MUCH_MORE) {
                break;
            }
            changes.take.push(*key);
            let retired = Retired { group: group.clone(), was_free: false };
            self.retired.insert(number, retired);
        }
        self.used = now;
        changes
    }

    /// The numbers that no command in flight has, nor had a second ago.
    fn free(&mut self, busy: &BTreeSet<u32>) -> Vec<u32> {
        let mut free = Vec::new();
        for (number, retired) in &mut self.retired {
            let is_free = !busy.contains(number);
            if is_free && retired.was_free {
                free.push(*number);
            }
            retired.was_free = is_free;
        }
        free
    }

    /// Ends the time of the former group of a number: what its cells have is that group's.
    fn part(&mut self, number: u32, cells: &Numbered) {
        let Some(Retired { group, .. }) = self.retired.remove(&number) else {
            return;
        };
        for ((_, pattern), cell) in cells.range((number, 0)..=(number, Pattern::MAX)) {
            let own = self.own((number, *pattern), cell);
            add(&mut self.former, (group.clone(), *pattern), own);
            self.before.insert((number, *pattern), cell.clone());
        }
        if self.former.len() > MOST_FORMER {
            fold_groups(&mut self.former, MOST_FORMER / 2);
        }
    }

    /// What a cell has of the present group of its number.
    fn own(&self, key: (u32, Pattern), cell: &Cell) -> Cell {
        let before = self.before.get(&key);
        before.map_or_else(|| cell.clone(), |before| cell.minus(before))
    }

    /// The cells of all groups. `groups` have numbers.
    pub(super) fn groups(&self, groups: &BTreeMap<u32, Group>, cells: &Numbered) -> Cells<Group> {
        let (mut all, other) = (self.former.clone(), Group::OTHER);
        for ((number, pattern), cell) in cells {
            let retired = self.retired.get(number).map(|retired| &retired.group);
            let group = groups.get(number).or(retired).unwrap_or(&other);
            let own = self.own((*number, *pattern), cell);
            add(&mut all, (group.clone(), *pattern), own);
        }
        all.retain(|_, cell| cell.commands() > 0);
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::group::KeyPart;
    use crate::model::stage::StageSet;

    /// A machine with these numbers for groups, and commands that begin and end at once.
    #[derive(Default)]
    struct Machine {
        slots: GroupSlots,
        numbers: u32,
        /// Numbers that were taken.
        taken: u32,
        table: BTreeMap<Key, u32>,
        cells: Numbered,
        waiting: BTreeMap<Key, u64>,
        truth: BTreeMap<u32, u64>,
    }

    fn key(process: u32) -> Key {
        let mut key = [0; KEY];
        key[..4].copy_from_slice(&process.to_ne_bytes());
        key
    }

    fn group(key: &Key) -> Group {
        let process = u32::from_ne_bytes(key[..4].try_into().unwrap());
        Group(vec![KeyPart::Process(process)])
    }

    impl Machine {
        fn commands(&mut self, process: u32, count: u64) {
            *self.truth.entry(process).or_default() += count;
            let key = key(process);
            if self.taken < self.numbers && !self.table.contains_key(&key) {
                self.taken += 1;
                self.table.insert(key, self.taken);
            }
            let number = self.table.get(&key).copied().unwrap_or(0);
            if number == 0 {
                *self.waiting.entry(key).or_default() += count;
            }
            let cell = self.cells.entry((number, 0));
            let cell = cell.or_insert_with(|| Cell::empty(StageSet::Total));
            cell.unmeasured += count;
            cell.bytes += count;
        }

        fn second(&mut self, busy: &[u32]) {
            let groups = self.table.iter().map(|(key, n)| (*n, (*key, group(key))));
            let groups: BTreeMap<_, _> = groups.collect();
            let candidates = self.slots.busiest(self.waiting.clone());
            let busy = busy.iter().copied().collect();
            let changes = self.slots.change(&groups, &self.cells, &busy, &candidates);
            for key in changes.take {
                assert!(self.table.remove(&key).is_some());
            }
            for (key, number) in changes.give {
                assert!(!self.table.values().any(|n| *n == number));
                self.table.insert(key, number);
                self.waiting.remove(&key);
            }
        }

        /// Commands by process; 0: those without a row.
        fn found(&self) -> BTreeMap<u32, u64> {
            let groups = self.table.iter().map(|(key, n)| (*n, group(key))).collect();
            let cells = self.slots.groups(&groups, &self.cells);
            let sum: u64 = cells.values().map(Cell::commands).sum();
            assert_eq!(sum, self.truth.values().sum::<u64>());
            let process = |group: &Group| match group.0.as_slice() {
                [KeyPart::Process(process)] => *process,
                _ => 0,
            };
            let found = cells.iter();
            found.map(|((group, _), cell)| (process(group), cell.commands())).collect()
        }
    }

    #[test]
    fn a_group_that_grows_late_gets_a_row() {
        let mut machine = Machine { numbers: 2, ..Machine::default() };
        machine.commands(1, 100);
        machine.commands(2, 10);
        for _ in 0..6 {
            machine.commands(1, 100);
            machine.commands(3, 50);
            machine.second(&[]);
        }
        let found = machine.found();
        assert_eq!((found[&1], found[&2]), (700, 10));
        // its commands of the first three seconds are with the others
        assert_eq!((found[&3], found[&0]), (150, 150));
        // the one that lost its row has one again
        for _ in 0..6 {
            machine.commands(2, 500);
            machine.commands(1, 100);
            machine.second(&[]);
        }
        let found = machine.found();
        assert_eq!((found[&2], found[&3]), (10 + 1500, 150));
    }

    #[test]
    fn a_number_waits_for_its_commands_in_flight() {
        let mut machine = Machine { numbers: 1, ..Machine::default() };
        machine.commands(1, 1);
        for second in 0..9 {
            machine.commands(2, 10);
            machine.second(if second < 5 { &[1] } else { &[] });
            let has_row = machine.table.contains_key(&key(2));
            assert_eq!(has_row, second > 5, "{second}");
        }
        assert_eq!(machine.found()[&1], 1);
    }

    #[test]
    fn groups_that_are_equally_busy_keep_their_rows() {
        let mut machine = Machine { numbers: 2, ..Machine::default() };
        for _ in 0..9 {
            for process in 1..=4 {
                machine.commands(process, 10);
            }
            machine.second(&[]);
        }
        let found = machine.found();
        assert_eq!((found[&1], found[&2], found[&0]), (90, 90, 180));
    }

    #[test]
    fn thousands_of_groups_that_come_and_go_are_in_the_sum() {
        let mut machine = Machine { numbers: 200, ..Machine::default() };
        for second in 0..20 {
            for process in 1..=300 {
                machine.commands(process + second * 300, 1 + u64::from(process % 7));
            }
            for process in 100_000..100_010 {
                machine.commands(process, 1000);
            }
            machine.second(&[]);
        }
        let found = machine.found();
        for process in 100_000..100_010 {
            assert!(found[&process] >= 16_000, "{process}: {}", found[&process]);
        }
        assert!(machine.slots.former.len() <= MOST_FORMER);
    }
}
