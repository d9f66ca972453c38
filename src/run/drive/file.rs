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

use crate::error::{Failure, Kind};
use crate::machine::cgroups;
use crate::machine::cgroups::Pseudonyms;
use crate::model::event::Event;
use crate::model::ledger::{Accuracy, EventClass, Ledger, Shown};
use crate::model::report::recount::Recount;
use crate::model::snapshot::Snapshot;
use crate::model::stack::StackAt;
use crate::model::stage::StageSet;
use crate::model::text::{Text, printable};
use crate::recording::{Error as RecordingError, Fact, Item, LedgerInfo, Reader, RunInfo};
use crate::settings::{OriginDetail, Settings};
use crate::view::header;
use crate::view::header::Header;
use crate::when::RunClock;
use anyhow::{Result, bail};

use super::names::{Devices, Names};
use super::{End, Run, Step};
use crate::run::exit::usage;
use crate::run::progress::Progress;
use crate::run::{eprint_note, input, stdout};

/// A recording that is being read for a command.
pub struct FileReader {
    reader: Reader<BufReader<File>>,
    /// The path as text.
    pub path: Text,
    /// The file.
    pub file: PathBuf,
    /// Device and inode: two paths can be one file.
    pub file_id: (u64, u64),
    /// Size in bytes.
    pub size: u64,
    progress: Option<Progress>,
    /// Which commands were asked for.
    pub settings: Settings,
    /// The part that was asked for, CLOCK_MONOTONIC nanoseconds.
    window: Range<u64>,
    /// The last ledger so far.
    ledger: Option<Box<LedgerInfo>>,
    /// Commands after that ledger.
    later: u64,
    /// Times of the first and the last event.
    span_ns: Option<(u64, u64)>,
    /// Commands that the settings select, and the others.
    pub selected: u64,
    pub unselected: u64,
    /// The last item was not the last one of its block.
    is_in_block: bool,
    /// No option leaves out a command: finished ones need no check.
    selects_all: bool,
    /// It cannot be read to its end.
    pub has_failed: bool,
    /// The file is also read in another pass, which says what is to be said about it.
    pub is_extra_pass: bool,
    /// Other names for cgroups; `Some`: names are left out.
    redactor: Option<Pseudonyms>,
    /// The last event without names, if they are left out.
    redacted: Option<Event>,
}

/// Counts the command of an event.
///
/// # Errors
/// If there are more rows than can be counted; one sentence.
pub fn count(recount: &Recount, event: &Event, to: &mut Snapshot) -> Result<()> {
    let counted = recount.add(event, to);
    counted.map_err(|error| usage(format!("the recording: {error}")))
}

fn failure(path: &impl Display, error: &RecordingError) -> anyhow::Error {
    let kind = match error {
        RecordingError::Io(_) => Kind::Run,
        _ => Kind::Usage,
    };
    Failure::error(kind, format!("{path}: {error}"))
}

/// Opens a recording for a command that shows these stages: of the driver, or of a target.
///
/// # Errors
/// If it cannot be read, or is not such a recording; one sentence.
fn open_recording(path: &Path, stage_set: StageSet) -> Result<(Reader<BufReader<File>>, Metadata)> {
    let shown = printable(path);
    let (file, metadata) = input::open(path)?;
    let reader = BufReader::with_capacity(1 << 16, file);
    let reader = Reader::open(reader).map_err(|e| failure(&shown, &e))?;
    let of_target = stage_set == StageSet::Host;
    if of_target && reader.info().target.is_none() {
        return Err(failure(&shown, &RecordingError::GuestSide));
    }
    if !of_target && reader.info().target.is_some() {
        return Err(usage(format!(
            "{shown} is a recording of the host side: read it with `host trace`, `host latency` or \
             `join GUEST {shown}`"
        )));
    }
    Ok((reader, metadata))
}

/// Opens all recordings. `require` checks what the command needs besides the settings.
///
/// # Errors
/// If one cannot be read, lacks what is asked for, or is given twice; one sentence.
pub fn open_all(
    paths: &[PathBuf],
    settings: &Settings,
    require: &dyn Fn(&FileReader) -> Result<()>,
) -> Result<Vec<FileReader>> {
    let mut all: Vec<FileReader> = Vec::new();
    for path in paths {
        let reader = FileReader::open(path, settings)?;
        require(&reader)?;
        if let Some(same) = all.iter().find(|other| other.file_id == reader.file_id) {
            let (path, same) = (&reader.path, &same.path);
            let text = format!("{path} is the same file as {same}: give each recording once");
            return Err(usage(text));
        }
        all.push(reader);
    }
    Ok(all)
}

/// Reads a recording in a first pass, for the events that these settings select.
///
/// # Errors
/// If it is a pipe: one sentence, with what needs two passes (`option`). If it cannot be read.
pub fn first_pass(
    reader: &FileReader,
    settings: &Settings,
    option: &str,
    mut take: impl FnMut(&Event, &mut Names),
) -> Result<()> {
    input::require_file(&reader.file, option)?;
    let mut again = FileReader::open(&reader.file, settings)?;
    let mut run = Run::of(&mut again);
    loop {
        match run.next()? {
            Step::Event { event, is_selected: true, names, .. } => take(event, names),
            Step::Ended => return Ok(()),
            _ => {}
        }
    }
}

impl FileReader {
    /// Opens a recording for a command with these settings.
    ///
    /// # Errors
    /// If the file cannot be read, or lacks what the settings ask for; one sentence.
    pub fn open(path: &Path, settings: &Settings) -> Result<Self> {
        let (reader, metadata) = open_recording(path, settings.stage_set)?;
        let info = reader.info();
        let settings = settings.for_recording(info.stage_set, info.submitters);
        let mut opened = Self {
            progress: Progress::reading(&printable(path)),
            reader,
            path: Text::from_os(path),
            file: path.to_owned(),
            file_id: (metadata.dev(), metadata.ino()),
            size: metadata.len(),
            selects_all: settings.choice().is_empty(),
            settings,
            window: 0..u64::MAX,
            ledger: None,
            later: 0,
            span_ns: None,
            selected: 0,
            unselected: 0,
            is_in_block: false,
            has_failed: false,
            is_extra_pass: false,
            redactor: None,
            redacted: None,
        };
        opened.check()?;
        opened.window = opened.find_window()?;
        opened.reader.skip_to(opened.window.start);
        let filter = &opened.settings.filter;
        let has_devices = !(filter.ctrls.is_empty() && filter.nsids.is_empty());
        let has_disk = opened.settings.window.disk.is_some();
        if has_disk {
            input::require_file(path, "--disk")?;
        }
        if has_disk || has_devices && metadata.is_file() {
            opened.find_devices()?;
        }
        Ok(opened)
    }

    /// The error of an option that needs the time of day, where it is not known.
    pub fn timeless(&self, advice: &str) -> anyhow::Error {
        let why = if self.info().redacted { " (it is redacted)" } else { "" };
        usage(format!("{} does not know the time of day{why}: {advice}", self.path))
    }

    /// Finds the part that was asked for.
    fn find_window(&self) -> Result<Range<u64>> {
        let (path, clock) = (&self.path, self.clock());
        let mut range = 0..u64::MAX;
        for (option, time) in self.settings.window.options() {
            let advice = format!("give a time since its start, as in `{option} 7s`");
            let bound = if option == "--since" { &mut range.start } else { &mut range.end };
            *bound = time.at_ns(clock).ok_or_else(|| self.timeless(&advice))?;
        }
        let first = range.start.max(clock.begin_ns);
        if range.end <= first {
            let (first, end) = (clock.text(first), clock.text(range.end));
            return Err(usage(format!(
                "{path}: --until ({end}) is not after the first time to read ({first}): give a later one"
            )));
        }
        Ok(range)
    }

    /// Takes a second look at the file: finds the disk that was asked for, and refuses controllers and
    /// namespaces that it does not have.
    fn find_devices(&mut self) -> Result<()> {
        let (path, Settings { filter, window, stage_set, .. }) = (&self.path, &mut self.settings);
        let disk = window.disk.as_deref();
        let (mut reader, _) = open_recording(&self.file, *stage_set)?;
        let mut devices = Devices::default();
        while let Some(item) = reader.next().map_err(|e| failure(path, &e))? {
            match item {
                Item::Fact(Fact::Controllers(all)) => devices.add(&all),
                Item::Event(event) => devices.add_event(event),
                _ => {}
            }
            if reader.is_at_block() && devices.lacks(disk, filter).is_none() {
                break;
            }
        }
        if let Some(what) = devices.lacks(disk, filter) {
            return Err(Failure::error(Kind::NoDevice, format!("{path} has {what}")));
        }
        if let Some(disk) = disk {
            (filter.ctrls, filter.nsids) = devices.places(disk);
        }
        Ok(())
    }

    /// Refuses, by name, what the recording lacks.
    fn check(&self) -> Result<()> {
        let (info, settings, path) = (self.reader.info(), &self.settings, &self.path);
        let (set, has, filter) = (settings.stage_set, info.stage_set, &settings.filter);
        let (events, stack) = (settings.events(), settings.stack());
        let no_sq = info.sq == Some(false) && events.is_some_and(|e| e.sq);
        let no_aen = info.aen == Some(false) && events.is_some_and(|e| e.aen);
        let by = settings.by().iter().find(|by| by.is_cgroup());
        let by_cgroup = by.is_some() || filter.cgroup.is_some();
        let by_name = filter.cgroup.is_some() || !filter.comms.is_empty();
        let by_submitter = settings.required_origin() == OriginDetail::Submitters;
        let again = "again with full stages (the default)";
        let cgroups =
            by.map_or("omit --cgroup".into(), |by| format!("omit --by {by}: --by process works"));
        let other = "choose other stages";
        let basic = set == StageSet::Basic && has == StageSet::Total;
        let fine = set == StageSet::Fine && !has.is_fine();
        let full = set == StageSet::Full && has != StageSet::Full;
        let names = "names of cgroups and processes (it is redacted)";
        let at = stack.map(|stack| stack.at).filter(|at| info.stack != Some(*at));
        let at_name = at.map_or("", StackAt::name);
        let (stacks, kstack) =
            (format!("kernel stacks at {at_name}"), format!("with --kstack={at_name}"));
        let other_stacks =
            info.stack.map_or("omit it".into(), |other| format!("choose {}", other.name()));
        let period = stack.map_or(1, |stack| stack.period);
        let sampled = period != 1 && period != info.sample_period;
        let sample = format!("stacks of such a sample (one command in {})", info.sample_period);
        let lacks = [
            (basic, "stages", "with --stages=basic", other),
            (fine, "fine stages", "with --stages=fine", other),
            (full, "waits before the request", "with --stages=full", other),
            (by_cgroup && !info.cgroups, "cgroups", again, &cgroups),
            (by_submitter && !info.submitters, "submitters", again, "omit --submitters"),
            (no_sq, "SQ heads and tails", "with `trace --sq --tee`", "omit --sq"),
            (no_aen, "asynchronous events", "with `trace --aen --tee`", "omit --aen"),
            (info.redacted && by_name, names, "without --redact", "choose in another way"),
            (sampled, &sample, "with --sample", "omit --sample"),
            (at.is_some(), &stacks, &kstack, &other_stacks),
        ];
        let lacking = lacks.into_iter().find(|(lacks, ..)| *lacks);
        lacking.map_or(Ok(()), |(_, what, how, or)| {
            Err(usage(format!("{path} has no {what}: record {how}, or {or}")))
        })
    }

    /// Leaves out what `record --redact` leaves out: names of the machine, of its controllers, of processes
    /// and of cgroups.
    pub fn redact(&mut self) {
        if !self.info().redacted {
            self.reader.info_mut().redact();
            self.redactor = Some(Pseudonyms::default());
        }
    }

    /// Refuses a recording with two events per command.
    ///
    /// # Errors
    /// If it has two; one sentence.
    pub fn require_pairs(&self) -> Result<()> {
        if self.info().pairs {
            return Ok(());
        }
        Err(usage(format!(
            "{} has two events per command: `trace --events` shows it, without --process and \
             --lba. Record with `record`, or with `trace --tee` without --events",
            self.path
        )))
    }

    /// Reports that the recording lacks commands which `trace --tee` did not show, for a command
    /// that counts them.
    pub fn warn_partial(&self) {
        let choice = self.info().chosen_by();
        if !choice.is_empty() {
            eprint_note(&format!(
                "{} was recorded with `trace {choice} --tee`: counts cover only those commands",
                self.path
            ));
        }
    }

    /// What was recorded, where and when.
    pub const fn info(&self) -> &RunInfo {
        self.reader.info()
    }

    /// The clock of its times, at the first event.
    pub const fn clock(&self) -> RunClock {
        let info = self.info();
        RunClock { begin_ns: info.begin_ns, wall_ns: info.wall_ns }
    }

    /// The header before it is read.
    pub fn header(&self) -> Header {
        let (info, settings) = (self.info(), &self.settings);
        Header {
            file: Some(self.path.clone()),
            host: info.host.clone(),
            kernel: info.kernel.clone(),
            begin_ns: self.clock().real_ns(self.window.start.max(info.begin_ns)),
            who: settings.asks_who().then_some(settings.filter.who),
            from: self.since_begin(self.window.start),
            ..Header::default()
        }
    }

    /// Says which of several recordings is shown: in a line of JSON, or on stderr, unless that is the
    /// terminal that shows the output.
    pub(super) fn head(&self, json: bool) -> Result<()> {
        if json {
            header::json(&self.path, self.info(), self.clock(), &mut stdout::stdout())?;
        } else if !stdout().is_terminal() {
            eprint_note(&format!("{}:", self.path));
        }
        Ok(())
    }

    /// The command writes while it reads: a terminal that shows the output has no room for the progress.
    pub fn streams(&mut self) {
        self.progress.take_if(|_| stdout().is_terminal());
    }

    /// The next step: a tick after each block. Events outside the window are counted only.
    pub(super) fn advance<'s>(
        &'s mut self,
        names: &'s mut Names,
        shown: &mut Shown,
    ) -> Result<Step<'s>> {
        loop {
            if take(&mut self.is_in_block) && self.reader.is_at_block() {
                if let Some(progress) = &mut self.progress {
                    progress.step(self.reader.whole_bytes(), self.size);
                }
                return Ok(Step::Tick { now: Duration::ZERO, is_second: false });
            }
            self.is_in_block = true;
            let is_timeless = self.info().redacted && self.redactor.is_none();
            match self.reader.next() {
                Ok(Some(Item::Event(event))) => {
                    let (at_ns, class) = (event.at_ns, EventClass::of(&event.what));
                    let is_read = self.window.contains(&at_ns);
                    let is_sure = self.selects_all && event.what.is_finished();
                    let is_selected = is_read && (is_sure || self.settings.selects(event));
                    if self.redactor.is_some() {
                        self.redacted = Some(event.redacted());
                    }
                    let (later, commands) = (self.later, u64::from(class == EventClass::Command));
                    self.pass(at_ns, at_ns, commands);
                    if is_selected {
                        self.selected += commands;
                        self.unselected -= commands;
                        shown.add(class);
                    }
                    if is_read {
                        let event = self.redacted.as_ref().unwrap_or_else(|| self.reader.event());
                        return Ok(Step::Event { event, is_selected, names, later });
                    }
                }
                Ok(Some(Item::Skipped(block))) => {
                    self.pass(block.from_ns, block.to_ns, block.commands.into());
                }
                Ok(Some(Item::Fact(Fact::Activity(activity))))
                    if !self.window.contains(&activity.at_ns) => {}
                // one that was recorded with --redact has no time of day, whatever the file has
                Ok(Some(Item::Fact(Fact::Clock(_)))) if is_timeless => {}
                Ok(Some(Item::Fact(fact))) => return Ok(Step::Fact(self.fact(fact, names))),
                Ok(None) => {
                    self.progress = None;
                    return Ok(Step::Ended);
                }
                Err(error) => {
                    self.has_failed = true;
                    return Err(failure(&self.path, &error));
                }
            }
        }
    }

    /// Notes events of this time, with so many commands. None of them is selected so far.
    fn pass(&mut self, from_ns: u64, to_ns: u64, commands: u64) {
        let first = self.span_ns.map_or(from_ns, |(first, _)| first);
        self.span_ns = Some((first, to_ns));
        self.later += commands;
        self.unselected += commands;
    }

    /// Notes a fact, and leaves names out of it if that was asked for.
    fn fact(&mut self, mut fact: Fact, names: &mut Names) -> Fact {
        if self.redactor.is_some() {
            fact.redact();
        }
        match &mut fact {
            Fact::Ledger(ledger) | Fact::End(ledger) => {
                (self.ledger, self.later) = (Some(ledger.clone()), 0);
            }
            Fact::Controllers(all) => names.set(all.clone()),
            Fact::Cgroups(all) => {
                for one in &mut *all {
                    cgroups::add(&mut self.settings.filter, one.id, &one.path);
                    if let Some(pseudonyms) = &mut self.redactor {
                        one.path = pseudonyms.path(&one.path);
                    }
                }
                names.add_cgroups(all);
            }
            _ => {}
        }
        fact
    }

    /// The last ledger so far.
    pub fn ledger(&self) -> Option<&Ledger> {
        self.ledger.as_ref()?.ledger.as_ref()
    }

    /// After the end, at which these events were shown.
    ///
    /// # Errors
    /// If there is no ledger that can be read.
    pub fn end(&mut self, shown: &Shown) -> Result<End> {
        let (path, events) = (&self.path, self.reader.events());
        let evicted = self.ledger.as_ref().map_or(0, |l| l.evicted);
        if evicted > 0 {
            self.say(&format!(
                "{path} has the last {events} events of its run: {evicted} older ones were dropped"
            ));
        }
        let (all, chosen) = (self.selected + self.unselected, self.settings.choice());
        if all > 0 && self.selected == 0 && !chosen.is_empty() {
            self.say(&format!("{path}: 0 of {all} commands match {chosen}"));
        }
        let Some(mut ledger) = self.ledger().cloned() else {
            self.has_failed = true;
            bail!(
                "{path} is cut off at its start, before any counts: no report is possible, record again"
            );
        };
        if self.incomplete().is_some() {
            ledger = ledger.cut_off(self.later);
        }
        ledger.selected = (self.unselected > 0).then_some(self.selected);
        if let Some(trace) = &mut ledger.trace {
            let own = trace.own_share();
            own.into_iter().for_each(|own| self.say(&format!("{path}: {own}")));
            trace.show(shown, self.unselected);
        }
        self.say_window(&ledger);
        // a ring has dropped the older events
        let first = self.span_ns.filter(|_| evicted > 0);
        let first_ns = first.map_or(self.info().begin_ns, |(first, _)| first);
        let took = self.since_begin(self.end_ns().min(self.window.end));
        let covers = took.saturating_sub(self.since_begin(first_ns.max(self.window.start)));
        Ok(End { ledger, took, covers })
    }

    /// Says which times of the window the recording does not have, and what its accuracy is about.
    fn say_window(&self, ledger: &Ledger) {
        let (path, clock) = (&self.path, self.clock());
        let window = &self.settings.window;
        let end = self.end_ns();
        for (option, time) in window.options().filter(|(_, time)| time.at_ns(clock) > Some(end)) {
            let (end, begin) = (clock.text(end), clock.text(clock.begin_ns));
            self.say(&format!("{path}: {option} {time} is after its end ({begin} to {end})"));
        }
        if window.is_some() && ledger.accuracy() != Accuracy::Exact {
            self.say(&format!("{path}: the accuracy line covers the whole recording"));
        }
    }

    fn say(&self, text: &str) {
        if !self.is_extra_pass {
            eprint_note(text);
        }
    }

    /// The time since the start of the run.
    fn since_begin(&self, at_ns: u64) -> Duration {
        Duration::from_nanos(at_ns.saturating_sub(self.info().begin_ns))
    }

    /// The time of the last ledger, CLOCK_MONOTONIC nanoseconds.
    fn ledger_ns(&self) -> u64 {
        let since = self.ledger.as_ref().map_or(0, |l| l.at_ns);
        self.info().begin_ns.saturating_add(since)
    }

    /// When the recording ends.
    fn end_ns(&self) -> u64 {
        let last = self.span_ns.filter(|_| self.incomplete().is_some());
        self.ledger_ns().max(last.map_or(0, |(_, last)| last))
    }

    /// After the end: how the file is not whole (`is damaged: ...`). `None`: it is.
    pub fn incomplete(&self) -> Option<String> {
        self.reader.ending()?.flaw()
    }

    /// An error if the file is damaged or has no end. Call this after the last output.
    ///
    /// # Errors
    /// If it is; one sentence.
    pub fn check_complete(&self) -> Result<()> {
        let path = &self.path;
        let Some(how) = self.incomplete() else { return Ok(()) };
        let text = format!(
            "{path} {how}. Its first {} bytes are whole, with {} events, which are shown; the accuracy \
             line covers the first {:.1} s only",
            self.reader.whole_bytes(),
            self.reader.events(),
            self.since_begin(self.ledger_ns()).as_secs_f64()
        );
        Err(Failure::error(Kind::Run, text))
    }
}
