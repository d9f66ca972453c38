// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the rules look at: the commands, the incidents, the activity and the settings of the machine.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::model::activity::Activity;
use crate::model::logs::ControllerLogs;
use crate::model::stratum::Stratum;
use crate::nvme::opcode::QueueKind;
use crate::recording::MachineController;
use crate::recording::MachineDisk;
use crate::recording::MachineInfo;
use crate::report::ledger::Accuracy;

use super::command::Command;
use super::command::Commands;
use super::gaps::Gaps;
use super::incidents::Incidents;
use super::measure::Clock;
use super::measure::Comparison;
use super::measure::Share;
use super::stages::Stages;
use super::stuck::Stuck;

/// A rule about all commands of a disk needs this part of them.
const MOST: f64 = 0.8;

/// The activity between two readings.
#[derive(Clone, Debug)]
pub struct Span {
    /// From the first to the last, in nanoseconds.
    pub ns: u64,
    /// What was counted.
    pub counted: Activity,
}

/// What commands should take.
#[derive(Clone, Debug, Default)]
pub enum Expectation {
    /// Nothing was said: times are not judged.
    #[default]
    None,
    /// The median of each stratum should not be above this, in nanoseconds (`--expect`).
    Median(u64),
    /// The medians of another recording, by stratum, in nanoseconds (`--baseline`).
    Baseline(BTreeMap<Stratum, u64>),
}

/// A stratum that takes longer than expected.
#[derive(Clone, Copy, Debug)]
pub struct Slow {
    /// The stratum.
    pub stratum: Stratum,
    /// Its median in nanoseconds.
    pub median_ns: u64,
    /// What was expected.
    pub expected_ns: u64,
}

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

/// The facts of a run.
#[derive(Clone, Debug)]
pub struct Facts {
    /// Names of disks, by controller and namespace.
    pub disks: BTreeMap<(u32, u32), String>,
    /// The commands.
    pub commands: Commands,
    /// Rare events.
    pub incidents: Incidents,
    /// I/O commands that were in flight at the end, of a second and more. Recordings have none.
    pub in_flight: Vec<Stuck>,
    /// Log pages of controllers, before and after the run; `None`: not asked for.
    pub logs: Option<Vec<(ControllerLogs, ControllerLogs)>>,
    /// Settings; `None`: not recorded.
    pub machine: Option<MachineInfo>,
    /// Activity; `None`: not recorded.
    pub activity: Option<Span>,
    /// Gaps in the timers of CPUs.
    pub gaps: Gaps,
    /// The time that the commands cover.
    pub covers: Duration,
    /// Accuracy of the ledger; `None`: no ledger.
    pub accuracy: Option<Accuracy>,
    /// What commands should take.
    pub expectation: Expectation,
    /// Strata, those with most time first.
    pub strata: Vec<StratumFacts>,
    /// Slices of time.
    pub clock: Clock,
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
                Some((_, sum)) => *sum += ns,
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
        let stages = stages.into_iter().map(|(run, ns)| (run, ns * weight));
        StratumFacts {
            stratum,
            commands: totals.len() as u64 * weight,
            total_ns: totals.iter().sum::<u64>() * weight,
            p50_ns: quantile(&totals, 0.5),
            p99_ns: quantile(&totals, 0.99),
            stages: stages.collect(),
        }
    });
    let mut all: Vec<StratumFacts> = facts.collect();
    all.sort_by_key(|s| std::cmp::Reverse(s.total_ns));
    all
}

impl Facts {
    /// All commands in memory.
    pub fn all(&self) -> std::slice::Iter<'_, Command> {
        self.commands.kept.iter()
    }

    /// The commands of a controller.
    pub fn of_ctrl(&self, ctrl: u32) -> impl Iterator<Item = &Command> + Clone {
        self.all().filter(move |c| c.stratum.ctrl == ctrl)
    }

    /// The commands of a stratum.
    pub fn of(&self, stratum: Stratum) -> impl Iterator<Item = &Command> + Clone {
        self.all().filter(move |c| c.stratum == stratum)
    }

    /// The begin of a command, and the time when half of its stratum would be over. A condition is looked
    /// for in this time: in all of the command's time, a long command would meet any condition more
    /// often than a short one, whether or not it depends on it.
    pub fn expected(&self, command: &Command) -> (u64, u64) {
        let stratum = self.strata.iter().find(|s| s.stratum == command.stratum);
        let median_ns = stratum.map_or(0, |s| s.p50_ns);
        (command.begin_ns, command.begin_ns + median_ns)
    }

    /// The controllers that had commands.
    pub fn ctrls(&self) -> Vec<u32> {
        let mut all: Vec<u32> = self.strata.iter().map(|s| s.stratum.ctrl).collect();
        all.sort_unstable();
        all.dedup();
        all
    }

    /// The settings of a controller.
    pub fn controller(&self, ctrl: u32) -> Option<&MachineController> {
        let machine = self.machine.as_ref()?;
        machine.controllers.iter().find(|c| c.instance == ctrl)
    }

    /// The settings of the namespace of a stratum.
    pub fn disk(&self, ctrl: u32, nsid: u32) -> Option<&MachineDisk> {
        let controller = self.controller(ctrl)?;
        controller.disks.iter().find(|d| d.nsid == nsid)
    }

    /// The name of a namespace's disk, else of its controller.
    pub fn disk_name(&self, ctrl: u32, nsid: u32) -> String {
        let disk = self.disks.get(&(ctrl, nsid)).cloned();
        disk.unwrap_or_else(|| format!("nvme{ctrl}"))
    }

    /// `read 4k nvme0n1`
    pub fn stratum_name(&self, stratum: &Stratum) -> String {
        let Stratum {
            ctrl,
            nsid,
            opcode,
            size,
        } = *stratum;
        let name = opcode
            .name()
            .map_or_else(|| opcode.to_string(), str::to_owned);
        let admin = if opcode.queue == QueueKind::Admin {
            "admin "
        } else {
            ""
        };
        let size = match size.bytes() {
            0 => String::new(),
            _ => format!(" {size}"),
        };
        format!("{admin}{name}{size} {}", self.disk_name(ctrl, nsid))
    }

    /// The sum of a value of these commands, and of those that they stand for, by slice of time.
    pub fn sums<'c>(
        &self,
        commands: impl Iterator<Item = &'c Command>,
        value: impl Fn(&Command) -> u64,
    ) -> Vec<f64> {
        let weighted = |c: &Command| value(c) * self.commands.weight(c);
        self.clock.sums(commands, weighted)
    }

    /// The same in all.
    pub fn sum<'c>(
        &self,
        commands: impl Iterator<Item = &'c Command>,
        value: impl Fn(&Command) -> u64,
    ) -> f64 {
        self.sums(commands, value).iter().sum()
    }

    /// The part of the time of these commands that is surely in these stages.
    pub fn share<'c>(
        &self,
        commands: impl Iterator<Item = &'c Command> + Clone,
        stages: Stages,
    ) -> Option<Share> {
        let part = self.sums(commands.clone(), |c| c.time_within(stages));
        let whole = self.sums(commands, Command::total);
        self.clock.share(&part, &whole)
    }

    /// Compares the time in these stages with a condition and without, in the stratum in which it
    /// explains most. `explains` is the part of the time of all commands, in all strata with a longer time.
    ///
    /// Commands beside a gap of their CPUs are left out: a CPU that was away has more of everything to
    /// do afterwards, and all of it would go with longer times.
    pub fn compare(
        &self,
        stages: Stages,
        when: impl Fn(&Command) -> Option<bool>,
    ) -> Option<(Stratum, Comparison)> {
        self.compare_all(stages, |command| {
            let lifetime = (command.begin_ns, command.end_ns);
            (!self.gaps.met(command, lifetime)).then(|| when(command))?
        })
    }

    /// The same with the commands beside gaps.
    pub fn compare_all(
        &self,
        stages: Stages,
        when: impl Fn(&Command) -> Option<bool>,
    ) -> Option<(Stratum, Comparison)> {
        let total = self.strata.iter().map(|s| s.total_ns).sum::<u64>() as f64;
        let all = self.strata.iter().filter_map(|s| {
            let commands = self.of(s.stratum);
            let mut found = self.clock.compare(commands, stages, &when)?;
            found.explains *= s.total_ns as f64 / total;
            Some((s.stratum, found))
        });
        let all: Vec<(Stratum, Comparison)> = all.collect();
        let longer = all.iter().filter(|(_, c)| c.goes_with(0.0));
        let explains = longer.map(|(_, c)| c.explains).sum();
        let most = all
            .into_iter()
            .max_by(|(_, a), (_, b)| a.explains.total_cmp(&b.explains));
        most.map(|(stratum, found)| {
            let explains = f64::max(explains, found.explains);
            (stratum, Comparison { explains, ..found })
        })
    }

    /// Strata that take longer than expected, those with most time first.
    pub fn slow(&self) -> Vec<Slow> {
        let slow = self.strata.iter().filter_map(|s| {
            let expected_ns = match &self.expectation {
                Expectation::None => return None,
                Expectation::Median(ns) => *ns,
                // medians are compared with those of another time: less than a fifth is noise
                Expectation::Baseline(medians) => medians.get(&s.stratum)? * 6 / 5,
            };
            (s.p50_ns > expected_ns).then_some(Slow {
                stratum: s.stratum,
                median_ns: s.p50_ns,
                expected_ns,
            })
        });
        slow.collect()
    }

    /// The I/O commands of a namespace, or of a controller's namespaces if `nsid` is 0.
    pub fn of_disk(&self, ctrl: u32, nsid: u32) -> impl Iterator<Item = &Command> + Clone {
        self.of_ctrl(ctrl)
            .filter(move |c| nsid == 0 || c.stratum.nsid == nsid)
    }

    /// Whether requests of a disk were left out of the commands, as by a filter. Activity is counted
    /// whether or not a filter selects the command. Where requests were not counted: no.
    pub fn lacks_requests(&self) -> bool {
        let waits = self.counted(|a| a.waits.as_deref()).unwrap_or_default();
        waits.iter().any(|w| {
            let commands = self.sum(self.of_disk(w.ctrl, w.nsid), |_| 1);
            commands > 0.0 && commands < MOST * w.requests as f64
        })
    }

    /// I/O requests of all disks: those counted, or the commands if there are more.
    pub fn requests(&self) -> u64 {
        let waits = self.counted(|a| a.waits.as_deref()).unwrap_or_default();
        let requests = waits.iter().map(|w| w.requests).sum();
        self.commands.seen.max(requests)
    }

    /// The activity, if this part of it was observed.
    pub fn counted<'f, T: 'f>(&'f self, part: impl FnOnce(&'f Activity) -> Option<T>) -> Option<T> {
        self.activity.as_ref().and_then(|span| part(&span.counted))
    }
}
