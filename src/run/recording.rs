// SPDX-License-Identifier: MIT OR Apache-2.0
//! The file of `record` and of `trace --tee`: opened, kept up to date, ended.

use std::collections::HashMap;
use std::fs::File;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::error::{Failure, Kind};
use crate::machine::System;
use crate::machine::clock::{SharedClocks, monotonic_ns, wall_offset_ns};
use crate::model::event::{Event, StackId};
use crate::model::ledger::Ledger;
use crate::model::machine::{ClockReading, ControllerInfo};
use crate::model::stack::Frame;
use crate::model::stage::StageSet;
use crate::model::target::{HostController, TargetInfo};
use crate::recording::{
    Content, Fact, Keep, KernelLine, LedgerInfo, RingCopy, RingInfo, RunInfo, StackInfo, Writer,
    Written,
};
use crate::settings::{OriginDetail, Settings};
use crate::units::size_text;
use anyhow::Result;

use crate::run::cgroup_log::{CGROUPS_OF_BLOCK, CgroupLog};
use crate::run::eprint_note;
use crate::run::outfile::{OutFile, Rules};

/// Settings of the file.
#[derive(Clone, Copy)]
pub struct FileSettings<'a> {
    /// Its path.
    pub path: &'a Path,
    /// Replace it if it exists.
    pub force: bool,
    /// Recordings that are read: it must not be one of them.
    pub inputs: &'a [PathBuf],
    /// Leave out names.
    pub redact: bool,
    /// Record this many commands only.
    pub count: Option<u64>,
    /// Keep the last blocks in memory until `dump`.
    pub keep: Option<Keep>,
}

impl<'a> FileSettings<'a> {
    /// A file with everything that comes.
    pub const fn whole(path: &'a Path, force: bool, inputs: &'a [PathBuf]) -> Self {
        Self { path, force, inputs, redact: false, count: None, keep: None }
    }
}

/// What has fired a trigger.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Fired {
    /// In a few words.
    pub what: String,
    /// When, CLOCK_MONOTONIC nanoseconds.
    pub at_ns: u64,
}

/// What was in a ring, to be written.
pub struct RingFile {
    ring: RingCopy,
    info: RunInfo,
    end: LedgerInfo,
}

impl RingFile {
    /// Writes it with the kernel's log of its time. Returns what was written, in words.
    ///
    /// # Errors
    /// If the file exists or cannot be written; one sentence.
    pub fn write(&self, path: &Path, system: &System) -> Result<String> {
        let rules = Rules { is_recording: true, is_binary: true, ..Rules::default() };
        let (out, file) = OutFile::create(path, &rules)?;
        let first_ns = self.ring.first_ns.unwrap_or(self.info.begin_ns);
        let log = kernel_log(&self.info, first_ns, system);
        let written = self.ring.write(file, &self.info, &log, &self.end);
        let bytes = written.map_err(|error| out.failed(error))?;
        let name = out.name();
        out.keep()?;
        let ring = self.info.ring.as_ref().map(RingInfo::text).unwrap_or_default();
        let (events, size) = (self.ring.events, size_text(bytes));
        Ok(format!("{name}: {events} events, {size}, {ring}"))
    }
}

/// The kernel's log since this time for the recording of a ring. It may have names: a redacted one has none.
fn kernel_log(info: &RunInfo, since_ns: u64, system: &System) -> Vec<KernelLine> {
    if info.redacted {
        return Vec::new();
    }
    system.kernel_log(since_ns).unwrap_or_else(|why| {
        eprint_note(&format!("the kernel's log can't be read ({why}): it takes CAP_SYSLOG"));
        Vec::new()
    })
}

/// Warns if the recording is on an NVMe disk of this machine: writing it makes commands.
pub fn warn_if_traced(file: &File, name: &str, system: &System) {
    if let Some(disk) = system.nvme_disk_of(file) {
        eprint_note(&format!(
            "{name} is on {disk}: writing it makes commands, which are recorded too. Write to \
             a tmpfs instead, or leave that controller out (--ctrl)"
        ));
    }
}

/// A recording in a file.
pub struct FileWriter {
    file: OutFile,
    writer: Writer,
    info: RunInfo,
    offset: Option<i64>,
    /// `None`: the events are not of this machine.
    clocks: Option<SharedClocks>,
    evicted: u64,
    /// Numbers of the stacks in this file. The session's are hashes of kernel addresses.
    stacks: HashMap<StackId, StackId>,
    /// `None`: no cgroups are recorded.
    cgroups: Option<CgroupLog>,
}

/// What every recording has of this machine.
fn of_machine(system: &System) -> RunInfo {
    let identity = system.identity();
    RunInfo {
        program: env!("CARGO_PKG_VERSION").into(),
        host: identity.host,
        kernel: identity.kernel,
        arch: identity.arch,
        machine: Some(identity.hypervisor),
        boot_id: identity.boot_id,
        ..RunInfo::default()
    }
}

/// What a recording has of its run.
fn info(
    settings: &Settings,
    system: &System,
    FileSettings { redact, count, .. }: FileSettings<'_>,
) -> RunInfo {
    let (events, stack, outcome) = (settings.events(), settings.stack(), settings.outcome());
    let mut info = RunInfo {
        pairs: events.is_none_or(|events| !events.submits),
        stage_set: settings.stage_set,
        stack: stack.map(|stack| stack.at),
        sample_period: stack.map_or(1, |stack| stack.period),
        filter: settings.filter.text().into(),
        slow_ns: outcome.slow.map(|slow| u64::try_from(slow.as_nanos()).unwrap_or(u64::MAX)),
        errors: outcome.errors,
        count,
        sq: events.map(|events| events.sq),
        aen: events.map(|events| events.aen),
        context: settings.context(),
        cgroups: settings.origin() != OriginDetail::Nobody,
        submitters: settings.origin() == OriginDetail::Submitters,
        ..of_machine(system)
    };
    if redact {
        info.redact();
    }
    info
}

impl FileWriter {
    /// Creates the file. Call this before anything is attached, so that a run does not fail at its
    /// end because of the path.
    ///
    /// # Errors
    /// If the file exists or cannot be written; one sentence.
    pub fn create(file: &FileSettings<'_>, settings: &Settings, system: &System) -> Result<Self> {
        let clocks = Some(SharedClocks::look(system));
        let mut recording = Self::open(file, info(settings, system, *file), clocks, Some(system))?;
        let has_cgroups = settings.origin() != OriginDetail::Nobody;
        recording.cgroups = has_cgroups.then(|| CgroupLog::new(system, file.redact));
        Ok(recording)
    }

    /// Creates the file for the events of a target, and describes its run, which begins now.
    ///
    /// # Errors
    /// If the file exists or cannot be written; one sentence.
    pub fn of_target(file: &FileSettings<'_>, target: TargetInfo, system: &System) -> Result<Self> {
        let clocks = SharedClocks::look(system).with_machine(system, target.pid);
        let info =
            RunInfo { target: Some(target), stage_set: StageSet::Host, ..of_machine(system) };
        let mut recording = Self::open(file, info, Some(clocks), None)?;
        recording.begin();
        Ok(recording)
    }

    /// Creates the file for what was read from a text, and describes it.
    ///
    /// # Errors
    /// If the file exists or cannot be written; one sentence.
    pub fn of_text(file: &FileSettings<'_>, info: RunInfo) -> Result<Self> {
        let program = env!("CARGO_PKG_VERSION").into();
        let mut recording = Self::open(file, RunInfo { program, ..info }, None, None)?;
        recording.writer.block(Content::Run, recording.info.begin_ns, &recording.info);
        Ok(recording)
    }

    /// Only its owner may read the file: it has names of processes and disks. With `system`, reports it
    /// if the file is on a disk whose commands are recorded.
    fn open(
        file: &FileSettings<'_>,
        info: RunInfo,
        clocks: Option<SharedClocks>,
        system: Option<&System>,
    ) -> Result<Self> {
        let rules =
            Rules { force: file.force, inputs: file.inputs, is_recording: true, is_binary: true };
        let (out, created) = OutFile::create(file.path, &rules)?;
        system.iter().for_each(|system| warn_if_traced(&created, &out.name(), system));
        let writer = Writer::create(created, file.keep);
        let writer = writer.map_err(|error| out.failed(error))?;
        Ok(Self {
            file: out,
            writer,
            info,
            offset: None,
            clocks,
            evicted: 0,
            stacks: HashMap::new(),
            cgroups: None,
        })
    }

    /// What the run observes of who caused each command, if that is less than its settings ask for.
    pub fn shows(&mut self, origin: OriginDetail) {
        self.info.cgroups = origin != OriginDetail::Nobody;
        self.info.submitters = origin == OriginDetail::Submitters;
        self.cgroups.take_if(|_| origin == OriginDetail::Nobody);
    }

    /// Describes the run, which begins now. Call this when everything is attached: without a run, the
    /// file is removed.
    pub fn begin(&mut self) {
        if self.clocks.is_some() {
            self.info.begin_ns = monotonic_ns();
            self.info.wall_ns = (!self.info.redacted).then(wall_offset_ns);
        }
        self.writer.block(Content::Run, self.info.begin_ns, &self.info);
        self.clock_readings();
        let all = self.cgroups.as_mut().map(CgroupLog::all);
        for some in all.unwrap_or_default().chunks(CGROUPS_OF_BLOCK) {
            self.writer.block(Content::Cgroups, self.info.begin_ns, &some);
        }
    }

    /// CLOCK_MONOTONIC nanoseconds at which the run began.
    pub const fn begin_ns(&self) -> u64 {
        self.info.begin_ns
    }

    /// Its name in messages.
    pub fn name(&self) -> String {
        self.file.name()
    }

    /// The time of a block that has none of its own.
    fn now(&self) -> u64 {
        self.clocks.as_ref().map_or(self.info.begin_ns, |_| monotonic_ns())
    }

    /// Adds what a run of this machine says besides its events.
    pub fn fact(&mut self, mut fact: Fact) {
        if self.info.redacted {
            fact.redact();
        }
        match &fact {
            Fact::Stacks(all) => all.iter().for_each(|(id, frames)| self.stack(*id, frames)),
            Fact::Controllers(all) => self.controllers(all),
            // it could identify recordings of the same boot
            Fact::Clock(offset) if !self.info.redacted && self.offset != Some(offset.wall_ns) => {
                self.offset = Some(offset.wall_ns);
                self.writer.block(Content::Clock, self.now(), offset);
            }
            Fact::Activity(activity) => {
                self.writer.block(Content::Activity, activity.at_ns, activity);
            }
            Fact::Machine(machine) => self.writer.block(Content::Machine, self.now(), machine),
            // the file has its own
            _ => {}
        }
    }

    /// Adds an event.
    #[inline]
    pub fn event(&mut self, event: &Event) {
        let redact = self.info.redacted;
        if let Some(log) = &mut self.cgroups {
            let new = log.new_ones(event);
            if !new.is_empty() {
                self.writer.block(Content::Cgroups, event.at_ns, &new);
            }
        }
        if !redact && self.info.stack.is_none() {
            self.writer.push(event);
            return;
        }
        let mut event = if redact { event.redacted() } else { *event };
        event.renumber_stacks(|id| self.stacks.get(&id).copied().unwrap_or_default());
        self.writer.push(&event);
    }

    /// Sets the controllers of a target that are known from here on.
    pub fn target_controllers(&mut self, controllers: &[HostController]) {
        self.writer.block(Content::Controllers, self.now(), &controllers);
    }

    /// Adds a stack, before the first event with it.
    pub fn stack(&mut self, id: StackId, frames: &[Frame]) {
        let number = StackId(self.stacks.len() as u64 + 1);
        self.stacks.insert(id, number);
        let stacks = [StackInfo { id: number, frames: frames.to_vec() }];
        self.writer.block(Content::Stacks, self.now(), &stacks);
    }

    /// Adds the controllers, as they are from here on.
    pub fn controllers(&mut self, controllers: &[ControllerInfo]) {
        self.writer.block(Content::Controllers, self.now(), &controllers);
    }

    /// Adds readings of the clocks, once a second.
    pub fn clock_readings(&mut self) {
        let due = self.clocks.as_mut().and_then(SharedClocks::read_if_due);
        due.into_iter().for_each(|readings| self.readings(&readings));
    }

    fn readings(&mut self, readings: &[ClockReading]) {
        if self.info.redacted {
            // they could identify recordings of the same boot
            return;
        }
        self.writer.block(Content::Readings, self.now(), &readings);
    }

    /// Adds the ledger up to here, and writes what waits. What is recorded here can't be had again: from now
    /// on it stays if the run fails.
    pub fn ledger(&mut self, at: Duration, ledger: &Ledger) {
        self.clock_readings();
        self.put_ledger(Content::Ledger, at, ledger);
        self.writer.flush();
        if self.clocks.is_some() {
            self.file.outlives_failure();
        }
    }

    fn put_ledger(&mut self, content: Content, at: Duration, ledger: &Ledger) {
        let info = LedgerInfo {
            at_ns: u64::try_from(at.as_nanos()).unwrap_or(u64::MAX),
            evicted: self.evicted,
            ledger: Some(ledger),
        };
        self.writer.block(content, self.now(), &info);
    }

    /// Writes what was kept in memory. What comes later goes to the file.
    pub fn dump(&mut self) {
        self.evicted = self.writer.dump();
    }

    /// Adds the kernel's log of the run.
    pub fn kernel_log(&mut self, system: &System) {
        let lines = kernel_log(&self.info, self.info.begin_ns, system);
        if !lines.is_empty() {
            self.writer.block(Content::KernelLog, monotonic_ns(), &lines);
        }
    }

    /// What is in the ring, as a recording of its own; `None`: there is no ring. The ring goes on.
    pub fn ring(&mut self, fired: &Fired, at: Duration, ledger: &Ledger) -> Option<RingFile> {
        let ring = self.writer.ring()?;
        let first_ns = ring.first_ns.unwrap_or(fired.at_ns);
        let mut info = RunInfo { wall_ns: self.offset.or(self.info.wall_ns), ..self.info.clone() };
        info.ring = Some(RingInfo {
            trigger: fired.what.as_str().into(),
            trigger_ns: fired.at_ns,
            reaches_ns: fired.at_ns.saturating_sub(first_ns),
        });
        let end = LedgerInfo {
            at_ns: u64::try_from(at.as_nanos()).unwrap_or(u64::MAX),
            evicted: ring.evicted,
            ledger: Some(ledger.clone()),
        };
        Some(RingFile { ring, info, end })
    }

    /// Bytes in the file, or kept in memory.
    pub fn bytes(&self) -> u64 {
        self.writer.bytes()
    }

    /// Whether the file could not be written.
    pub fn has_failed(&self) -> bool {
        self.writer.has_failed()
    }

    /// Ends the file. One that could not be written to its end is kept as far as it was written.
    ///
    /// # Errors
    /// If the file could not be written to its end; one sentence.
    pub fn finish(mut self, at: Duration, ledger: &Ledger) -> Result<Written> {
        self.dump();
        if let Some(readings) = self.clocks.as_ref().map(SharedClocks::read) {
            self.readings(&readings);
        }
        self.put_ledger(Content::End, at, ledger);
        let mut written = self.writer.finish();
        let Some(error) = written.error.take() else {
            self.file.keep()?;
            return Ok(written);
        };
        if error.kind() == ErrorKind::BrokenPipe || !self.file.is_file() {
            return Err(self.file.failed(error));
        }
        let name = self.file.name();
        let mut text = format!(
            "{name} can't be written ({error}): {} events are missing at its end; the {} before them can \
             be read. Make room, or write elsewhere",
            written.lost, written.events
        );
        // what can be read is worth keeping
        if let Err(second) = self.file.keep() {
            text += &format!("; {second}");
        }
        Err(Failure::error(Kind::Run, text))
    }
}
