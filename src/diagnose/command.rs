// SPDX-License-Identifier: MIT OR Apache-2.0
//! Finished commands as the rules need them, in memory: their number is bounded.

use crate::model::command_class::{BlockSizes, CommandClass, Conditions};
use crate::model::event::{Event, Finished};
use crate::model::point::Point;
use crate::model::stage::{StageRun, StageSet};
use crate::model::timeline::Timeline;
use crate::nvme::opcode::QueueKind;

use super::affected::Affected;
use super::facts::Stages;

/// Number of stages.
const STAGES: usize = StageSet::Full.stages().len();
/// The bit of dword 12.
const FUA: u32 = 1 << 30;
/// The longest time of a command, in nanoseconds.
const LONGEST_NS: u64 = 1 << 52;
/// Larger times, in nanoseconds, are treated as corrupt.
const NO_TIME_NS: u64 = 1 << 60;
/// Commands in memory. If more come, every second block of reads and writes is dropped, or of the
/// other commands: whichever are more.
const MOST: usize = 400_000;
/// Commands of a block. Neighbours stay together: some rules look at them.
const BLOCK: u64 = 16;
/// Commands that took this long went astray: nothing usual takes that time. They are also kept when
/// their block is dropped, apart from the others.
pub const LONG_NS: u64 = 100_000_000;
/// Most of these.
const MOST_LONG: usize = 10_000;

/// A finished I/O command.
#[derive(Clone, Debug)]
pub struct Command {
    /// Controller, namespace, opcode, size.
    pub class: CommandClass,
    /// Its ids and blocks, who issued it, and its time from its first observed point from the request on to its last.
    pub at: Affected,
    /// The CPU of the submission.
    pub submit_cpu: Option<u16>,
    /// The CPU of the completion.
    pub end_cpu: Option<u16>,
    /// CLOCK_MONOTONIC nanoseconds of the end of its setup; 0: not observed.
    pub setup_ns: u64,
    /// Of the CQE; 0: not observed.
    pub cqe_ns: u64,
    /// Bytes.
    pub bytes: u32,
    /// The device must have written it to the medium: FUA of a write.
    pub is_fua: bool,
    /// The time of its bios below other disks, in nanoseconds, summed: at most that.
    pub below_ns: u64,
    /// What was observed beside the points.
    pub conditions: Conditions,
    /// The merged stages that begin at each stage, in nanoseconds.
    ns: [u64; STAGES],
    /// Bits: merged stages begin at this stage; the highest: where the last ones end.
    begins: u32,
}

impl Command {
    /// The command of an event; `None` for other events, admin commands, and without points.
    pub fn of(event: &Event, block_sizes: &BlockSizes) -> Option<Self> {
        let finished = Finished::of(event)?;
        let id = finished.id;
        if id.opcode.queue == QueueKind::Admin {
            return None;
        }
        let mut stages = finished.intervals(StageSet::Full).stages;
        if stages.is_empty() {
            // without those before the request, if these are not in order
            let line = finished.timeline().map(Timeline::from_request);
            stages = line?.segments(StageSet::Full).filter(|stages| !stages.is_empty())?;
        }
        let (mut ns, mut begins) = ([0; STAGES], 0);
        for segment in &stages {
            let StageRun { first, last, .. } = segment.run;
            ns[first] = segment.ns;
            begins |= 1 << first | 1 << (last + 1);
        }
        let outcome = event.what.outcome();
        let line = finished.timeline();
        let at = |point| line.and_then(|line| line.at(point)).unwrap_or(0);
        let end_ns = at(Point::End).max(event.at_ns);
        let (setup_ns, total): (_, u64) = (at(Point::SetupOut), ns.iter().sum());
        let bios = outcome.map(|o| o.bios).unwrap_or_default();
        // bios that were merged into its request were submitted after the oldest
        let below_ns = bios.count().zip(bios.longest_wait_ns()).map_or(total, |(count, wait)| {
            let longest = total.max(end_ns.saturating_sub(setup_ns).saturating_add(wait));
            longest.saturating_mul(u16::from(count).into())
        });
        let requested = &ns[StageSet::Full.before()..];
        let begin_ns = requested.iter().fold(end_ns, |at, ns| at.saturating_sub(*ns));
        let submission = finished.submission;
        let submitter = submission.filter(|a| a.knows_submitter);
        Some(Self {
            class: block_sizes.class(id, submission),
            at: Affected::of_event(id, submission, (begin_ns, end_ns)),
            submit_cpu: submitter.map(|a| a.cpu),
            end_cpu: outcome.map(|o| o.cpu),
            setup_ns,
            cqe_ns: at(Point::Cqe),
            bytes: block_sizes.size(id, submission),
            is_fua: id.opcode.code == 1 && submission.is_some_and(|a| a.sqe.cdw(12) & FUA != 0),
            below_ns,
            conditions: outcome.map(|o| o.conditions).unwrap_or_default(),
            ns,
            begins,
        })
    }

    /// The observed stages, merged where a point was not observed.
    pub fn runs(&self) -> impl Iterator<Item = (Stages, u64)> {
        let mut ends = self.begins;
        std::iter::from_fn(move || {
            let first = ends.trailing_zeros() as usize;
            ends &= ends.wrapping_sub(1);
            let end = ends.trailing_zeros() as usize;
            (ends != 0).then(|| (Stages::range(first, end), self.ns[first]))
        })
    }

    /// Time in these stages; `None` if a part of it was not observed.
    pub fn time_in(&self, stages: Stages) -> Option<u64> {
        let mut own = self.runs().filter(|(run, _)| stages.meets(*run)).peekable();
        own.peek()?;
        own.map(|(run, ns)| stages.covers(run).then_some(ns)).sum()
    }

    /// Time in these stages: the least, which is surely in them, and the most: with all merged stages that
    /// have a part of them.
    pub fn time_bounds(&self, stages: Stages) -> (u64, u64) {
        let (mut least, mut most) = (0, 0);
        for (run, ns) in self.runs() {
            if stages.meets(run) {
                most += ns;
                if stages.covers(run) {
                    least += ns;
                }
            }
        }
        (least, most)
    }

    /// All observed time.
    pub fn total(&self) -> u64 {
        self.ns.iter().sum()
    }

    /// Whether its bio was observed: what it waited for before its request.
    pub const fn has_waits(&self) -> bool {
        self.begins & ((1 << StageSet::Full.before()) - 1) != 0
    }

    /// Whether a clock can have shown these times: at most 52 days for the command, and less than 36 years
    /// since the start of the machine. Rules multiply and add such times.
    fn is_of_a_clock(&self) -> bool {
        let longest = self.ns.iter().all(|ns| *ns <= LONGEST_NS / STAGES as u64);
        longest && self.at.begin_ns.max(self.at.end_ns) < NO_TIME_NS
    }

    /// Whether the command reads (opcode 2) or writes (1).
    pub const fn is_read_or_write(&self) -> bool {
        matches!(self.class.opcode.code, 1 | 2)
    }

    /// Which pool of [`Commands`] it is kept in.
    const fn pool(&self) -> usize {
        !self.is_read_or_write() as usize
    }

    /// The code of its opcode.
    pub const fn code(&self) -> u8 {
        self.class.opcode.code
    }
}

/// The commands in memory, and how many there were.
#[derive(Clone, Debug, Default)]
pub struct Commands {
    /// In the order of their completion.
    pub kept: Vec<Command>,
    /// Commands of at least 100 ms that are not in `kept`.
    pub long: Vec<Command>,
    /// I/O commands with points.
    pub seen: u64,
    /// Finished commands without points.
    pub without_points: u64,
    /// Of reads and writes, and of all others: how many there were, and log2 of how many blocks there are for
    /// each that is kept.
    pools: [(u64, u32); 2],
    /// How many fit in memory, if it is not the usual number.
    pub room: Option<usize>,
}

impl Commands {
    /// The command of an event, if it is an I/O command with points. Counts I/O commands without points.
    pub fn read(&mut self, event: &Event, block_sizes: &BlockSizes) -> Option<Command> {
        let command = Command::of(event, block_sizes).filter(Command::is_of_a_clock);
        if command.is_none() {
            let is_io = Finished::of(event).is_some_and(|f| f.id.opcode.queue == QueueKind::Io);
            self.without_points += u64::from(is_io);
        }
        command
    }

    /// Adds a command.
    pub fn add(&mut self, command: Command) {
        self.seen += 1;
        let (seen, halvings) = &mut self.pools[command.pool()];
        let is_kept = (*seen / BLOCK).trailing_zeros() >= *halvings;
        *seen += 1;
        if is_kept {
            self.kept.push(command);
        } else {
            self.leave_out(command);
        }
        if self.kept.len() > self.room.unwrap_or(MOST) {
            self.thin();
        }
    }

    fn leave_out(&mut self, command: Command) {
        if command.at.time_ns() >= LONG_NS && self.long.len() < MOST_LONG {
            self.long.push(command);
        }
    }

    /// Drops every second block of the pool that has more commands.
    fn thin(&mut self) {
        let others = self.kept.iter().filter(|c| !c.is_read_or_write()).count();
        let larger = usize::from(others > self.kept.len() / 2);
        self.pools[larger].1 += 1;
        let mut at = 0;
        for command in std::mem::take(&mut self.kept) {
            let is_of_larger = command.pool() == larger;
            at += u64::from(is_of_larger);
            if is_of_larger && (at - 1) / BLOCK % 2 == 1 {
                self.leave_out(command);
            } else {
                self.kept.push(command);
            }
        }
    }

    /// How many commands this one of `kept` stands for.
    pub const fn weight(&self, command: &Command) -> u64 {
        1 << self.pools[command.pool()].1
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::point::HAS_BEFORE;
    use crate::testing::{ALL_SEEN, EventBuilder, STAGES as TIMES};
    use proptest::prelude::*;

    const BEGIN_NS: u64 = 1_000_000_000;

    fn command(event: &Event) -> Option<Command> {
        Command::of(event, &BlockSizes::default())
    }

    proptest! {
        #[test]
        fn the_stages_are_those_of_the_timeline(
            stages in prop::array::uniform8(0_u64..1 << 36),
            pattern in 0..HAS_BEFORE,
        ) {
            let event = EventBuilder::staged(BEGIN_NS, stages).pattern(pattern).command();
            let timeline = event.what.outcome().unwrap().timeline.unwrap();
            let segments = timeline.segments(StageSet::Full).unwrap();
            let Some(command) = command(&event) else {
                prop_assert!(segments.is_empty());
                return Ok(());
            };
            let runs: Vec<(Stages, u64)> = command.runs().collect();
            let wanted = segments.iter().map(|s| (Stages::range(s.run.first, s.run.last + 1), s.ns));
            prop_assert_eq!(&runs, &wanted.collect::<Vec<_>>());
            prop_assert_eq!(Some(command.total()), timeline.total(StageSet::Full));
            for (run, ns) in runs {
                prop_assert_eq!(command.time_in(run), Some(ns));
                prop_assert_eq!(command.time_bounds(run).0, ns);
            }
        }
    }

    #[test]
    fn a_merged_stage_is_not_known_by_its_parts() {
        // the doorbell was not observed
        let made = EventBuilder::staged(BEGIN_NS, TIMES).pattern(ALL_SEEN & !(1 << 3));
        let command = command(&made.command()).unwrap();
        let both = Stages::SUBMIT.with(Stages::DEVICE);
        assert_eq!(command.time_in(both), Some(104_000));
        assert_eq!(command.time_in(Stages::DEVICE), None);
        assert_eq!(command.time_in(Stages::DEVICE.with(Stages::IRQ)), None);
        assert_eq!(command.time_in(Stages::MAP.with(Stages::IRQ)), Some(5000));
        assert_eq!(command.time_bounds(Stages::DEVICE.with(Stages::IRQ)).0, 3000);
        assert_eq!(command.time_bounds(Stages::DEVICE).1, 104_000);
        assert_eq!(command.time_bounds(Stages::DEVICE.with(Stages::IRQ)).1, 107_000);
        assert_eq!(command.time_bounds(Stages::MAP).1, 2000);
        assert_eq!(command.time_in(Stages::ALL), Some(119_000));
    }

    #[test]
    fn commands_of_the_admin_queue_and_without_points_are_left_out() {
        let mut commands = Commands::default();
        let none = BlockSizes::default();
        let made = EventBuilder::staged(BEGIN_NS, TIMES);
        for made in [made, made.timeline(None), made.opcode(QueueKind::Admin, 2)] {
            if let Some(command) = commands.read(&made.command(), &none) {
                commands.add(command);
            }
        }
        assert_eq!((commands.seen, commands.without_points), (1, 1));
    }

    /// Times that a recording may have, and no machine.
    #[test]
    fn commands_with_times_that_no_clock_shows_are_left_out() {
        let lasts = |ns| {
            let mut stages = TIMES;
            stages[4] = ns;
            EventBuilder::staged(BEGIN_NS, stages)
        };
        let ends = |ns| EventBuilder::staged(ns - TIMES.iter().sum::<u64>(), TIMES);
        let longest = LONGEST_NS / STAGES as u64;
        for (made, kept) in [
            (lasts(longest), 1),
            (lasts(longest + 1), 0),
            (lasts(u64::MAX / 2), 0),
            (ends(NO_TIME_NS - 1), 1),
            (ends(NO_TIME_NS), 0),
            (ends(u64::MAX), 0),
        ] {
            let mut commands = Commands::default();
            let command = commands.read(&made.command(), &BlockSizes::default());
            assert_eq!((command.is_some(), commands.without_points), (kept == 1, 1 - kept));
        }
    }

    /// The commands of a run in which each hundredth takes long, and each tenth is a flush.
    fn many(count: u64, most: usize) -> Commands {
        let mut commands = Commands { room: Some(most), ..Commands::default() };
        for n in 0..count {
            let mut stages = TIMES;
            if n % 100 == 7 {
                stages[4] = LONG_NS;
            }
            let made = EventBuilder::staged(BEGIN_NS + n * 1_000_000, stages)
                .cid(n as u16)
                .code(if n % 10 == 0 { 0 } else { 2 });
            commands.add(command(&made.command()).unwrap());
        }
        commands
    }

    #[test]
    fn what_is_kept_stands_for_all_and_long_commands_stay() {
        let commands = many(20_000, 1000);
        assert_eq!(commands.seen, 20_000);
        assert!((500..=1000).contains(&commands.kept.len()));
        let kept = commands.kept.iter();
        let of = |flush: bool| {
            let kind = kept.clone().filter(move |c| (c.code() == 0) == flush);
            kind.map(|c| commands.weight(c)).sum::<u64>() as f64
        };
        // a block and its weight
        assert!((of(true) / 2000.0 - 1.0).abs() < 0.2, "{}", of(true));
        assert!((of(false) / 18_000.0 - 1.0).abs() < 0.1, "{}", of(false));
        let all = kept.clone().chain(&commands.long);
        let long = all.filter(|c| c.total() >= LONG_NS).count();
        assert_eq!(long, 200);
        // neighbours: most reads are kept with the next one
        let reads: Vec<u16> = (kept.filter(|c| c.code() == 2)).map(|c| c.at.cid.unwrap()).collect();
        let pairs = reads.windows(2).filter(|w| w[1] - w[0] <= 2).count();
        assert!(pairs * 10 > reads.len() * 9, "{pairs} {}", reads.len());
    }

    #[test]
    fn with_room_every_command_is_kept() {
        let commands = many(1000, 1000);
        assert_eq!((commands.kept.len(), commands.long.len()), (1000, 0));
        assert!(commands.kept.iter().all(|c| commands.weight(c) == 1));
    }

    #[test]
    fn a_run_of_one_kind_is_thinned_too() {
        let mut commands = Commands { room: Some(1000), ..Commands::default() };
        for n in 0..5000 {
            let made = EventBuilder::staged(BEGIN_NS + n * 1_000_000, TIMES).code(0);
            commands.add(command(&made.command()).unwrap());
        }
        assert!(commands.kept.len() <= 1000, "{}", commands.kept.len());
        assert_eq!(commands.weight(&commands.kept[0]), 8);
    }
}
