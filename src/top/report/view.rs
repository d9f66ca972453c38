// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the rows of `top` have in common: a disk and an opcode, or a group. The groups of a run with
//! several keys can be shown by all of them, and by each.

use std::iter::once;
use std::time::Duration;

use crate::model::group::{By, Group, KeyPart};
use crate::model::ids::RowKey;
use crate::model::report::groups::{cells_of, rows_of};
use crate::model::report::latency::{RowReport, rows};
use crate::model::snapshot::{Cells, Snapshot, add};
use crate::model::stage::StageSet;

/// What the commands of a row have in common.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum TopKey {
    /// Controller, namespace, opcode.
    Row(RowKey),
    /// A group.
    Group(Group),
}

impl TopKey {
    /// The controller, if all commands are of one.
    #[must_use]
    pub fn ctrl(&self) -> Option<u32> {
        match self {
            Self::Row(row) => Some(row.ctrl),
            Self::Group(group) => group.0.iter().find_map(|part| match part {
                KeyPart::Disk(ctrl, _) | KeyPart::Queue(ctrl, _) => Some(*ctrl),
                _ => None,
            }),
        }
    }
}

/// A way to group the commands of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct View {
    /// Its keys. Without any, the rows are disks and opcodes.
    pub keys: Vec<By>,
    /// Their places among the keys of the run.
    places: Vec<usize>,
}

impl View {
    /// The views of a run with these keys: by all of them, then by each.
    #[must_use]
    pub fn all(by: &[By]) -> Vec<Self> {
        let whole = Self { keys: by.to_vec(), places: (0..by.len()).collect() };
        let each = by
            .iter()
            .enumerate()
            .map(|(place, key)| Self { keys: vec![*key], places: vec![place] });
        let each = each.filter(|_| by.len() > 1);
        once(whole).chain(each).collect()
    }

    fn group(&self, group: &Group) -> Group {
        let parts = self.places.iter().filter_map(|at| group.0.get(*at).cloned());
        Group(parts.collect())
    }
}

/// The rows of an interval, by view.
#[must_use]
pub fn rows_by_view(
    interval: &Snapshot,
    by: &[By],
    stage_set: StageSet,
    covers: Duration,
) -> Vec<Vec<RowReport<TopKey>>> {
    if by.is_empty() {
        let rows = rows(interval, stage_set, None, covers).into_iter();
        return vec![rows.map(|row| row.map_key(TopKey::Row)).collect()];
    }
    let cells = cells_of(interval, by);
    let of_view = |view: View| {
        let mut some = Cells::new();
        for ((group, pattern), cell) in &cells {
            add(&mut some, (view.group(group), *pattern), cell.clone());
        }
        let rows = rows_of(&some, stage_set, None, covers).into_iter();
        let rows = rows.filter(|row| row.count > 0);
        rows.map(|row| row.map_key(TopKey::Group)).collect()
    };
    View::all(by).into_iter().map(of_view).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::snapshot::cell;

    #[test]
    fn every_view_has_all_commands() {
        let by = [By::Process, By::Cpu];
        let mut snapshot = Snapshot::default();
        let groups = [
            (vec![KeyPart::Process(1), KeyPart::Cpu(0)], 2),
            (vec![KeyPart::Process(1), KeyPart::Cpu(1)], 3),
            (vec![KeyPart::Process(2), KeyPart::Cpu(1)], 4),
            (vec![], 5),
        ];
        for (parts, commands) in groups {
            let cell = cell(StageSet::Total, 0, &vec![&[100][..]; commands]);
            snapshot.groups.insert((Group(parts), 0), cell);
        }
        let second = Duration::from_secs(1);
        let views = rows_by_view(&snapshot, &by, StageSet::Total, second);
        let counts: Vec<Vec<u64>> =
            views.iter().map(|rows| rows.iter().map(|row| row.count).collect()).collect();
        assert_eq!(counts, [vec![5, 2, 3, 4], vec![5, 5, 4], vec![5, 2, 7]]);
        let keys: Vec<_> = View::all(&by).into_iter().map(|view| view.keys).collect();
        assert_eq!(keys, [vec![By::Process, By::Cpu], vec![By::Process], vec![By::Cpu]]);
        assert_eq!(View::all(&by[..1]).len(), 1);
        assert_eq!(View::all(&[]).len(), 1);
    }
}
