// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reading recordings (`--from`): opened, checked for what is asked of them, and their end reported.

use std::fmt::Display;
use std::fs::{File, Metadata};
use std::io::{BufReader, IsTerminal, stdout};
use std::mem::take;
use std::ops::Range;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::error::Kind;
use crate::machine::cgroups::Pseudonyms;
use crate::model::event::Event;
use crate::model::filter::quoted;
use crate::model::ledger::{Accuracy, EventClass, Ledger, TraceLedger};
use crate::model::report::recount::Recount;
use crate::model::snapshot::Snapshot;
use crate::model::stack::StackAt;
use crate::model::stage::StageSet;
use crate::model::text::{Text, printable};
use crate::recording::{Ending, Error as RecordingError, Item, LedgerInfo, Reader};
use crate::settings::{Outcome, Settings};
use crate::when::RunClock;
use anyhow::{Result, bail};

use super::census::Census;
use super::recorded_who::{check_who, learn_cgroups};
use crate::run::exit::Failure;
use crate::run::progress::Progress;
use crate::run::{eprint_note, input};

/// A recording that is being read, and the last ledger that it had.
pub struct Replay {
    reader: Reader<BufReader<File>>,
    path: Text,
    file: PathBuf,
    /// Device and inode.
    file_id: (u64, u64),
    ledger: Option<Box<LedgerInfo>>,
    /// There is a new one.
    is_new: bool,
    /// Commands after that ledger.
    later: u64,
    /// Times of the first and the last event.
    span_ns: Option<(u64, u64)>,
    /// Size in bytes.
    size: u64,
    progress: Option<Progress>,
    /// Which commands were asked for.
    settings: Settings,
    /// The part that was asked for, CLOCK_MONOTONIC nanoseconds.
    window: Range<u64>,
    /// What that took; of no use without a window.
    clock: RunClock,
    /// Commands of the file, and those that the settings select. Counted if these select some only.
    commands: u64,
    selected: u64,
    is_quiet: bool,
    is_silent: bool,
    /// Other names instead of those of cgroups; `Some`: the names are left out.
    redactor: Option<Pseudonyms>,
}

/// The options that select commands by what they are, as text. Empty: all commands.
fn choice(settings: &Settings) -> String {
    let Outcome { slow, errors } = settings.outcome();
    let slow = slow.map(|time| format!("--slow {time:?}").replace('µ', "u"));
    let errors = errors.then(|| "--errors".to_owned());
    let filter = Some(settings.filter.text()).filter(|text| !text.is_empty());
    let all = [filter, slow, errors].into_iter().flatten();
    all.collect::<Vec<String>>().join(" ")
}

/// The same with the options that select a part of the recording.
fn whole_choice(settings: &Settings) -> String {
    let window = settings.window.options();
    let window = window.map(|(option, time)| format!("{option} {}", quoted(&time.to_string())));
    let other = Some(choice(settings)).filter(|text| !text.is_empty());
    window.chain(other).collect::<Vec<String>>().join(" ")
}

/// Counts the command of an event.
///
/// # Errors
/// If there are more rows than can be counted; one sentence.
pub fn count(recount: &Recount, event: &Event, to: &mut Snapshot) -> Result<()> {
    let counted = recount.add(event, to);
    counted.map_err(|error| Failure::error(Kind::Usage, format!("the recording: {error}")))
}

fn failure(path: &impl Display, error: &RecordingError) -> anyhow::Error {
    let kind = match error {
        RecordingError::Io(_) => Kind::Run,
        _ => Kind::Usage,
    };
    Failure::error(kind, format!("{path}: {error}"))
}

/// Opens a recording of the driver.
///
/// # Errors
/// If it cannot be read, or is none; one sentence.
fn open_recording(path: &Path) -> Result<(Reader<BufReader<File>>, Metadata)> {
    let shown = printable(path);
    let (file, metadata) = input::open(path)?;
    let reader = BufReader::with_capacity(1 << 16, file);
    let reader = Reader::open(reader).map_err(|e| failure(&shown, &e))?;
    if reader.info().target.is_some() {
        let text = format!(
            "{shown} is a recording of the host side: read it with `host trace --from`, `host \
             latency --from` or `join`"
        );
        return Err(Failure::error(Kind::Usage, text));
    }
    Ok((reader, metadata))
}

impl Replay {
    /// Opens a recording for a command with these settings.
    ///
    /// # Errors
    /// If the file cannot be read, or lacks what the settings ask for; one sentence.
    pub fn open(path: &Path, settings: &Settings) -> Result<Self> {
        Self::open_by(path, settings, "--stages")
    }

    /// The same for a command that asks for stages by another option.
    ///
    /// # Errors
    /// As before.
    pub fn open_by(path: &Path, settings: &Settings, stages: &str) -> Result<Self> {
        let (reader, metadata) = open_recording(path)?;
        let info = reader.info();
        let settings = &settings.for_recording(info.stage_set, info.submitters);
        let shown = printable(path);
        // a terminal that gets the output has no room for another line
        let has_room = !stdout().is_terminal();
        let mut replay = Self {
            progress: has_room.then(|| Progress::reading(&shown)).flatten(),
            reader,
            path: Text::from_os(path),
            file: path.to_owned(),
            file_id: (metadata.dev(), metadata.ino()),
            ledger: None,
            is_new: false,
            later: 0,
            span_ns: None,
            size: metadata.len(),
            settings: settings.clone(),
            window: 0..u64::MAX,
            clock: RunClock::default(),
            commands: 0,
            selected: 0,
            is_quiet: false,
            is_silent: false,
            redactor: None,
        };
        replay.check(settings, stages)?;
        if settings.window.is_some() {
            replay.clock = replay.clock()?;
            replay.window = replay.find_window()?;
            replay.reader.skip_to(replay.window.start);
        }
        if let Some(disk) = &settings.window.disk {
            input::require_file(path, "--disk")?;
            replay.find_disk(path, disk)?;
        } else if metadata.is_file() {
            replay.check_devices(path)?;
        }
        Ok(replay)
    }

    /// The error of an option that needs the time of day, where it is not known.
    pub fn timeless(&self, advice: &str) -> anyhow::Error {
        let why = if self.info().redacted { " (it is redacted)" } else { "" };
        let text = format!("{} does not know the time of day{why}: {advice}", self.path);
        Failure::error(Kind::Usage, text)
    }

    /// Finds the part that was asked for.
    fn find_window(&self) -> Result<Range<u64>> {
        let (path, clock) = (&self.path, self.clock);
        let mut range = 0..u64::MAX;
        for (option, time) in self.settings.window.options() {
            let advice = format!("give a time since its start, as in `{option} 7s`");
            let at_ns = time.at_ns(clock).ok_or_else(|| self.timeless(&advice))?;
            match option {
                "--since" => range.start = at_ns,
                _ => range.end = at_ns,
            }
        }
        let first = range.start.max(clock.begin_ns);
        if range.end <= first {
            let (first, end) = (clock.text(first), clock.text(range.end));
            let text = format!(
                "{path}: --until ({end}) is not after the first time to read ({first}): give a later one"
            );
            return Err(Failure::error(Kind::Usage, text));
        }
        Ok(range)
    }

    /// The part that was asked for, in CLOCK_MONOTONIC nanoseconds.
    pub fn window(&self) -> Range<u64> {
        self.window.clone()
    }

    /// Refuses controllers and namespaces that the recording does not have. Reads as much of the file
    /// as that takes, by a second look at it.
    fn check_devices(&self, path: &Path) -> Result<()> {
        let filter = &self.settings.filter;
        if filter.ctrls.is_empty() && filter.nsids.is_empty() {
            return Ok(());
        }
        let (mut reader, _) = open_recording(path)?;
        let (mut census, mut more) = (Census::default(), true);
        while more && census.lacks(filter).is_some() {
            let read = reader.next_block(&mut |item| census.add(item));
            more = read.map_err(|e| failure(&self.path, &e))?;
        }
        let lacks = census.lacks(filter);
        lacks.map_or(Ok(()), |what| {
            let text = format!("{} has {what}", self.path);
            Err(Failure::error(Kind::NoDevice, text))
        })
    }

    /// Finds the controllers and the namespace of a disk, by a second look at the file.
    fn find_disk(&mut self, path: &Path, disk: &str) -> Result<()> {
        let (mut reader, _) = open_recording(path)?;
        let (mut census, mut more) = (Census::default(), true);
        while more && census.places(disk).0.is_empty() {
            let read = reader.next_block(&mut |item| census.add(item));
            more = read.map_err(|e| failure(&self.path, &e))?;
        }
        let filter = &mut self.settings.filter;
        (filter.ctrls, filter.nsids) = census.places(disk);
        if filter.ctrls.is_empty() {
            let (path, all) = (&self.path, census.disks());
            let text = format!("{path} has no disk {}: it has {all}", printable(Path::new(disk)));
            return Err(Failure::error(Kind::NoDevice, text));
        }
        Ok(())
    }

    /// Refuses, by name, what the recording lacks.
    fn check(&self, settings: &Settings, stages: &str) -> Result<()> {
        let info = self.reader.info();
        let refuse = |text| Err(Failure::error(Kind::Usage, text));
        let path = &self.path;
        let lacks = |what: &str, how: &str, option: &str| {
            refuse(format!("{path} has no {what}: record {how}, or omit {option}"))
        };
        match settings.stage_set {
            StageSet::Total => {}
            StageSet::Basic if info.stage_set == StageSet::Total => {
                return lacks("stages", "with --stages=basic", stages);
            }
            StageSet::Fine if !info.stage_set.is_fine() => {
                return lacks("fine stages", "with --stages=fine", stages);
            }
            StageSet::Full if info.stage_set != StageSet::Full => {
                return lacks("waits before the request", "with --stages=full", stages);
            }
            StageSet::Basic | StageSet::Fine | StageSet::Full => {}
        }
        check_who(info, path, settings)?;
        if let Some(events) = settings.events() {
            if events.sq && info.sq == Some(false) {
                return lacks("SQ heads and tails", "with `trace --sq --tee`", "--sq");
            }
            if events.aen && info.aen == Some(false) {
                return lacks("asynchronous events", "with `trace --aen --tee`", "--aen");
            }
        }
        let period = settings.stack().map_or(1, |stack| stack.period);
        if period != 1 && period != info.sample_period {
            return refuse(format!(
                "--sample can't change which stacks {path} has, those of one command in {}: omit \
                 --sample",
                info.sample_period
            ));
        }
        self.check_stacks(settings)
    }

    /// Refuses stacks that the recording lacks.
    fn check_stacks(&self, settings: &Settings) -> Result<()> {
        let at = settings.stack().map(|stack| stack.at);
        let Some(at) = at.filter(|_| at != self.info().stack) else {
            return Ok(());
        };
        let name = |at: StackAt| format!("{at:?}").to_lowercase();
        let at = name(at);
        let otherwise = match (self.info().stack.map(name), settings.sums_stacks()) {
            (Some(other), true) => format!(", or use --at {other}"),
            (Some(other), false) => format!(", or use --kstack={other}"),
            (None, true) => String::new(),
            (None, false) => ", or omit --kstack".into(),
        };
        let text = format!(
            "{} was recorded without kernel stacks at {at}: record again with --kstack={at}{otherwise}",
            self.path
        );
        Err(Failure::error(Kind::Usage, text))
    }

    /// Leaves out what `record --redact` leaves out: names of the machine, of its controllers, of processes
    /// and of cgroups.
    pub fn redact(&mut self) {
        if self.info().redacted {
            return;
        }
        self.reader.info_mut().redact();
        self.redactor = Some(Pseudonyms::default());
    }

    /// Whether names are left out that the file may have.
    pub const fn is_redacting(&self) -> bool {
        self.redactor.is_some()
    }

    /// Whether times of day, which a file may have all the same, are not shown: it was recorded without names.
    pub(super) fn hides_clock(&self) -> bool {
        self.info().redacted && !self.is_redacting()
    }

    pub(super) const fn take_redactor(&mut self) -> Option<Pseudonyms> {
        self.redactor.take()
    }

    pub(super) fn put_redactor(&mut self, redactor: Option<Pseudonyms>) {
        self.redactor = redactor;
    }

    /// Whether the settings select every event of a command.
    pub fn selects_all(&self) -> bool {
        choice(&self.settings).is_empty()
    }

    /// The file.
    pub fn file(&self) -> &Path {
        &self.file
    }

    /// Size in bytes.
    pub const fn size(&self) -> u64 {
        self.size
    }

    /// The path as text.
    pub const fn path(&self) -> &Text {
        &self.path
    }

    /// Device and inode: two paths can be one file.
    pub const fn file_id(&self) -> (u64, u64) {
        self.file_id
    }

    /// The clock of its times, at the first event.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn clock(&mut self) -> Result<RunClock> {
        let clock = self.reader.first_clock();
        let clock = clock.map_err(|e| failure(&self.path, &e))?;
        let known = clock.filter(|_| !self.hides_clock());
        let wall_ns = known.map(|offset| offset.wall_ns);
        Ok(RunClock { begin_ns: self.info().begin_ns, wall_ns })
    }

    /// What was recorded, where and when.
    pub const fn info(&self) -> &crate::recording::RunInfo {
        self.reader.info()
    }

    /// Shows the progress also beside the output on a terminal: the command writes nothing before the
    /// end of the file.
    pub fn show_progress(&mut self) {
        if self.progress.is_none() {
            self.progress = Progress::reading(&self.path.to_string());
        }
    }

    /// Passes on the items of the next block. Returns false at the end.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn next(&mut self, to: &mut dyn FnMut(&Item<'_>)) -> Result<bool> {
        let Self {
            reader,
            ledger,
            is_new,
            later,
            span_ns,
            settings,
            window,
            commands,
            selected,
            ..
        } = self;
        let chooses = !whole_choice(settings).is_empty();
        let read = reader.next_block(&mut |item| match item {
            Item::Event(event) => {
                let first = span_ns.map_or(event.at_ns, |(first, _)| first);
                *span_ns = Some((first, event.at_ns));
                let is_command = EventClass::of(&event.what) == EventClass::Command;
                *later += u64::from(is_command);
                if chooses && is_command {
                    *commands += 1;
                    let is_selected = window.contains(&event.at_ns) && settings.selects(event);
                    *selected += u64::from(is_selected);
                }
                to(item);
            }
            Item::Skipped(block) => {
                let first = span_ns.map_or(block.from_ns, |(first, _)| first);
                *span_ns = Some((first, block.to_ns));
                *later += u64::from(block.commands);
                *commands += if chooses { u64::from(block.commands) } else { 0 };
                to(item);
            }
            Item::Ledger(found) | Item::End(found) => {
                (*ledger, *later, *is_new) = (Some(found.clone()), 0, true);
            }
            other => {
                learn_cgroups(&mut settings.filter, other);
                to(other);
            }
        });
        let more = read.map_err(|e| failure(&self.path, &e))?;
        if let Some(progress) = &mut self.progress {
            progress.step(self.reader.whole_bytes(), self.size);
        }
        if !more {
            self.progress = None;
        }
        Ok(more)
    }

    /// Refuses a recording with two events per command.
    ///
    /// # Errors
    /// If it has two; one sentence.
    pub fn require_pairs(&self) -> Result<()> {
        if self.info().pairs {
            return Ok(());
        }
        Err(Failure::error(
            Kind::Usage,
            format!(
                "{} has two events per command: `trace --events` shows it, without --process and \
                 --lba. Record with `record`, or with `trace --tee` without --events",
                self.path
            ),
        ))
    }

    /// Reports that the recording lacks commands which `trace --tee` did not show, for a command
    /// that counts them.
    pub fn warn_partial(&self) {
        let choice = self.info().chosen_by();
        if !choice.is_empty() {
            eprint_note(&format!(
                "{} has only the commands that `trace {choice} --tee` showed: the counts are theirs",
                self.path
            ));
        }
    }

    /// The last ledger so far.
    pub fn ledger(&self) -> Option<Ledger> {
        self.ledger.as_ref()?.ledger.clone()
    }

    /// The last ledger so far and its time since the start, unless it was taken before.
    pub fn take_ledger(&mut self) -> Option<(Duration, &Ledger)> {
        let (at, is_new) = (self.ledger_at(), take(&mut self.is_new));
        let ledger = self.ledger.as_ref().and_then(|l| l.ledger.as_ref());
        Some(at).zip(ledger).filter(|_| is_new)
    }

    /// The settings that it was opened with.
    pub const fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Commands since the last ledger.
    pub const fn later(&self) -> u64 {
        self.later
    }

    /// After the end: that no command was selected, if commands were to be chosen.
    pub fn unmatched(&self) -> Option<String> {
        let (all, none) = (self.commands, self.selected == 0);
        let text = || format!("0 of {all} commands match {}", whole_choice(&self.settings));
        (all > 0 && none).then(text)
    }

    /// The command itself reports that no command was selected.
    pub const fn leave_unmatched(&mut self) {
        self.is_quiet = true;
    }

    /// Nothing is said about the file: another pass over it does.
    pub const fn be_silent(&mut self) {
        self.is_silent = true;
    }

    /// After the end: the ledger, and the length of the run.
    ///
    /// # Errors
    /// If there is no ledger that can be read.
    pub fn end(&self) -> Result<(Ledger, Duration)> {
        let (path, events) = (&self.path, self.reader.events());
        let evicted = self.ledger.as_ref().map_or(0, |l| l.evicted);
        if evicted > 0 {
            self.say(&format!(
                "{path} has the last {events} events of its run: {evicted} older ones were dropped"
            ));
        }
        if let Some(text) = self.unmatched().filter(|_| !self.is_quiet) {
            self.say(&format!("{path}: {text}"));
        }
        let Some(mut ledger) = self.ledger() else {
            bail!(
                "{path} is cut off at its start, before any counts: no report is possible, record again"
            );
        };
        if self.reader.ending() != Some(Ending::Complete) {
            // what it counted already is among the later ones
            ledger = ledger.when_shown(0);
            ledger.uncovered = self.later;
        }
        let own = ledger.trace.as_ref().and_then(TraceLedger::own_share);
        own.into_iter().for_each(|own| self.say(&format!("{path}: {own}")));
        self.say_window(&ledger);
        Ok((ledger, self.ends_at()))
    }

    /// Says which times of the window the recording does not have, and what its accuracy is about.
    fn say_window(&self, ledger: &Ledger) {
        let (path, clock) = (&self.path, self.clock);
        let window = &self.settings.window;
        let end = self.since_begin(self.end_at());
        for (option, time) in window.options().filter(|(_, time)| time.at_ns(clock) > Some(end)) {
            let (end, begin) = (clock.text(end), clock.text(clock.begin_ns));
            self.say(&format!("{path}: {option} {time} is after its end ({begin} to {end})"));
        }
        if window.is_some() && ledger.accuracy() != Accuracy::Exact {
            self.say(&format!("{path}: the accuracy is that of the whole recording"));
        }
    }

    fn say(&self, text: &str) {
        if !self.is_silent {
            eprint_note(text);
        }
    }

    /// A time since the start in CLOCK_MONOTONIC nanoseconds.
    fn since_begin(&self, at: Duration) -> u64 {
        let ns = u64::try_from(at.as_nanos()).unwrap_or(u64::MAX);
        self.info().begin_ns.saturating_add(ns)
    }

    /// The time since the start at which the part that was asked for ends.
    fn ends_at(&self) -> Duration {
        let window = self.window.end.saturating_sub(self.info().begin_ns);
        self.end_at().min(Duration::from_nanos(window))
    }

    /// The time since the start at which the part that was asked for begins.
    pub fn begins_at(&self) -> Duration {
        Duration::from_nanos(self.window.start.saturating_sub(self.info().begin_ns))
    }

    /// The time since the start at which the recording ends.
    fn end_at(&self) -> Duration {
        if self.reader.ending() == Some(Ending::Complete) {
            return self.ledger_at();
        }
        let last = self.span_ns.map_or(0, |(_, last)| last);
        let last = last.saturating_sub(self.info().begin_ns);
        self.ledger_at().max(Duration::from_nanos(last))
    }

    /// The time that the events cover: less than the run, if a ring dropped the older ones.
    pub fn covers(&self) -> Duration {
        let before = self.covers_from().saturating_sub(self.info().begin_ns);
        self.ends_at().saturating_sub(Duration::from_nanos(before))
    }

    /// Where the covered time begins, in CLOCK_MONOTONIC nanoseconds.
    pub fn covers_from(&self) -> u64 {
        let begin_ns = self.info().begin_ns;
        let first = self.span_ns.filter(|_| self.is_ring());
        first.map_or(begin_ns, |(first, _)| first).max(self.window.start)
    }

    /// Whether a ring dropped older events.
    fn is_ring(&self) -> bool {
        self.ledger.as_ref().is_some_and(|l| l.evicted > 0)
    }

    fn ledger_at(&self) -> Duration {
        Duration::from_nanos(self.ledger.as_ref().map_or(0, |l| l.at_ns))
    }

    /// Whether the file was read to its end.
    pub fn is_whole(&self) -> bool {
        self.reader.ending() == Some(Ending::Complete)
    }

    /// How the file is not whole: `is damaged: ...`. `None`: it is, or the output has ended first.
    pub fn incomplete(&self) -> Option<String> {
        self.reader.ending()?.flaw()
    }

    /// An error if the file is damaged or has no end. To be called after the last output.
    ///
    /// # Errors
    /// If it is; one sentence.
    pub fn check_complete(&self) -> Result<()> {
        let path = &self.path;
        let Some(how) = self.incomplete() else {
            return Ok(());
        };
        Err(Failure::error(
            Kind::Run,
            format!(
                "{path} {how}. Its first {} bytes are whole, with {} events, which are shown; the \
                 accuracy line covers the first {:.1} s only",
                self.reader.whole_bytes(),
                self.reader.events(),
                self.ledger_at().as_secs_f64()
            ),
        ))
    }
}
