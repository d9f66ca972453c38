// SPDX-License-Identifier: MIT OR Apache-2.0
//! Metrics for Prometheus: what a session has counted so far, as text. Pure: model data in, text out.
//!
//! The metrics are defined here (docs/serve.md lists them); [`mod@collect`] fills them, and
//! [`mod@encode`] writes them.
//!
//! The encoder is our own: the crate prometheus-client writes OpenMetrics only, which a textfile cannot
//! be, and bucket bounds and sums must be exact decimal numbers.

pub use self::collect::{Reading, collect};
pub use self::encode::encode;
use crate::model::histogram::Histogram;

pub mod collect;
pub mod encode;

/// Exponent of the lowest bound: 2^9 - 1 ns.
const FIRST_EXP: u32 = 9;
/// Number of bounds. The last one is 2^35 - 1 ns (34 s), longer than the default timeout of the driver.
pub const BOUNDS: usize = 27;

/// The largest latency that each bucket counts, in nanoseconds. Latencies are whole nanoseconds, and
/// a bucket of [`Histogram`] begins at each power of two: a bound is one less.
pub const LE_NS: [u64; BOUNDS] = bounds();

const fn bounds() -> [u64; BOUNDS] {
    let mut all = [0; BOUNDS];
    let mut n = 0;
    while n < BOUNDS {
        all[n] = (1 << (FIRST_EXP + n as u32)) - 1;
        n += 1;
    }
    all
}

/// Number of samples up to and including each bound of [`LE_NS`].
pub fn cumulative(hist: &Histogram) -> [u64; BOUNDS] {
    let mut counts = [0_u64; BOUNDS];
    for bucket in hist.iter() {
        let bound = LE_NS.partition_point(|le| *le < bucket.last);
        if let Some(first) = counts.get_mut(bound) {
            *first = first.saturating_add(bucket.count);
        }
    }
    let mut sum = 0_u64;
    counts.map(|count| {
        sum = sum.saturating_add(count);
        sum
    })
}

/// Type of a metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MetricKind {
    /// A number that only grows.
    Counter,
    /// A number that grows and falls.
    Gauge,
    /// Counts by bucket, with sum and count.
    Histogram,
}

/// One metric.
#[derive(Debug, PartialEq, Eq)]
pub struct Metric {
    /// The name in queries; histograms add `_bucket`, `_sum` and `_count`.
    pub name: &'static str,
    /// Its type.
    pub kind: MetricKind,
    /// The names of its labels.
    pub labels: &'static [&'static str],
    /// What it is.
    pub help: &'static str,
}

impl MetricKind {
    /// The name of the type.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Counter => "counter",
            Self::Gauge => "gauge",
            Self::Histogram => "histogram",
        }
    }
}

const ROW: &[&str] = &["controller", "nsid", "queue", "opcode"];

const GROUP: &[&str] = &["cgroup", "container", "pod", "name"];

macro_rules! metrics {
    ($($id:ident $name:literal $kind:ident $labels:expr, $help:literal;)*) => {
        $(
            #[doc = $help]
            pub const $id: Metric = Metric {
                name: concat!("nvme_deep_", $name),
                kind: MetricKind::$kind,
                labels: $labels,
                help: $help,
            };
        )*
        /// All metrics, in the order of the output.
        pub const ALL: &[&Metric] = &[$(&$id),*];
    };
}

metrics! {
    DURATION "command_duration_seconds" Histogram ROW,
        "Time from the first to the last observed point of a command (see nvme_deep_session_info).";
    STAGES "stage_duration_seconds" Histogram
        &["controller", "nsid", "queue", "opcode", "stage"],
        "Time that commands spent in a stage; stages whose boundary was not observed are joined by +.";
    COMMANDS "commands_total" Counter ROW, "Commands completed.";
    BYTES "transferred_bytes_total" Counter ROW, "Bytes transferred by completed commands.";
    UNMEASURED "unmeasured_commands_total" Counter ROW,
        "Of the commands completed, those without a duration, because a point was not observed.";
    GROUP_DURATION "group_command_duration_seconds" Histogram GROUP,
        "With --by: time from the first to the last observed point of a command, by cgroup or container.";
    GROUP_STAGES "group_stage_duration_seconds" Histogram
        &["cgroup", "container", "pod", "name", "stage"],
        "With --by: time that commands spent in a stage, by cgroup or container.";
    GROUP_COMMANDS "group_commands_total" Counter GROUP,
        "With --by: commands completed, by cgroup or container.";
    GROUP_BYTES "group_transferred_bytes_total" Counter GROUP,
        "With --by: bytes transferred by completed commands, by cgroup or container.";
    FAILED "failed_commands_total" Counter &["controller", "type"],
        "Commands completed with a status other than success, by status code type.";
    RETRIED "retried_commands_total" Counter &["controller"],
        "Commands completed that were retries of failed ones.";
    IN_FLIGHT "in_flight_commands" Gauge &["controller"],
        "Commands that the driver has set up and that have not completed.";
    OBSERVED "observed_commands_total" Counter &[],
        "Commands that the driver has set up and the filters accepted.";
    LOST "lost_commands_total" Counter &["reason"],
        "Commands that are in no row of nvme_deep_commands_total.";
    FEWER "merged_commands_total" Counter &[],
        "Commands whose stages were merged although their points were observed, because few rows were left.";
    RECOVERED "recovered_points_total" Counter &["point"],
        "Setups and completions that the kernel skipped and that were found later.";
    DISCARDED "discarded_points_total" Counter &["reason"],
        "Observations of points that were not used, because they were late, unsure or lost.";
    SKIPPED "skipped_program_runs_total" Counter &[],
        "Runs of the BPF programs that the kernel skipped.";
    SKIPPED_KNOWN "skipped_program_runs_known" Gauge &[],
        "1 if the kernel counts all skipped runs that can lose commands, else 0.";
    FILTERED "filtered_commands_total" Counter &[], "Commands that a filter rejected.";
    REQUEUES "requeues_total" Counter &[],
        "Requeues of NVMe requests by blk-mq: retries, and commands taken back before the device.";
    TIMEOUTS "timeouts_total" Counter &[],
        "Timeouts of commands in the PCIe driver; a command that stays away has several.";
    CANCELLED "cancelled_commands_total" Counter &[],
        "Commands that the driver cancelled, because their controller was reset or removed.";
    TAKEN_BACK "taken_back_commands_total" Counter &[],
        "Commands set up again without having completed.";
    ORPHANS "orphan_completions_total" Counter &[],
        "Completions of commands that were set up before the session began.";
    ACCURACY "accuracy" Gauge &["state"],
        "1 for the state of the ledger: exact, unknown (the kernel does not count all misses), degraded.";
    START "session_start_time_seconds" Gauge &[],
        "Unix time at which the session, and all counters, started.";
    SESSION "session_info" Gauge &["stage_set", "first_point", "last_point"],
        "The stages that are measured, and the points between which commands are timed.";
    BUILD "build_info" Gauge &["version"], "Version of nvme-deep.";
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::histogram;
    use proptest::collection::vec;
    use proptest::prelude::*;

    #[test]
    fn each_bound_is_the_end_of_a_bucket() {
        for le in LE_NS {
            let (_, end) = histogram::bounds(histogram::index(le));
            assert_eq!(end, le + 1);
        }
        assert_eq!((LE_NS[0], LE_NS[BOUNDS - 1]), (511, 34_359_738_367));
    }

    proptest! {
        #[test]
        fn counts_are_exact(
            samples in vec(prop_oneof![any::<u64>(), 0..1_u64 << 37, 500..520_u64, 1000..2100_u64], 0..200)
        ) {
            let mut hist = Histogram::new();
            samples.iter().for_each(|ns| hist.record(*ns));
            let counts = cumulative(&hist);
            for (le, count) in LE_NS.iter().zip(counts) {
                let exact = samples.iter().filter(|ns| *ns <= le).count() as u64;
                prop_assert_eq!(count, exact, "{}", le);
            }
        }
    }
}
