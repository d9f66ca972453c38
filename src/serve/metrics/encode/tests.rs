// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests of the text: a snapshot, and properties of random readings.

use std::collections::BTreeMap;
use std::time::Duration;

use insta::assert_snapshot;

use super::super::Reading;
use super::*;
use crate::model::counters::Failures;
use crate::model::group::{Group, GroupNames};
use crate::model::ids::RowKey;
use crate::model::ledger::{HookLine, Ledger};
use crate::model::report::latency::{RowReport, rows};
use crate::model::snapshot::{Cell, Snapshot};
use crate::model::stage::StageSet;
use crate::nvme::opcode::{Opcode, QueueKind};
use crate::serve::metrics::collect;
use crate::testing::snapshot::{READS, cell};

/// Reads of nvme0, and an unnamed admin command of nvme1.
fn example(commands: &[&[u64]]) -> Vec<RowReport> {
    let mut snapshot = Snapshot::default();
    let full = 0b010_1001;
    let basic = StageSet::Basic;
    snapshot.cells.insert((READS, full), cell(basic, full, commands));
    let opcode = Opcode { queue: QueueKind::Admin, code: 0xc5 };
    let admin = RowKey { ctrl: 1, nsid: 0, opcode, class: 0 };
    snapshot.cells.insert((admin, full), Cell { unmeasured: 2, ..cell(basic, full, &[]) });
    rows(&snapshot, basic, None, Duration::from_secs(1))
}

fn hook(target: &'static str, hits: u64) -> HookLine {
    HookLine {
        point: None,
        kind: "fentry".into(),
        target: target.into(),
        hits,
        by_second: None,
        recursion_misses: 0,
        misses_known: true,
        may_stay_silent: None,
    }
}

/// A row as the groups without a series have it.
fn of_group(row: &RowReport) -> RowReport<Group> {
    RowReport {
        key: Group::OTHER,
        count: row.count,
        unmeasured: row.unmeasured,
        iops: row.iops,
        bytes: row.bytes,
        mb_per_s: row.mb_per_s,
        stages: row.stages.clone(),
        parts: Vec::new(),
        total: row.total.clone(),
        lat: Vec::new(),
    }
}

fn text(rows: &[RowReport]) -> String {
    let hooks = [("block_rq_requeue", 4), ("nvme_timeout", 2), ("nvme_cancel_request", 1)];
    let hooks = hooks.map(|(target, hits)| hook(target, hits)).into();
    let ledger = Ledger { seen: 9, no_row: 1, hooks, ..Ledger::default() };
    let failures = Failures { by_type: [2, 0, 6, 1, 0, 0, 0, 0], retried: 5 };
    let groups: Vec<_> = rows.iter().take(1).map(of_group).collect();
    let families = collect(&Reading {
        stage_set: StageSet::Basic,
        rows,
        groups: &groups,
        names: &GroupNames::default(),
        ledger: &ledger,
        failures: &BTreeMap::from([(0, failures)]),
        in_flight: &BTreeMap::from([(0, 3), (1, 0)]),
        start: Duration::new(1_700_000_000, 250_000_000),
        version: "1.2.3",
    });
    encode(&families)
}

const COMMANDS: [&[u64]; 3] =
    [&[511, 512, 1_000_000, 2_000], &[1, 2, 3, 4], &[1_023, 1_024, 40_000_000_000, 5]];

#[test]
fn the_text() {
    assert_snapshot!("text", text(&example(&COMMANDS)));
}

#[test]
fn values_of_labels_are_escaped() {
    assert_eq!(escape("a\\b\"c\nd"), "a\\\\b\\\"c\\nd");
}
