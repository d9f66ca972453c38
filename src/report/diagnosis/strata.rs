// SPDX-License-Identifier: MIT OR Apache-2.0
//! Sums and quantiles of the commands of each stratum.

use std::collections::BTreeMap;

use crate::model::stratum::Stratum;

use super::command::Commands;
use super::stages::Stages;

/// The commands of a stratum.
#[derive(Clone, Debug)]
pub struct StratumFacts {
    /// The stratum.
    pub stratum: Stratum,
    /// Commands; an estimate, if not all are in memory.
    pub commands: u64,
    /// Sum of their times in nanoseconds, likewise.
    pub total_ns: u64,
    /// Median and 99 % quantile of their times in nanoseconds.
    pub p50_ns: u64,
    /// 99 % quantile.
    pub p99_ns: u64,
    /// Time by merged stages, in nanoseconds, likewise.
    pub stages: Vec<(Stages, u64)>,
}

/// The value of this quantile of sorted values.
fn quantile(sorted: &[u64], q: f64) -> u64 {
    let at = (sorted.len() as f64 * q).ceil() as usize;
    sorted.get(at.max(1) - 1).copied().unwrap_or(0)
}

/// Times of the commands of a stratum.
#[derive(Default)]
struct Times {
    weight: u64,
    totals: Vec<u64>,
    stages: Vec<(Stages, u64)>,
}

/// The strata of these commands, those with most time first.
pub fn strata(commands: &Commands) -> Vec<StratumFacts> {
    let mut by_stratum: BTreeMap<Stratum, Times> = BTreeMap::new();
    for command in &commands.kept {
        let Times {
            weight,
            totals,
            stages,
        } = by_stratum.entry(command.stratum).or_default();
        // the same for all commands of a stratum
        *weight = commands.weight(command);
        totals.push(command.total());
        for (run, ns) in command.runs() {
            match stages.iter_mut().find(|(found, _)| *found == run) {
                Some((_, sum)) => *sum = sum.saturating_add(ns),
                None => stages.push((run, ns)),
            }
        }
    }
    let facts = by_stratum.into_iter().map(|(stratum, times)| {
        let Times {
            weight,
            mut totals,
            stages,
        } = times;
        totals.sort_unstable();
        let stages = stages
            .into_iter()
            .map(|(run, ns)| (run, ns.saturating_mul(weight)));
        StratumFacts {
            stratum,
            commands: totals.len() as u64 * weight,
            total_ns: {
                let all = totals.iter().fold(0_u64, |sum, ns| sum.saturating_add(*ns));
                all.saturating_mul(weight)
            },
            p50_ns: quantile(&totals, 0.5),
            p99_ns: quantile(&totals, 0.99),
            stages: stages.collect(),
        }
    });
    let mut all: Vec<StratumFacts> = facts.collect();
    all.sort_by_key(|s| std::cmp::Reverse(s.total_ns));
    all
}
