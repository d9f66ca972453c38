// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the rules look at: the commands, the incidents, the activity and the settings of the machine.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::model::activity::Activity;
use crate::model::command_class::CommandClass;
use crate::model::ids::NamespaceId;
use crate::model::ledger::Accuracy;
use crate::model::machine::{ControllerLogs, MachineController, MachineDisk, MachineInfo};
use crate::model::origin::Cgroups;
use crate::model::report::device_name::DeviceName;
use crate::model::stage::StageSet;
use crate::model::text::Text;
use crate::nvme::opcode::QueueKind;
use crate::when::RunClock;

use super::command::{Command, Commands};
use super::expectation::Expectation;
use super::gaps::Gaps;
use super::incidents::Incidents;
use super::measure::{Compared, Comparison, TimeSlices};
use super::places::Places;
use super::portion::Portion;
use super::rates::Rates;
use super::selection::Selection;
use super::stages::Stages;
use super::strata::ClassFacts;
use super::stuck::Stuck;
use super::subject::Subject;

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

/// The facts of a run.
#[derive(Clone, Debug)]
pub struct Facts {
    /// Names of disks.
    pub disks: BTreeMap<NamespaceId, DeviceName>,
    /// Transports, by controller.
    pub transports: BTreeMap<u32, Text>,
    /// The commands.
    pub commands: Commands,
    /// What left commands out.
    pub selection: Selection,
    /// The stages that were observed.
    pub stage_set: StageSet,
    /// Whether the recording has its end; a live run has one.
    pub is_whole: bool,
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
    pub strata: Vec<ClassFacts>,
    /// Slices of time.
    pub clock: TimeSlices,
    /// How times become times of day.
    pub clock_of_day: RunClock,
    /// Paths of cgroups.
    pub cgroups: Cgroups,
    /// Submissions and completions over time, by controller.
    pub rates: BTreeMap<u32, Rates>,
    /// Where the commands are in `commands.kept`, and the strata in `strata`.
    pub(super) places: Places,
}

/// The comparison of the stratum in which a condition explains most. What it explains, and what could not
/// be compared, are parts of the time of all strata. Each stratum comes with its part of that time.
fn best(all: Vec<(CommandClass, f64, Comparison)>) -> Option<(CommandClass, Comparison)> {
    let longer = all.iter().filter(|(_, _, c)| c.goes_with(0.0));
    let kinds: Vec<(CommandClass, f64)> =
        longer.clone().map(|(s, _, c)| (*s, c.explains)).collect();
    let explains: f64 = longer.map(|(_, part, c)| c.explains * part).sum();
    let joined: f64 = all.iter().map(|(_, part, c)| c.unjudged * part).sum();
    let vague = |found: &Comparison| if found.is_vague() { found.at_most } else { 0.0 };
    let vague_in_all: f64 = all.iter().map(|(_, part, c)| vague(c) * part).sum();
    let (stratum, part, found) = all.into_iter().max_by(|(_, p, a), (_, q, b)| {
        let order = a.goes_with(0.0).cmp(&b.goes_with(0.0));
        order.then((a.explains * p).total_cmp(&(b.explains * q)))
    })?;
    let found = Comparison {
        explains: explains.max(found.explains * part),
        unjudged: joined + vague_in_all - vague(&found) * part,
        at_most: found.at_most * part,
        kinds,
        ..found
    };
    Some((stratum, found))
}

impl Facts {
    /// All commands in memory.
    pub fn all(&self) -> std::slice::Iter<'_, Command> {
        self.commands.kept.iter()
    }

    /// The commands of a controller.
    pub fn of_ctrl(&self, ctrl: u32) -> impl Iterator<Item = &Command> + Clone {
        self.at(self.places.commands(Subject::Controller(ctrl)))
    }

    fn at<'f>(&'f self, places: &'f [u32]) -> impl Iterator<Item = &'f Command> + Clone {
        let at = |place: &u32| self.commands.kept.get(*place as usize);
        places.iter().filter_map(at)
    }

    /// The commands of a stratum.
    pub fn of(&self, stratum: CommandClass) -> impl Iterator<Item = &Command> + Clone {
        self.at(self.places.commands_of_kind(stratum))
    }

    /// What is known of a stratum.
    pub fn stratum(&self, stratum: CommandClass) -> Option<&ClassFacts> {
        self.strata.get(self.places.stratum(stratum)?)
    }

    /// The strata of a subject, those with most time first.
    pub fn strata_of(&self, subject: Subject) -> impl Iterator<Item = &ClassFacts> + Clone {
        let all: &[ClassFacts] = match subject {
            Subject::Machine => &self.strata,
            Subject::Controller(_) | Subject::Disk(..) => &[],
        };
        let own = self.places.strata(subject).iter();
        let own = own.filter_map(|place| self.strata.get(*place as usize));
        all.iter().chain(own)
    }

    /// The begin of a command, and the time when half of its stratum would be over. A condition is looked
    /// for in this time: in all of the command's time, a long command would meet any condition more
    /// often than a short one, whether or not it depends on it.
    pub fn expected(&self, command: &Command) -> (u64, u64) {
        let stratum = self.stratum(command.stratum);
        let median_ns = stratum.map_or(0, |s| s.begun_p50_ns);
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

    /// The name of a namespace's disk, else of its controller. Sentences and advice have it, so it is a
    /// name of the kernel, or `DISK`.
    pub fn disk_name(&self, ctrl: u32, nsid: u32) -> String {
        let disk = self.disks.get(&NamespaceId::new(ctrl, nsid));
        disk.map_or_else(|| format!("nvme{ctrl}"), ToString::to_string)
    }

    /// `read 4k nvme0n1`
    pub fn stratum_name(&self, stratum: &CommandClass) -> String {
        let CommandClass { ctrl, nsid, opcode, size } = *stratum;
        let name = opcode.name().map_or_else(|| opcode.to_string(), str::to_owned);
        let admin = if opcode.queue == QueueKind::Admin { "admin " } else { "" };
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
        let [sums] = self.sums_of(commands, |command| [value(command)]);
        sums
    }

    /// The same of several values.
    fn sums_of<'c, const N: usize>(
        &self,
        commands: impl Iterator<Item = &'c Command>,
        values: impl Fn(&Command) -> [u64; N],
    ) -> [Vec<f64>; N] {
        self.clock.sums(commands, |command| {
            let weight = self.commands.weight(command);
            values(command).map(|value| value * weight)
        })
    }

    /// The same in all.
    pub fn sum<'c>(
        &self,
        commands: impl Iterator<Item = &'c Command>,
        value: impl Fn(&Command) -> u64,
    ) -> f64 {
        self.sums(commands, value).iter().sum()
    }

    /// The part of the time of a subject's commands that is in these stages. `None`: it has no commands.
    pub fn portion(&self, subject: Subject, stages: Stages) -> Option<Portion> {
        self.portion_of(self.of_subject(subject), stages)
    }

    /// The same for the commands of a stratum.
    pub fn portion_of_kind(&self, stratum: CommandClass, stages: Stages) -> Option<Portion> {
        self.portion_of(self.of(stratum), stages)
    }

    fn portion_of<'c>(
        &self,
        commands: impl Iterator<Item = &'c Command>,
        stages: Stages,
    ) -> Option<Portion> {
        let [whole, least, most] = self.sums_of(commands, |command| {
            let (least, most) = command.time_bounds(stages);
            [command.total(), least, most]
        });
        Some(Portion {
            stages,
            least: self.clock.share(&least, &whole)?,
            most: self.clock.share(&most, &whole)?,
        })
    }

    /// Compares the time of a subject's commands in these stages with a condition and without, in the
    /// stratum in which the condition explains most. `explains` is the part of the time of all commands
    /// of the subject, in all strata with a longer time.
    ///
    /// Commands beside a gap of their CPUs are left out: a CPU that was away has more of everything to
    /// do afterwards, and all of it would go with longer times.
    pub fn compare(
        &self,
        subject: Subject,
        stages: Stages,
        when: impl Fn(&Command) -> Option<bool>,
    ) -> (Option<CommandClass>, Compared) {
        self.compare_all(subject, stages, |command| {
            let lifetime = (command.begin_ns, command.end_ns);
            (!self.gaps.met(command, lifetime)).then(|| when(command))?
        })
    }

    /// The same with the commands beside gaps.
    pub fn compare_all(
        &self,
        subject: Subject,
        stages: Stages,
        when: impl Fn(&Command) -> Option<bool>,
    ) -> (Option<CommandClass>, Compared) {
        let total = self.strata_of(subject).map(|s| s.total_ns);
        let total = total.sum::<u64>() as f64;
        let (mut all, mut few): (Vec<(CommandClass, f64, Comparison)>, _) =
            (Vec::new(), (0, 0, 0.0));
        for facts in self.strata_of(subject) {
            let part = facts.total_ns as f64 / total.max(1.0);
            match self.clock.compare(self.of(facts.stratum), stages, &when) {
                Compared::Found(found) => all.push((facts.stratum, part, found)),
                Compared::TooFew { with, without, at_most } => {
                    few = (few.0 + with, few.1 + without, few.2 + at_most * part)
                }
            }
        }
        let (with, without, at_most) = few;
        match best(all) {
            Some((stratum, mut found)) => {
                found.unjudged += at_most;
                (Some(stratum), Compared::Found(found))
            }
            None => (None, Compared::TooFew { with, without, at_most }),
        }
    }

    /// The I/O commands of a namespace, or of a controller's namespaces if `nsid` is 0.
    pub fn of_disk(&self, ctrl: u32, nsid: u32) -> impl Iterator<Item = &Command> + Clone {
        let subject = match nsid {
            0 => Subject::Controller(ctrl),
            _ => Subject::Disk(ctrl, nsid),
        };
        self.at(self.places.commands(subject))
    }

    /// Whether not all commands of a controller are in memory.
    pub fn is_thinned(&self, ctrl: u32) -> bool {
        self.of_ctrl(ctrl).any(|c| self.commands.weight(c) > 1)
    }

    /// Whether requests of a disk of this controller, or of any, were left out of the commands, as by a
    /// filter. Activity is counted whether or not a filter selects the command. Where requests were not
    /// counted: no.
    pub fn lacks_requests(&self, ctrl: Option<u32>) -> bool {
        let waits = self.counted(|a| a.waits.as_deref()).unwrap_or_default();
        let mut own = waits.iter().filter(|w| ctrl.is_none_or(|c| c == w.ctrl));
        own.any(|w| {
            let commands = self.sum(self.of_disk(w.ctrl, w.nsid), |_| 1);
            commands > 0.0 && commands < MOST * w.requests as f64
        })
    }

    /// How many of these there were for each I/O request of the machine. Requests are those counted, or the
    /// commands if there are more. An error: requests were not counted, and not all commands are known.
    pub fn per_request(&self, count: u64) -> Result<f64, String> {
        let waits = self.counted(|a| a.waits.as_deref());
        if waits.is_none()
            && let Some(why) = self.lacks(Subject::Machine)
        {
            return Err(why);
        }
        let waits = waits.unwrap_or_default().iter();
        let requests = waits.fold(0, |sum: u64, w| sum.saturating_add(w.requests));
        let requests = self.commands.seen.max(requests);
        Ok(count as f64 / requests.max(1) as f64)
    }

    /// Whether all gaps of a CPU in this time were observed, and none was lost.
    pub fn has_all_gaps(&self, cpu: u32, span: (u64, u64)) -> bool {
        self.gaps.has_timer(cpu, span) && self.counted(|a| Some(a.gaps_lost)) == Some(0)
    }

    /// The activity, if this part of it was observed.
    pub fn counted<'f, T: 'f>(&'f self, part: impl FnOnce(&'f Activity) -> Option<T>) -> Option<T> {
        self.activity.as_ref().and_then(|span| part(&span.counted))
    }
}
