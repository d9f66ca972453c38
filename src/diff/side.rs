// SPDX-License-Identifier: MIT OR Apache-2.0
//! One side of a comparison: the recordings of it, counted by stratum, stage and slice of time.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::model::activity::{Activity, TagWaits};
use crate::model::command_class::{BlockSizes, CommandClass};
use crate::model::event::Event;
use crate::model::finished::{Finished, Intervals};
use crate::model::ids::NamespaceId;
use crate::model::quantiles::Quantiles;
use crate::model::stage::{Run, StageSet};
use crate::stats::slices::Slices;

/// A measured interval of commands: a stage, merged stages, or the total.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Interval {
    /// Totals come after the stages.
    pub is_total: bool,
    /// The stages that it covers.
    pub run: Run,
}

/// Most strata of a recording.
const MOST_STRATA: usize = 2048;

/// Values by row and slice.
pub(super) type Rows = Slices<(CommandClass, Interval)>;

/// The load that a stratum had.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Load {
    /// Commands.
    pub commands: u64,
    /// Sum of the latencies that were measured, in nanoseconds.
    pub latency_ns: u128,
    /// The time, in nanoseconds.
    pub covers_ns: u128,
}

impl Load {
    /// Commands per second.
    pub fn iops(&self) -> f64 {
        self.commands as f64 * 1e9 / self.covers_ns.max(1) as f64
    }

    /// Mean number of commands in flight: arrival rate times latency (Little's law).
    pub fn in_flight(&self) -> f64 {
        self.latency_ns as f64 / self.covers_ns.max(1) as f64
    }

    /// Adds the load of other commands in the same time.
    pub(super) const fn add(&mut self, other: &Self) {
        self.commands += other.commands;
        self.latency_ns += other.latency_ns;
        self.covers_ns = other.covers_ns;
    }
}

/// A recording, counted.
#[derive(Clone, Debug, Default)]
pub struct Counted {
    /// Values by row and slice.
    pub slices: Rows,
    loads: BTreeMap<CommandClass, (u64, u128)>,
    /// All values by row.
    values: BTreeMap<(CommandClass, Interval), Quantiles>,
    /// Waits before the request; `None`: not observed.
    pub waits: Option<Vec<TagWaits>>,
    covers: Duration,
}

impl Counted {
    /// Counts a command.
    pub fn command(&mut self, stratum: CommandClass, latency_ns: u64) {
        let (commands, sum_ns) = self.loads.entry(stratum).or_default();
        *commands += 1;
        *sum_ns += u128::from(latency_ns);
    }

    /// Counts an interval of a command, at the time of its completion.
    pub fn interval(&mut self, stratum: CommandClass, interval: Interval, at_ns: u64, ns: u64) {
        self.slices.record((stratum, interval), at_ns, ns);
        let row = self.values.entry((stratum, interval)).or_default();
        row.record(ns);
    }

    /// All values of a row.
    pub fn values(&self, stratum: CommandClass, interval: Interval) -> Option<&Quantiles> {
        self.values.get(&(stratum, interval))
    }

    /// Ends the recording, which covers this time.
    #[must_use]
    pub fn covering(self, covers: Duration) -> Self {
        Self { covers, ..self }
    }
}

/// Counts the events of a recording.
#[derive(Clone, Debug)]
pub struct Counter {
    stage_set: StageSet,
    block_sizes: BlockSizes,
    /// The controllers to count, with the numbers to count them under; `None`: all, under their own.
    ctrls: Option<BTreeMap<u32, u32>>,
    counted: Counted,
    /// The first reading of the activity, and the last.
    readings: Option<(Activity, Activity)>,
    /// There are more strata than are counted.
    crowded: bool,
}

impl Counter {
    /// A counter for these stages. `ctrls` has the controllers to count, and the number to count each
    /// under: that of the other side. Without it, all are counted under their own.
    pub fn new(stage_set: StageSet, ctrls: Option<BTreeMap<u32, u32>>) -> Self {
        Self {
            stage_set,
            block_sizes: BlockSizes::default(),
            ctrls,
            counted: Counted::default(),
            readings: None,
            crowded: false,
        }
    }

    /// Takes in a reading of the activity.
    pub fn activity(&mut self, activity: Activity) {
        match &mut self.readings {
            Some((_, last)) => *last = activity,
            None => self.readings = Some((activity.clone(), activity)),
        }
    }

    /// The waits between the first reading and the last, under the numbers of the controllers.
    fn waits(&self) -> Option<Vec<TagWaits>> {
        let (first, last) = self.readings.as_ref()?;
        let mut all = last.since(first).waits?;
        if let Some(ctrls) = &self.ctrls {
            all.retain_mut(|waits| {
                let number = ctrls.get(&waits.ctrl);
                waits.ctrl = number.copied().unwrap_or_default();
                number.is_some()
            });
        }
        Some(all)
    }

    /// Takes in sizes of logical blocks.
    pub fn block_sizes(&mut self, sizes: impl IntoIterator<Item = (NamespaceId, u32)>) {
        self.block_sizes.extend(sizes);
    }

    /// Whether it has more kinds of commands than can be compared. Those were not counted.
    pub const fn is_crowded(&self) -> bool {
        self.crowded
    }

    /// Counts an event, if it is a finished command of these controllers. Returns whether it is.
    pub fn add(&mut self, event: &Event) -> bool {
        let Some(command) = Finished::of(event) else {
            return false;
        };
        // the slices do not depend on the controllers
        self.counted.slices.reach(event.at_ns);
        let mut stratum = self.block_sizes.stratum(command.id, command.submission);
        if let Some(ctrls) = &self.ctrls {
            let Some(number) = ctrls.get(&stratum.ctrl) else {
                return false;
            };
            stratum.ctrl = *number;
        }
        let loads = &self.counted.loads;
        if loads.len() >= MOST_STRATA && !loads.contains_key(&stratum) {
            self.crowded = true;
            return false;
        }
        let latency = command.latency_ns.unwrap_or(0);
        self.counted.command(stratum, latency);
        let Intervals { stages, total } = command.intervals(self.stage_set);
        for (is_total, segments) in [(false, stages.as_slice()), (true, total.as_slice())] {
            for segment in segments {
                let run = segment.run;
                let interval = Interval { is_total, run };
                let at_ns = event.at_ns;
                self.counted.interval(stratum, interval, at_ns, segment.ns);
            }
        }
        true
    }

    /// Ends the recording, which covers this time.
    pub fn finish(mut self, covers: Duration) -> Counted {
        self.counted.waits = self.waits();
        self.counted.covering(covers)
    }
}

/// The recordings of a side.
#[derive(Clone, Debug, Default)]
pub struct Side {
    /// At least one.
    pub recordings: Vec<Counted>,
}

impl Side {
    /// The strata and their loads, over all recordings.
    pub fn loads(&self) -> BTreeMap<CommandClass, Load> {
        let covers_ns = self.recordings.iter().map(|r| r.covers.as_nanos()).sum();
        let mut all: BTreeMap<CommandClass, Load> = BTreeMap::new();
        for (stratum, (commands, latency_ns)) in self.recordings.iter().flat_map(|r| &r.loads) {
            let load = all.entry(*stratum).or_default();
            load.commands += commands;
            load.latency_ns += latency_ns;
            load.covers_ns = covers_ns;
        }
        all
    }

    /// All values of these strata, in all recordings.
    pub fn values(&self, strata: &[CommandClass], interval: Interval) -> Quantiles {
        let mut all = Quantiles::new();
        for recording in &self.recordings {
            let of = |stratum: &CommandClass| recording.values(*stratum, interval);
            strata.iter().filter_map(of).for_each(|one| all.merge(one));
        }
        all
    }

    /// Waits before the request by namespace; `None` if a recording lacks them.
    pub fn waits(&self) -> Option<BTreeMap<NamespaceId, TagWaits>> {
        let mut sums: BTreeMap<NamespaceId, TagWaits> = BTreeMap::new();
        for recording in &self.recordings {
            for waits in recording.waits.as_ref()? {
                let key = NamespaceId::new(waits.ctrl, waits.nsid);
                let sum = sums.entry(key).or_insert(TagWaits {
                    ctrl: waits.ctrl,
                    nsid: waits.nsid,
                    ..TagWaits::default()
                });
                sum.requests += waits.requests;
                sum.waited += waits.waited;
                sum.sum_ns += waits.sum_ns;
            }
        }
        Some(sums)
    }

    /// Numbers of slices of the recordings.
    pub fn slices(&self) -> Vec<usize> {
        self.recordings.iter().map(|r| r.slices.count()).collect()
    }
}
