// SPDX-License-Identifier: MIT OR Apache-2.0
//! The settings of a run: which commands, what to measure, how to attach. Options that a session acts
//! on are declared here, with their help, and commands include the structs that they need.

use std::path::PathBuf;
use std::time::Duration;

use crate::model::event::{Event, EventKind};
use crate::model::filter::{Filter, quoted};
use crate::model::group::By;
use crate::model::nvme_latency::LatBuckets;
use crate::model::origin::Who;
use crate::model::stack::StackAt;
use crate::model::stage::StageSet;
use crate::model::target::HostController;
use crate::model::text::Text;
use crate::model::timeline::total_ns;
use crate::probe::catalog::Method;
use crate::target::HostEvent;
use crate::units::{parse_latency, parse_share, parse_size};
use crate::when::When;
use anyhow::Result;

/// How to attach, and how verbose to be.
#[derive(Clone, Debug, Default, PartialEq, Eq, clap::Args)]
#[command(next_help_heading = "Attaching and output")]
pub struct Attaching {
    /// Use this attach method only, to compare methods or if the usual choice fails [default: the
    /// most accurate method for each point]
    #[arg(id = "attach", long = "attach", hide_short_help = true, value_name = "METHOD", group = LIVE)]
    pub only: Option<Method>,

    /// BTF of the driver's modules, for kernels without module BTF: raw, or an ELF file with a .BTF
    /// section. Refused if it does not match the kernel
    #[arg(long, hide_short_help = true, value_name = "FILE", group = LIVE)]
    pub btf: Option<PathBuf>,

    /// Print the hooks, the reasons for fallbacks, all event counts
    ///
    /// Also the cost of the tool's programs. -vv: libbpf's log too.
    #[arg(long, short, action = clap::ArgAction::Count)]
    pub verbose: u8,

    /// For tests, in debug builds: these programs ignore every 97th of their events, as if the kernel
    /// skipped them
    #[cfg_attr(
        debug_assertions,
        arg(long, value_name = "PROGRAM,...", value_delimiter = ',', hide = true, group = LIVE)
    )]
    #[cfg_attr(not(debug_assertions), arg(skip))]
    pub test_ignore: Vec<String>,

    /// For tests, in debug builds: do not look for commands whose setup or completion was not
    /// observed
    #[cfg_attr(debug_assertions, arg(long, hide = true, group = LIVE))]
    #[cfg_attr(not(debug_assertions), arg(skip))]
    pub test_no_recovery: bool,
}

/// The group of options that need a live run: `--from` excludes them.
pub const LIVE: &str = "live";

/// Stacks of single commands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::Args)]
pub struct StackSample {
    /// Where the stack is taken
    #[arg(long, value_name = "POINT", default_value = "submit")]
    pub at: StackAt,

    /// Count one command in N only, chosen at random
    #[arg(long = "sample", value_name = "1/N", value_parser = parse_share, default_value = "1/1",
          hide_default_value = true)]
    pub period: u32,
}

/// A choice of commands by their outcome.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::Args)]
pub struct Outcome {
    /// Only commands that took at least this long (`1ms`)
    ///
    /// From the first to the last observed point: waits before the request (cgroup limits, wbt, tags)
    /// count where they are observed, as in a recording with full stages. Commands of unknown duration
    /// are shown too.
    #[arg(long, alias = "min-lat", value_name = "TIME", value_parser = parse_latency)]
    pub slow: Option<Duration>,

    /// Only commands with a status other than success
    #[arg(long)]
    pub errors: bool,
}

/// The part of a recording that is read.
#[derive(Clone, Debug, Default, PartialEq, Eq, clap::Args)]
pub struct Window {
    /// Of a recording: only commands that complete at this time or later
    ///
    /// The time since the start of the recording (`7s`, `1m30s`), or of the clock: `14:03:07` for the one
    /// nearest to the start, `2026-11-26T04:05:46`, both local unless `Z` or `UTC` follows.
    #[arg(long, hide_short_help = true, value_name = "TIME", value_parser = When::parse)]
    pub since: Option<When>,

    /// Of a recording: only commands that complete before this time
    ///
    /// As for --since.
    #[arg(long, hide_short_help = true, value_name = "TIME", value_parser = When::parse)]
    pub until: Option<When>,

    /// The disk, by its name in the recording; `None`: all.
    #[arg(skip)]
    pub disk: Option<String>,
}

/// Histograms, and what is counted or reported beside them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Histograms {
    /// nvme_latency's buckets. They are made of single commands, which the kernel then does not count.
    pub lat: Option<LatBuckets>,
    /// A row per group with these properties, instead of rows per controller, namespace and opcode.
    pub by: Vec<By>,
    /// What else.
    pub extra: ExtraEvents,
    /// The slowest commands that it reports have their submitters.
    pub submitters: bool,
}

/// What a run with histograms does besides.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ExtraEvents {
    /// Nothing.
    #[default]
    Nothing,
    /// It counts timeouts and cancellations (the hooks' hits are the counts), and failed and retried
    /// commands.
    CountErrors,
    /// It counts these, and the commands of each queue, and reports the slowest as events. Only where
    /// the driver's types are known, and commands are not identified by tag.
    TopCounters,
    /// It reports each command as an event at its completion.
    Commands,
}

/// Who caused each command: what is observed of that.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum OriginDetail {
    /// Nothing.
    #[default]
    Nobody,
    /// Cgroups.
    Cgroups,
    /// Cgroups, and the submitter of the bio.
    Submitters,
}

/// Stacks in events.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::Args)]
pub struct EventStacks {
    /// Add the kernel stack
    ///
    /// Without a value, at submission. A stack costs several thousand instructions: see --sample.
    #[arg(long, value_name = "AT", num_args = 0..=1, require_equals = true,
          default_missing_value = "submit")]
    pub kstack: Option<StackAt>,

    /// Take the stack of one command in N only
    ///
    /// Chosen at random. No command is left out.
    #[arg(long, hide_short_help = true, value_name = "1/N", requires = "kstack",
          value_parser = parse_share)]
    pub sample: Option<u32>,
}

/// What is observed of each command besides its times.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::Args)]
pub struct Detail {
    #[command(flatten)]
    pub stacks: EventStacks,

    /// Also observe the conditions of each command
    ///
    /// Whether the CPU of the interrupt was idle or in a soft interrupt, and whether the doorbell was
    /// written. Shown in JSON. With --tee, also what the machine did: splits, bounce buffers, its
    /// settings. Costs some 750 more instructions per command.
    #[arg(long, hide_short_help = true, group = LIVE)]
    pub context: bool,

    /// Also observe the cgroup that caused each command
    ///
    /// With --from, whatever the recording has is shown.
    #[arg(long, hide_short_help = true)]
    pub cgroups: bool,

    /// Also observe the submitter of each command: process, thread and cgroup
    ///
    /// The task that submitted the bio. The one that calls the driver may be a kernel thread, behind an
    /// I/O scheduler. For writeback, the cgroup is the one that wrote. Implies --cgroups.
    #[arg(long, hide_short_help = true)]
    pub submitters: bool,

    /// Observe what this kernel shows of these, instead of refusing the run.
    #[arg(skip)]
    pub if_possible: bool,

    /// The conditions without timers, which would wake idle CPUs: gaps are not observed.
    #[arg(skip)]
    pub without_timers: bool,
}

/// Smallest ring. The kernel requires at least one page.
const MIN_RING: u32 = 64 << 10;
/// Largest ring. The kernel uses two bits of a record's length as flags (BPF_RINGBUF_BUSY_BIT,
/// BPF_RINGBUF_DISCARD_BIT).
pub const MAX_RING: u32 = 1 << 30;

/// The ring buffers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::Args)]
pub struct RingSize {
    /// Size of all ring buffers together (`4M`, `64M`)
    ///
    /// Rounded up to a power of two. Each group of 8 CPUs has its own. Events that find no room are lost
    /// and counted. [default: 16M, or 2M for each 8 CPUs if that is more; less if the controllers' tags
    /// need much memory]
    #[arg(id = "buffer", long = "buffer", hide_short_help = true, value_name = "SIZE",
          value_parser = ring_bytes, group = LIVE)]
    pub bytes: Option<u32>,
}

/// The size of the ring buffers. Rounds up to a power of two.
fn ring_bytes(text: &str) -> Result<u32, String> {
    match u32::try_from(parse_size(text)?) {
        Ok(bytes @ MIN_RING..=MAX_RING) => Ok(bytes.next_power_of_two()),
        _ => Err(format!("`{text}` is out of range: give a size between 64K and 1G")),
    }
}

/// Events of single commands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::Args)]
pub struct Events {
    /// While tracing, two lines per command: at its submission and at its completion
    ///
    /// Also a line when blk-mq takes a command back (Requeue), and when a completion was not observed
    /// (Missed). A recording with one event per command has one line for each here, too.
    #[arg(long = "events", hide_short_help = true, conflicts_with_all = ["slow", "errors"])]
    pub submits: bool,

    #[command(flatten)]
    pub detail: Detail,

    #[command(flatten)]
    pub outcome: Outcome,

    /// Also show SQ head and tail at each completion (tracepoint nvme_sq)
    #[arg(long, hide_short_help = true)]
    pub sq: bool,

    /// Also show asynchronous events
    #[arg(long, hide_short_help = true)]
    pub aen: bool,

    #[command(flatten)]
    pub ring_size: RingSize,
}

/// What a run measures.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Histograms.
    Histograms(Histograms),
    /// Events of single commands.
    Events(Events),
    /// Commands by kernel stack: their number, and the sum of their latencies.
    Stacks(StackSample, Outcome),
    /// Histograms by size class. The submission of a command can be read while it is in flight, with its
    /// stack if one is taken.
    Flight(Option<StackSample>),
}

/// The settings of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Which stages to measure, or to show of a recording.
    pub stage_set: StageSet,
    /// Show the stages that a recording has, as groups, whatever `stage_set` is.
    pub recorded_stages: bool,
    /// Which commands.
    pub filter: Filter,
    /// What to measure.
    pub mode: Mode,
    /// Of a recording: which part of it.
    pub window: Window,
    /// How to attach.
    pub attaching: Attaching,
}

impl Window {
    /// Whether a part is left out.
    pub const fn is_some(&self) -> bool {
        self.since.is_some() || self.until.is_some()
    }

    /// The options and their times.
    pub fn options(&self) -> impl Iterator<Item = (&'static str, &When)> {
        let [since, until] = [&self.since, &self.until].map(Option::as_ref);
        since.map(|time| ("--since", time)).into_iter().chain(until.map(|time| ("--until", time)))
    }
}

impl StackSample {
    /// The stack of every command.
    pub const fn every(at: StackAt) -> Self {
        Self { at, period: 1 }
    }
}

impl Outcome {
    /// Whether not all commands are chosen.
    pub const fn is_some(self) -> bool {
        self.slow.is_some() || self.errors
    }

    /// Whether an event is chosen. One without an outcome is, except a command that is in flight and not
    /// slow yet.
    fn selects(self, event: &Event) -> bool {
        let took = |slow: Duration| Some((slow, total_ns(event)?));
        let too_fast =
            self.slow.and_then(took).is_some_and(|(slow, ns)| u128::from(ns) < slow.as_nanos());
        let verdict = event.what.outcome().and_then(|o| o.verdict.as_ref());
        let no_error = self.errors && verdict.is_some_and(|v| v.status.is_success());
        !too_fast && !no_error
    }
}

impl EventStacks {
    fn sample(self) -> Option<StackSample> {
        self.kstack.map(|at| StackSample { at, period: self.sample.unwrap_or(1) })
    }
}

impl Detail {
    /// Conditions, submitters and cgroups, as far as this kernel shows them.
    pub fn all() -> Self {
        Self { context: true, submitters: true, if_possible: true, ..Self::default() }
    }

    const fn origin(&self) -> OriginDetail {
        match (self.cgroups, self.submitters) {
            (_, true) => OriginDetail::Submitters,
            (true, false) => OriginDetail::Cgroups,
            (false, false) => OriginDetail::Nobody,
        }
    }
}

impl OriginDetail {
    /// Whose process and cgroup groups and filters go by.
    pub fn who(self) -> Who {
        Who::of(self == Self::Submitters)
    }
}

impl Mode {
    /// A run with this stage set, and nothing else chosen.
    pub fn with(self, stage_set: StageSet) -> Settings {
        Settings {
            stage_set,
            recorded_stages: false,
            filter: Filter::default(),
            mode: self,
            window: Window::default(),
            attaching: Attaching::default(),
        }
    }
}

impl Settings {
    /// A run with histograms of this stage set, and nothing else chosen.
    pub fn of(stage_set: StageSet) -> Self {
        Mode::Histograms(Histograms::default()).with(stage_set)
    }

    /// Whether to show the stages that a recording has: nobody asked for others.
    #[must_use]
    pub fn with_recorded_stages(self, is_on: bool) -> Self {
        Self { recorded_stages: is_on, ..self }
    }

    /// The settings for a recording of this stage set, with or without submitters.
    #[must_use]
    pub fn for_recording(&self, recorded: StageSet, submitters: bool) -> Self {
        let mut settings = self.clone();
        if self.recorded_stages {
            settings.stage_set = recorded.min(StageSet::Basic);
        }
        settings.filter.who = Who::of(submitters);
        settings
    }

    /// Whether an event of a recording is one that these settings select.
    pub fn selects(&self, event: &Event) -> bool {
        let has = |is_on: fn(&Events) -> bool| self.events().is_some_and(is_on);
        let is_shown = match event.what {
            EventKind::Sq { .. } => has(|events| events.sq),
            EventKind::AsyncEvent { .. } => has(|events| events.aen),
            _ => true,
        };
        is_shown && self.outcome().selects(event) && self.filter.matches(event)
    }

    /// The options that select commands, or a part of a recording. Empty: all commands.
    pub fn choice(&self) -> String {
        let times = self.window.options();
        let times = times.map(|(option, time)| format!("{option} {}", quoted(&time.to_string())));
        let mut filter = self.filter.clone();
        let disk = self.window.disk.as_ref().map(|disk| {
            // these are the disk's
            (filter.ctrls, filter.nsids) = <_>::default();
            Text::from(format!("--disk {}", quoted(disk))).to_string()
        });
        let filter = Some(filter.text()).filter(|text| !text.is_empty());
        let Outcome { slow, errors } = self.outcome();
        let slow = slow.map(|time| format!("--slow {time:?}").replace('µ', "u"));
        let errors = errors.then(|| "--errors".to_owned());
        times.chain(disk).chain(filter).chain(slow).chain(errors).collect::<Vec<String>>().join(" ")
    }

    /// Events instead of histograms.
    pub const fn events(&self) -> Option<&Events> {
        match &self.mode {
            Mode::Events(events) => Some(events),
            _ => None,
        }
    }

    /// What is counted or reported beside histograms.
    pub const fn extra(&self) -> ExtraEvents {
        match &self.mode {
            Mode::Histograms(histograms) => histograms.extra,
            _ => ExtraEvents::Nothing,
        }
    }

    /// Whether the kernel counts the commands.
    pub fn counts(&self) -> bool {
        matches!(self.mode, Mode::Histograms(_) | Mode::Flight(_)) && !self.counts_events()
    }

    /// Whether user space counts the events of the commands, because the kernel does not have such counters.
    pub fn counts_events(&self) -> bool {
        self.lat().is_some() || self.by().contains(&By::Flags)
    }

    /// Whether each command has an event.
    pub fn has_events(&self) -> bool {
        matches!(self.mode, Mode::Events(_))
            || matches!(self.extra(), ExtraEvents::Commands)
            || self.counts_events()
    }

    /// Whether commands are looked at singly, with or instead of histograms.
    pub fn is_trace(&self) -> bool {
        !matches!(self.mode, Mode::Histograms(_)) || self.has_events()
    }

    /// Whether commands are counted by stack.
    pub const fn sums_stacks(&self) -> bool {
        matches!(self.mode, Mode::Stacks(..))
    }

    /// nvme_latency's buckets.
    pub const fn lat(&self) -> Option<LatBuckets> {
        match &self.mode {
            Mode::Histograms(histograms) => histograms.lat,
            _ => None,
        }
    }

    /// The properties by which commands are grouped, if they are.
    pub fn by(&self) -> &[By] {
        match &self.mode {
            Mode::Histograms(histograms) => &histograms.by,
            _ => &[],
        }
    }

    /// The same, if the kernel groups them.
    pub fn kernel_groups(&self) -> &[By] {
        if self.counts() { self.by() } else { &[] }
    }

    /// The stacks that are taken.
    pub fn stack(&self) -> Option<StackSample> {
        match &self.mode {
            Mode::Histograms(_) => None,
            Mode::Events(events) => events.detail.stacks.sample(),
            Mode::Stacks(stack, _) => Some(*stack),
            Mode::Flight(stack) => *stack,
        }
    }

    /// Which commands, by their outcome.
    pub fn outcome(&self) -> Outcome {
        match &self.mode {
            Mode::Events(events) => events.outcome,
            Mode::Stacks(_, outcome) => *outcome,
            _ => Outcome::default(),
        }
    }

    /// Whether the conditions of each command are observed, and what the machine does besides.
    pub fn context(&self) -> bool {
        self.events().is_some_and(|events| events.detail.context)
    }

    /// Whether timers observe when CPUs do not run.
    pub fn has_timers(&self) -> bool {
        self.events().is_some_and(|events| events.detail.context && !events.detail.without_timers)
    }

    /// Whether what this kernel does not show of conditions and submitters is left out.
    pub fn leaves_out(&self) -> bool {
        self.events().is_some_and(|events| events.detail.if_possible)
    }

    /// Whether the run asks who asked for commands: its groups or its filter do.
    pub fn asks_who(&self) -> bool {
        self.filter.selects_who() || self.by().iter().any(|by| by.is_who())
    }

    /// The same, by process or thread.
    pub fn asks_process(&self) -> bool {
        let by = self.by().iter().any(|by| matches!(by, By::Process | By::Comm));
        by || !self.filter.pids.is_empty() || !self.filter.comms.is_empty()
    }

    /// Whether the bios that are followed for their waits have their submitters.
    pub fn follows_submitters(&self) -> bool {
        self.stage_set == StageSet::Full && self.observed_origin() == OriginDetail::Submitters
    }

    /// Who caused each command: what its event has.
    pub fn origin(&self) -> OriginDetail {
        match self.has_events() && !self.counts() && self.asks_who() {
            true => OriginDetail::Submitters,
            false => self.required_detail(),
        }
    }

    /// What is observed of who caused commands, for events, groups or filters, if this kernel shows it.
    pub fn observed_origin(&self) -> OriginDetail {
        // histograms of the waits before the request have no room for submitters
        let has_room = self.stage_set != StageSet::Full || !self.counts();
        if self.reports_submitters() || self.asks_who() && has_room {
            OriginDetail::Submitters
        } else {
            self.origin()
        }
    }

    /// The same, as far as a run fails without it. Groups and filters then go by the callers.
    pub fn required_origin(&self) -> OriginDetail {
        match (self.reports_submitters(), self.leaves_out()) {
            (true, _) => OriginDetail::Submitters,
            (false, true) => OriginDetail::Nobody,
            (false, false) => self.required_detail(),
        }
    }

    /// Who caused each command, as the options for events ask for it.
    fn required_detail(&self) -> OriginDetail {
        self.events().map_or(OriginDetail::Nobody, |events| events.detail.origin())
    }

    /// Whether the slowest commands that a run with histograms reports have their submitters.
    pub fn reports_submitters(&self) -> bool {
        matches!(&self.mode, Mode::Histograms(histograms) if histograms.submitters)
    }

    /// The size of the rings, if one was chosen.
    pub fn ring_bytes(&self) -> Option<u32> {
        self.events().and_then(|events| events.ring_size.bytes)
    }
}

/// The target whose commands are traced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChosenTarget {
    /// The kernel's.
    Nvmet,
    /// A process, by uprobes.
    Process(u32),
    /// A process of QEMU, by USDT probes.
    Usdt(u32),
    /// The changes of state in a process of SPDK, by USDT probes.
    States(u32),
    /// The messages between the threads of a process of SPDK, by uprobes.
    Messages(u32),
}

/// Takes an event of a target, and the controllers that are known.
pub type ToEvents<'t> = &'t mut dyn FnMut(&HostEvent<'_>, &[HostController]) -> Result<()>;

/// How to trace a target.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HostOptions {
    /// Measure the run times of the programs.
    pub measure: bool,
    /// Only the start and the end of each command, with fewer traps.
    pub ends_only: bool,
    /// For tests: an error of the layout in bytes.
    pub shift: u32,
}
