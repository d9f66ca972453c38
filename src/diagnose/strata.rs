// SPDX-License-Identifier: MIT OR Apache-2.0
//! Sums and quantiles of the commands of each stratum.

use std::collections::BTreeMap;

use crate::model::command_class::CommandClass;
use crate::model::histogram::Histogram;

use super::command::Commands;
use super::stages::Stages;

/// The commands of a stratum.
#[derive(Clone, Debug)]
pub struct ClassFacts {
    /// The stratum.
    pub stratum: CommandClass,
    /// Commands; an estimate, if not all are in memory.
    pub commands: u64,
    /// Sum of their times in nanoseconds, likewise.
    pub total_ns: u64,
    /// Median and 99 % quantile of their times in nanoseconds.
    pub p50_ns: u64,
    /// 99 % quantile.
    pub p99_ns: u64,
    /// Median of their times from the request on.
    pub begun_p50_ns: u64,
    /// Whether bios were observed: times contain the waits before the request.
    pub has_waits: bool,
    /// Time by merged stages, in nanoseconds, likewise.
    pub stages: Vec<(Stages, u64)>,
}

/// Times of the commands of a stratum.
#[derive(Default)]
struct Times {
    weight: u64,
    totals: Histogram,
    begun: Histogram,
    has_waits: bool,
    stages: Vec<(Stages, u64)>,
}

/// The strata of these commands, those with most time first.
pub fn strata(commands: &Commands) -> Vec<ClassFacts> {
    let mut by_stratum: BTreeMap<CommandClass, Times> = BTreeMap::new();
    for command in &commands.kept {
        let Times { weight, totals, begun, has_waits, stages } =
            by_stratum.entry(command.stratum).or_default();
        // the same for all commands of a stratum
        *weight = commands.weight(command);
        totals.record(command.total());
        begun.record(command.since_begin());
        *has_waits |= command.has_waits();
        for (run, ns) in command.runs() {
            match stages.iter_mut().find(|(found, _)| *found == run) {
                Some((_, sum)) => *sum = sum.saturating_add(ns),
                None => stages.push((run, ns)),
            }
        }
    }
    let facts = by_stratum.into_iter().map(|(stratum, times)| {
        let Times { weight, totals, begun, has_waits, stages } = times;
        let percentile = |hist: &Histogram, p| hist.percentile(p).unwrap_or(0);
        let stages = stages.into_iter().map(|(run, ns)| (run, ns.saturating_mul(weight)));
        ClassFacts {
            stratum,
            commands: totals.count().saturating_mul(weight),
            total_ns: u64::try_from(totals.sum()).unwrap_or(u64::MAX).saturating_mul(weight),
            p50_ns: percentile(&totals, 50.0),
            p99_ns: percentile(&totals, 99.0),
            begun_p50_ns: percentile(&begun, 50.0),
            has_waits,
            stages: stages.collect(),
        }
    });
    let mut all: Vec<ClassFacts> = facts.collect();
    all.sort_by_key(|s| std::cmp::Reverse(s.total_ns));
    all
}
