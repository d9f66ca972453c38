// SPDX-License-Identifier: MIT OR Apache-2.0
//! What is compared of the load: the rate of commands, and the waits before the request. Nothing is claimed of
//! it, because it depends on what asks for the commands.

use super::compare::{MIN_SLICES, SEEDS};
use crate::diff::report::{Both, Side, WaitChange};
use crate::model::command_class::CommandClass;
use crate::model::ids::NamespaceId;
use crate::stats::bootstrap::Resamples;
use crate::stats::histogram::FineHistogram;
use crate::stats::ratio::Ratio;
use crate::stats::sample::{STATISTICS, Sample};

/// The mean is the last statistic.
const MEAN: usize = STATISTICS.len() - 1;

/// Rates are in thousandths of a command per second: slices have integers.
const MILLI: u128 = 1000;

/// Resamples of all slices that are whole: the last one of each recording is not.
pub fn resamples(sides: Both<&Side>, paired: bool) -> Both<Resamples> {
    let whole = |side: &Side| -> Vec<usize> {
        let slices = side.slices().into_iter();
        slices.map(|n| n.saturating_sub(1)).collect()
    };
    Both {
        a: Resamples::new(&whole(sides.a), SEEDS.a),
        b: Resamples::new(&whole(sides.b), if paired { SEEDS.a } else { SEEDS.b }),
    }
}

/// The rate of these strata in each slice.
fn rates(side: &Side, strata: &[CommandClass]) -> Sample {
    let of_recording = |slices: &super::side::Rows| -> Vec<FineHistogram> {
        let mut counts = vec![0_u64; slices.count().saturating_sub(1)];
        let rows = slices.rows();
        for row in rows.filter(|(stratum, i)| i.is_total && strata.contains(stratum)) {
            for (count, one) in counts.iter_mut().zip(slices.of(&row)) {
                *count += one.count();
            }
        }
        let rate = |count: u64| {
            let width = u128::from(slices.width_ns().max(1));
            let rate = u128::from(count) * 1_000_000_000 * MILLI / width;
            let mut one = FineHistogram::default();
            one.record(u64::try_from(rate).unwrap_or(u64::MAX));
            one
        };
        counts.into_iter().map(rate).collect()
    };
    let all = side.recordings.iter().map(|r| of_recording(&r.slices));
    let all: Vec<Vec<FineHistogram>> = all.collect();
    let borrowed: Vec<_> = all.iter().map(|h| (h.as_slice(), h.len())).collect();
    Sample::new(&borrowed)
}

/// The ratio of the rates of these strata, if there are enough slices.
pub fn iops(
    sides: Both<&Side>,
    strata: &[CommandClass],
    resamples: &Both<Resamples>,
    paired: bool,
) -> Option<Ratio> {
    let samples = sides.map(|side| rates(side, strata));
    if samples.a.slices().min(samples.b.slices()) < MIN_SLICES {
        return None;
    }
    let a = samples.a.spread(&resamples.a);
    let b = samples.b.spread(&resamples.b);
    let spreads = if paired { vec![b.minus(&a)] } else { vec![a, b] };
    let parts = spreads.iter().flat_map(|s| s.variances(MEAN));
    let means = samples.map(|sample| sample.values()[MEAN]);
    Some(Ratio::new(means.a, means.b, parts))
}

/// Waits before the request of the disks that both sides have, if both observed them.
pub fn waits(sides: Both<&Side>) -> Vec<WaitChange> {
    let Both { a: Some(a), b: Some(b) } = sides.map(Side::waits) else {
        return Vec::new();
    };
    let both = a.into_iter().filter_map(|(key, a)| {
        let waits = Both { a, b: *b.get(&key)? };
        let NamespaceId { ctrl, nsid } = key;
        Some(WaitChange { ctrl, nsid, waits })
    });
    both.collect()
}
