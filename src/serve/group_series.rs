// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which groups have series of their own in metrics, and what each counts. A series counts from the
//! moment at which its group gets one; the rest goes to the others. So counters only grow, and a
//! group that has done nothing for a while, or is gone, loses its series without a trace in the others.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::model::group::Group;
use crate::model::point::Pattern;
use crate::model::snapshot::{Cell, Cells, add, difference};

/// Cells of one group.
type Parts = BTreeMap<Pattern, Cell>;

/// A group with a series.
#[derive(Clone, Debug)]
struct Shown {
    /// What it had before it got the series.
    base: Parts,
    commands: u64,
    /// When it had its last command.
    changed: Duration,
}

/// The groups with series.
#[derive(Clone, Debug)]
pub struct GroupSeries {
    most: usize,
    keep: Duration,
    shown: BTreeMap<Group, Shown>,
    /// The last reading.
    before: BTreeMap<Group, Parts>,
    /// What the series counted that are gone.
    dropped: Parts,
}

fn commands(parts: &Parts) -> u64 {
    parts.values().map(Cell::commands).sum()
}

fn merge(to: &mut Parts, parts: Parts) {
    for (pattern, cell) in parts {
        add(to, pattern, cell);
    }
}

impl GroupSeries {
    /// None so far. At most `most` at a time; one without a command for longer than `keep` is dropped.
    pub const fn new(most: usize, keep: Duration) -> Self {
        Self {
            most,
            keep,
            shown: BTreeMap::new(),
            before: BTreeMap::new(),
            dropped: BTreeMap::new(),
        }
    }

    /// Drops the series of groups that are idle or gone.
    fn drop_idle(&mut self, now: Duration, groups: &BTreeMap<Group, Parts>) {
        let none = Parts::new();
        for (group, shown) in &mut self.shown {
            let commands = groups.get(group).map_or(0, commands);
            if commands > shown.commands {
                (shown.commands, shown.changed) = (commands, now);
            }
        }
        let keep = self.keep;
        let is_over = |group: &Group, shown: &Shown| {
            !groups.contains_key(group) || now.saturating_sub(shown.changed) > keep
        };
        let over = self.shown.iter().filter(|(g, s)| is_over(g, s));
        let over: Vec<Group> = over.map(|(group, _)| group.clone()).collect();
        for group in over {
            if let Some(shown) = self.shown.remove(&group) {
                let last = self.before.get(&group).unwrap_or(&none);
                merge(&mut self.dropped, difference(last, &shown.base));
            }
        }
    }

    /// Gives series to the busiest groups without one.
    fn take_new(&mut self, now: Duration, groups: &BTreeMap<Group, Parts>) {
        let none = Parts::new();
        let grown = |group: &Group, parts: &Parts| {
            let before = self.before.get(group).map_or(0, commands);
            commands(parts).saturating_sub(before)
        };
        let without = groups
            .iter()
            .filter(|(group, _)| !group.is_other() && !self.shown.contains_key(*group));
        let mut new: Vec<(u64, &Group)> = without
            .map(|(group, parts)| (grown(group, parts), group))
            .filter(|(commands, _)| *commands > 0)
            .collect();
        new.sort_by(|a, b| b.0.cmp(&a.0).then_with(|| a.1.cmp(b.1)));
        let free = self.most.saturating_sub(self.shown.len());
        for (_, group) in new.into_iter().take(free) {
            let shown = Shown {
                base: self.before.get(group).unwrap_or(&none).clone(),
                commands: commands(&groups[group]),
                changed: now,
            };
            self.shown.insert(group.clone(), shown);
        }
    }

    /// The series after a reading, `now` after the start.
    pub fn update(&mut self, now: Duration, cells: Cells<Group>) -> Cells<Group> {
        let mut groups: BTreeMap<Group, Parts> = BTreeMap::new();
        let mut others = Parts::new();
        for ((group, pattern), cell) in cells {
            add(&mut others, pattern, cell.clone());
            groups.entry(group).or_default().insert(pattern, cell);
        }
        self.drop_idle(now, &groups);
        self.take_new(now, &groups);
        let mut series = Cells::new();
        others = difference(&others, &self.dropped);
        for (group, shown) in &self.shown {
            let own = difference(&groups[group], &shown.base);
            others = difference(&others, &own);
            for (pattern, cell) in own {
                add(&mut series, (group.clone(), pattern), cell);
            }
        }
        for (pattern, cell) in others {
            add(&mut series, (Group::OTHER, pattern), cell);
        }
        self.before = groups;
        series
    }
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;
    use crate::StageSet;
    use crate::model::group::KeyPart;
    use crate::testing::snapshot::cell;

    fn group(number: u32) -> Group {
        match number {
            0 => Group::OTHER,
            n => Group(vec![KeyPart::Cgroup(n.into())]),
        }
    }

    fn cells(counts: &BTreeMap<u32, u64>) -> Cells<Group> {
        let all = counts.iter().map(|(number, count)| {
            let commands = vec![&[100][..]; *count as usize];
            ((group(*number), 0), cell(StageSet::Total, 0, &commands))
        });
        all.collect()
    }

    fn count(series: &Cells<Group>, number: u32) -> Option<u64> {
        series.get(&(group(number), 0)).map(Cell::commands)
    }

    #[test]
    fn a_group_that_does_nothing_for_long_loses_its_series_and_the_others_do_not_jump() {
        let mut all = GroupSeries::new(1, Duration::from_secs(10));
        let mut counts = BTreeMap::from([(1, 5), (2, 3)]);
        let at = Duration::from_secs;
        let series = all.update(at(0), cells(&counts));
        assert_eq!((count(&series, 1), count(&series, 0)), (Some(5), Some(3)));
        counts.insert(2, 9);
        let series = all.update(at(5), cells(&counts));
        assert_eq!((count(&series, 1), count(&series, 0)), (Some(5), Some(9)));
        counts.insert(2, 10);
        let series = all.update(at(11), cells(&counts));
        assert_eq!(count(&series, 1), None);
        // the second has a series now, from its last commands on
        assert_eq!((count(&series, 2), count(&series, 0)), (Some(1), Some(9)));
        // it comes again
        counts.insert(1, 7);
        let series = all.update(at(12), cells(&counts));
        assert_eq!((count(&series, 1), count(&series, 0)), (None, Some(11)));
    }

    proptest! {
        #[test]
        fn counters_only_grow_and_no_more_is_shown_than_was_counted(
            steps in vec((vec((0..9_u32, 0..4_u64), 0..6), 0..8_u64), 1..30), most in 0..4_usize,
        ) {
            let mut all = GroupSeries::new(most, Duration::from_secs(10));
            let (mut counts, mut now) = (BTreeMap::new(), 0);
            let mut last: Cells<Group> = Cells::new();
            for (growth, seconds) in steps {
                now += seconds;
                for (number, more) in growth {
                    *counts.entry(number).or_default() += more;
                }
                let series = all.update(Duration::from_secs(now), cells(&counts));
                let shown = series.keys().filter(|(group, _)| !group.is_other());
                prop_assert!(shown.count() <= most);
                let total: u64 = series.values().map(Cell::commands).sum();
                prop_assert!(total <= counts.values().sum());
                for (key, cell) in &series {
                    let before = last.get(key).map_or(0, Cell::commands);
                    prop_assert!(cell.commands() >= before, "{key:?}");
                }
                last = series;
            }
        }
    }
}
