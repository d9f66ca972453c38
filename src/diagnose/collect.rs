// SPDX-License-Identifier: MIT OR Apache-2.0
//! Collects the facts of a run, event by event.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::model::activity::{Activity, Gap};
use crate::model::command_class::BlockSizes;
use crate::model::controller::ControllerInfo;
use crate::model::event::Event;
use crate::model::ids::NamespaceId;
use crate::model::ledger::Accuracy;
use crate::model::machine::{ControllerLogs, MachineInfo};
use crate::model::origin::Cgroups;
use crate::model::report::device_name::DeviceName;
use crate::model::stage::StageSet;
use crate::model::text::Text;
use crate::when::RunClock;

use super::command::Commands;
use super::expectation::Expectation;
use super::facts::{Facts, Span};
use super::gaps::{Gaps, Timed};
use super::incidents::Incidents;
use super::measure::TimeSlices;
use super::places::Places;
use super::rates::Rates;
use super::selection::Selection;
use super::strata::strata;
use super::stuck::Stuck;

/// Most controllers of which rates are kept.
const MOST_RATES: usize = 256;
/// Most gaps in memory; a machine with more is stolen from anyway.
const MOST_GAPS: usize = 100_000;

/// Collects the facts of a run.
#[derive(Debug, Default)]
pub struct Collector {
    block_sizes: BlockSizes,
    disks: BTreeMap<NamespaceId, DeviceName>,
    transports: BTreeMap<u32, Text>,
    commands: Commands,
    selection: Selection,
    stage_set: StageSet,
    rates: BTreeMap<u32, Rates>,
    incidents: Incidents,
    in_flight: Vec<Stuck>,
    logs: Option<Vec<(ControllerLogs, ControllerLogs)>>,
    machine: Option<MachineInfo>,
    /// The first reading and the last.
    readings: Option<(Activity, Activity)>,
    gaps: Vec<Gap>,
    timed: Timed,
    clock: RunClock,
    cgroups: Cgroups,
}

impl Collector {
    /// A collector with room for this many commands.
    pub fn at_most(commands: usize) -> Self {
        Self { commands: Commands::at_most(commands), ..Self::default() }
    }

    /// Takes in the controllers: names of disks, and sizes of logical blocks.
    pub fn controllers(&mut self, all: &[ControllerInfo]) {
        let sizes = all.iter().flat_map(ControllerInfo::block_sizes);
        self.block_sizes.extend(sizes);
        for controller in all {
            let disks = controller.disks.iter();
            let id = |nsid| NamespaceId::new(controller.instance, nsid);
            let names = disks.map(|d| (id(d.nsid), DeviceName::of(&d.name)));
            self.disks.extend(names);
            let transport = controller.transport.clone();
            if !transport.is_empty() {
                self.transports.insert(controller.instance, transport);
            }
        }
    }

    /// Takes in an event.
    pub fn event(&mut self, event: &Event) {
        if let Some(command) = self.commands.add(event, &self.block_sizes) {
            let is_known = self.rates.contains_key(&command.ctrl);
            if is_known || self.rates.len() < MOST_RATES {
                let rates = self.rates.entry(command.ctrl).or_default();
                rates.add(command);
            }
        }
        self.incidents.add(event);
    }

    /// Takes in options that left commands out of the run, as one text.
    pub fn selected_by(&mut self, options: &str) {
        self.selection.add(options);
    }

    /// Sets the start of the run, CLOCK_MONOTONIC nanoseconds.
    pub const fn began(&mut self, begin_ns: u64) {
        self.clock.begin_ns = begin_ns;
    }

    /// Sets the wall clock minus CLOCK_MONOTONIC. Later changes of the clock are not followed.
    pub fn wall_clock(&mut self, wall_ns: i64) {
        self.clock.wall_ns.get_or_insert(wall_ns);
    }

    /// Takes in the paths of cgroups.
    pub fn cgroups(&mut self, known: &Cgroups) {
        self.cgroups.clone_from(known);
    }

    /// Takes in the stages that were observed.
    pub fn observed(&mut self, stages: StageSet) {
        self.stage_set = stages;
    }

    /// Takes in the commands that are in flight after the run.
    pub fn in_flight(&mut self, stuck: Vec<Stuck>) {
        self.in_flight = stuck;
    }

    /// Takes in log pages of controllers: those before the run and those after it.
    pub fn logs(&mut self, logs: Vec<(ControllerLogs, ControllerLogs)>) {
        self.logs = Some(logs);
    }

    /// Takes in settings of the machine.
    pub fn machine(&mut self, machine: MachineInfo) {
        self.machine = Some(machine);
    }

    /// Takes in the activity up to a time.
    pub fn activity(&mut self, mut activity: Activity) {
        self.timed.add(&activity);
        let room = MOST_GAPS.saturating_sub(self.gaps.len());
        self.gaps.extend(activity.gaps.drain(..).take(room));
        match &mut self.readings {
            Some((_, last)) => *last = activity,
            None => self.readings = Some((activity.clone(), activity)),
        }
    }

    /// Number of I/O commands so far.
    pub const fn commands(&self) -> u64 {
        self.commands.seen
    }

    /// The facts.
    pub fn finish(
        self,
        covers: Duration,
        accuracy: Option<Accuracy>,
        expectation: Expectation,
    ) -> Facts {
        let strata = strata(&self.commands);
        let clock = TimeSlices::of(&self.commands.kept);
        let places = Places::of(&self.commands.kept, &strata);
        Facts {
            disks: self.disks,
            transports: self.transports,
            commands: self.commands,
            selection: self.selection,
            stage_set: self.stage_set,
            is_whole: true,
            incidents: self.incidents,
            in_flight: self.in_flight,
            logs: self.logs,
            machine: self.machine,
            activity: self.readings.map(|(first, last)| Span {
                ns: last.at_ns.saturating_sub(first.at_ns),
                counted: last.since(&first),
            }),
            gaps: Gaps::of(&self.gaps, self.timed),
            covers,
            accuracy,
            expectation,
            strata,
            clock,
            clock_of_day: self.clock,
            cgroups: self.cgroups,
            rates: self.rates,
            places,
        }
    }
}
