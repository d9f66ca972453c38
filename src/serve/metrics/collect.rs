// SPDX-License-Identifier: MIT OR Apache-2.0
//! From the rows and the ledger of a session to metrics with values.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::model::counters::Failures;
use crate::model::group::{Group, GroupNames};
use crate::model::histogram::Histogram;
use crate::model::ids::RowKey;
use crate::model::ledger::{Accuracy, Ledger};
use crate::model::report::groups::labels as group_labels;
use crate::model::report::latency::RowReport;
use crate::model::stage::StageSet;
use crate::nvme::status::StatusType;
use crate::serve::metrics;
use crate::serve::metrics::{BOUNDS, Metric, cumulative};

/// Functions and tracepoints of the catalog of hooks.
const REQUEUE: [&str; 2] = ["block_rq_requeue", "blk_mq_requeue_request"];
const TIMEOUT: [&str; 1] = ["nvme_timeout"];
const CANCEL: [&str; 1] = ["nvme_cancel_request"];

/// What a session has counted since its start.
#[derive(Clone, Copy, Debug)]
pub struct Reading<'a> {
    /// The stages that commands are divided into.
    pub stage_set: StageSet,
    /// By controller, namespace, opcode. Sizes are not split.
    pub rows: &'a [RowReport],
    /// By group: of a session that groups its commands, which are in no row.
    pub groups: &'a [RowReport<Group>],
    /// The names of these groups.
    pub names: &'a GroupNames,
    /// The ledger.
    pub ledger: &'a Ledger,
    /// Failed and retried commands by controller instance; empty if they are not counted.
    pub failures: &'a BTreeMap<u32, Failures>,
    /// Commands in flight by controller instance.
    pub in_flight: &'a BTreeMap<u32, u64>,
    /// Start of the session, since 1970.
    pub start: Duration,
    /// Version of the program.
    pub version: &'a str,
}

/// A value of a metric.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    /// A count.
    Count(u64),
    /// A time in nanoseconds, written in seconds.
    Nanos(u128),
    /// A histogram.
    Histogram {
        /// Samples up to each bound of [`crate::serve::metrics::LE_NS`].
        cumulative: Box<[u64; BOUNDS]>,
        /// All samples.
        count: u64,
        /// Their sum in nanoseconds.
        sum_ns: u128,
    },
}

/// A value, and its labels in the order of [`Metric::labels`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Series {
    /// The values of the labels.
    pub labels: Vec<String>,
    /// The value.
    pub value: Value,
}

/// A metric with its values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Family {
    /// The metric.
    pub metric: &'static Metric,
    /// Its values.
    pub series: Vec<Series>,
}

fn histogram(hist: &Histogram) -> Value {
    Value::Histogram {
        cumulative: Box::new(cumulative(hist)),
        count: hist.count(),
        sum_ns: hist.sum(),
    }
}

/// `controller`, `nsid`, `queue`, `opcode` of a row.
fn labels(key: &RowKey) -> Vec<String> {
    let RowKey { ctrl, nsid, opcode, .. } = key;
    vec![format!("nvme{ctrl}"), nsid.to_string(), opcode.queue.to_string(), opcode.name_or_code()]
}

fn of_rows(rows: &[RowReport], value: impl Fn(&RowReport) -> Value) -> Vec<Series> {
    let series = rows.iter().map(|row| Series { labels: labels(&row.key), value: value(row) });
    series.collect()
}

fn stages<K>(rows: &[RowReport<K>], labels: impl Fn(&K) -> Vec<String>) -> Vec<Series> {
    let of_row = |row: &RowReport<K>| -> Vec<Series> {
        let series = row.stages.iter().map(|stage| Series {
            labels: [labels(&row.key), vec![stage.name.clone()]].concat(),
            value: histogram(&stage.hist),
        });
        series.collect()
    };
    rows.iter().flat_map(of_row).collect()
}

/// The metrics of groups.
fn groups(reading: &Reading<'_>) -> [Family; 4] {
    let labels = |group: &Group| -> Vec<String> {
        let labels = group_labels(group, reading.names);
        labels.map(|label| label.to_string()).into()
    };
    let of = |value: &dyn Fn(&RowReport<Group>) -> Value| -> Vec<Series> {
        let series =
            reading.groups.iter().map(|row| Series { labels: labels(&row.key), value: value(row) });
        series.collect()
    };
    [
        (&metrics::GROUP_DURATION, of(&|r| histogram(&r.total))),
        (&metrics::GROUP_STAGES, stages(reading.groups, labels)),
        (&metrics::GROUP_COMMANDS, of(&|r| Value::Count(r.count))),
        (&metrics::GROUP_BYTES, of(&|r| Value::Count(r.bytes))),
    ]
    .map(|(metric, series)| Family { metric, series })
}

/// Values with one label each.
fn by<const N: usize>(values: [(&str, u64); N]) -> Vec<Series> {
    let series = values.map(|(label, count)| Series {
        labels: vec![label.to_owned()],
        value: Value::Count(count),
    });
    series.into()
}

/// A value without labels.
fn one(count: u64) -> Vec<Series> {
    vec![Series { labels: vec![], value: Value::Count(count) }]
}

fn info(labels: Vec<String>) -> Vec<Series> {
    vec![Series { labels, value: Value::Count(1) }]
}

/// Hits of the hooks on any of these functions and tracepoints. Without such a hook they are not
/// known, and the metric has no value.
fn hits(ledger: &Ledger, targets: &[&str]) -> Vec<Series> {
    let hooks = ledger.hooks.iter();
    let of = hooks.filter(|hook| targets.contains(&hook.target.as_str()));
    of.map(|hook| hook.hits).reduce(|a, b| a + b).map_or_else(Vec::new, one)
}

/// The values of the label `type`, and their numbers. Types that no specification uses are one.
fn type_counts(failures: &Failures) -> BTreeMap<&'static str, u64> {
    let mut counts = BTreeMap::new();
    for (kind, count) in failures.types() {
        let label = match kind {
            StatusType::Generic => "generic",
            StatusType::CommandSpecific => "command_specific",
            StatusType::Media => "media",
            StatusType::Path => "path",
            StatusType::Reserved(_) => "reserved",
            StatusType::Vendor => "vendor",
        };
        *counts.entry(label).or_default() += count;
    }
    counts
}

fn failed(failures: &BTreeMap<u32, Failures>) -> Vec<Series> {
    let of_ctrl = |(ctrl, failures): (&u32, &Failures)| -> Vec<Series> {
        let counts = type_counts(failures).into_iter();
        let series = counts.map(|(label, count)| Series {
            labels: vec![format!("nvme{ctrl}"), label.to_owned()],
            value: Value::Count(count),
        });
        series.collect()
    };
    failures.iter().flat_map(of_ctrl).collect()
}

/// Counts with the label `controller`.
fn by_ctrl(counts: impl Iterator<Item = (u32, u64)>) -> Vec<Series> {
    let series = counts.map(|(ctrl, count)| Series {
        labels: vec![format!("nvme{ctrl}")],
        value: Value::Count(count),
    });
    series.collect()
}

fn losses(ledger: &Ledger) -> Vec<Family> {
    let lost = by([
        ("overwritten", ledger.overwritten),
        ("unattributed", ledger.unattributed),
        ("untracked", ledger.untracked),
        ("no_row", ledger.no_row),
    ]);
    let recovered =
        by([("setup_out", ledger.unseen_setups), ("complete", ledger.unseen_completions)]);
    let discarded = by([
        ("late_doorbell", ledger.late_doorbells),
        ("unsure_doorbell", ledger.unsure_doorbells),
        ("doorbell_list_full", ledger.doorbell_list_full),
        ("early_irq", ledger.early_irqs),
        ("out_of_order", ledger.negative_intervals),
        ("untrusted_start", ledger.discarded_starts),
    ]);
    let accuracy = ledger.accuracy();
    let degraded = matches!(accuracy, Accuracy::Degraded(_));
    let states = by([
        ("exact", u64::from(accuracy == Accuracy::Exact)),
        ("unknown", u64::from(accuracy == Accuracy::Unknown)),
        ("degraded", u64::from(degraded)),
    ]);
    [
        (&metrics::OBSERVED, one(ledger.seen)),
        (&metrics::LOST, lost),
        (&metrics::FEWER, one(ledger.fewer_points)),
        (&metrics::RECOVERED, recovered),
        (&metrics::DISCARDED, discarded),
        (&metrics::SKIPPED, one(ledger.recursion_misses)),
        (&metrics::SKIPPED_KNOWN, one(ledger.misses_known.into())),
        (&metrics::FILTERED, one(ledger.filtered)),
        (&metrics::REQUEUES, hits(ledger, &REQUEUE)),
        (&metrics::TIMEOUTS, hits(ledger, &TIMEOUT)),
        (&metrics::CANCELLED, hits(ledger, &CANCEL)),
        (&metrics::TAKEN_BACK, one(ledger.requeued)),
        (&metrics::ORPHANS, one(ledger.orphan_completions)),
        (&metrics::ACCURACY, states),
    ]
    .map(|(metric, series)| Family { metric, series })
    .into()
}

/// All metrics with their values. A metric without values is left out.
pub fn collect(reading: &Reading<'_>) -> Vec<Family> {
    let Reading { stage_set, rows, ledger, failures, in_flight, start, version, .. } = *reading;
    let in_flight = in_flight.iter().map(|(ctrl, count)| (*ctrl, *count));
    let retried = failures.iter().map(|(ctrl, f)| (*ctrl, f.retried));
    let session = [stage_set.name(), ledger.span.0.name(), ledger.span.1.name()];
    let start = Series { labels: vec![], value: Value::Nanos(start.as_nanos()) };
    let count = |n: u64| Value::Count(n);
    let mut families: Vec<Family> = [
        (&metrics::DURATION, of_rows(rows, |r| histogram(&r.total))),
        (&metrics::STAGES, stages(rows, labels)),
        (&metrics::COMMANDS, of_rows(rows, |r| count(r.count))),
        (&metrics::BYTES, of_rows(rows, |r| count(r.bytes))),
        (&metrics::UNMEASURED, of_rows(rows, |r| count(r.unmeasured))),
    ]
    .map(|(metric, series)| Family { metric, series })
    .into();
    families.extend(groups(reading));
    let of_ctrls = [
        (&metrics::FAILED, failed(failures)),
        (&metrics::RETRIED, by_ctrl(retried)),
        (&metrics::IN_FLIGHT, by_ctrl(in_flight)),
    ];
    families.extend(of_ctrls.map(|(metric, series)| Family { metric, series }));
    families.extend(losses(ledger));
    families.extend(
        [
            (&metrics::START, vec![start]),
            (&metrics::SESSION, info(session.map(str::to_owned).into())),
            (&metrics::BUILD, info(vec![version.to_owned()])),
        ]
        .map(|(metric, series)| Family { metric, series }),
    );
    families.retain(|family| !family.series.is_empty());
    families
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::probe::catalog::{CATALOG, Role};

    #[test]
    fn the_counted_hooks_match_the_catalog() {
        let targets = |role: Role| -> Vec<&str> {
            let hooks = CATALOG.iter().filter(|hook| hook.role == role);
            let mut targets: Vec<&str> = hooks.map(|hook| hook.target.name()).collect();
            targets.dedup();
            targets
        };
        assert_eq!(targets(Role::Requeue), REQUEUE);
        assert_eq!(targets(Role::Timeout), TIMEOUT);
        assert_eq!(targets(Role::Cancel), CANCEL);
    }

    #[test]
    fn commands_with_fewer_stages_are_counted_and_are_not_lost() {
        let ledger = Ledger { fewer_points: 7, ..Ledger::default() };
        let all = losses(&ledger);
        let of = |name: &str| {
            let family = all.iter().find(|f| f.metric.name == name);
            let series = family.unwrap().series.iter();
            series.map(|s| s.value.clone()).collect::<Vec<_>>()
        };
        assert_eq!(of("nvme_deep_merged_commands_total"), [Value::Count(7)]);
        assert!(of("nvme_deep_lost_commands_total").iter().all(|v| *v == Value::Count(0)));
    }
}
