// SPDX-License-Identifier: MIT OR Apache-2.0
//! Recordings as the input of a run: opened and checked before any output, read one after the other.

use std::io::{IsTerminal, Write, stdout};
use std::mem::{ManuallyDrop, take};
use std::ops::Range;
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use crate::error::Kind;
use crate::model::event::StackId;
use crate::model::ledger::{EventClass, Ledger, Shown};
use crate::recording::Item as Recorded;
use crate::settings::Settings;
use crate::view::header;
use crate::view::header::Header;
use crate::view::theme::Theme;
use crate::when::RunClock;
use anyhow::Result;

use super::names::Names;
use super::recorded_who::learn_cgroups;
use super::replay::Replay;
use super::turns::Wake;
use super::{Consumer, End, Feed, Item, Make, Moment, Start, Turn};
use crate::run::exit::{Failure, kind_of};
use crate::run::{eprint_note, input, stdout};

/// The form of the output, for headings.
#[derive(Default)]
pub struct Form {
    /// JSON lines instead of text.
    pub json: bool,
    /// Colour the text.
    pub color: bool,
    /// In text, the ledger goes to stderr.
    pub ledger_apart: bool,
}

/// Opens all recordings. `require` checks what the command needs besides the settings.
///
/// # Errors
/// If one cannot be read, lacks what is asked for, or is given twice; one sentence.
pub fn open_all(
    paths: &[PathBuf],
    settings: &Settings,
    require: &dyn Fn(&Replay) -> Result<()>,
) -> Result<Vec<Replay>> {
    let mut all: Vec<Replay> = Vec::new();
    for path in paths {
        let replay = Replay::open(path, settings)?;
        require(&replay)?;
        if let Some(same) = all.iter().find(|other| other.file_id() == replay.file_id()) {
            let (path, same) = (replay.path(), same.path());
            let text = if path == same {
                format!("{path} is given twice: give each recording once")
            } else {
                format!("{path} is the same file as {same}: give each recording once")
            };
            return Err(Failure::error(Kind::Usage, text));
        }
        all.push(replay);
    }
    Ok(all)
}

/// Opens a recording again, for another pass over it, with these settings.
///
/// # Errors
/// If it is a pipe: one sentence, with what needs two passes (`option`). As [`Replay::open`].
pub fn again(replay: &Replay, settings: &Settings, option: &str) -> Result<Replay> {
    input::require_file(replay.file(), option)?;
    Replay::open(replay.file(), settings)
}

/// The header of a recording before it is read.
pub fn header_of(replay: &Replay, clock: RunClock) -> Header {
    let info = replay.info();
    let first_ns = replay.window().start.max(info.begin_ns);
    Header {
        file: Some(replay.path().clone()),
        host: info.host.clone(),
        kernel: info.kernel.clone(),
        begin_ns: clock.real_ns(first_ns),
        who: replay.settings().asks_who().then_some(replay.settings().filter.who),
        from: replay.begins_at(),
        ..Header::default()
    }
}

/// Says which of several recordings is shown.
fn head<C: Consumer>(replay: &Replay, clock: RunClock, header: &Header, form: &Form) -> Result<()> {
    let mut out = stdout::stdout();
    if form.json {
        header::json(replay.path(), replay.info(), clock, &mut out)?;
    } else {
        if !C::HEADS {
            write!(out, "{}", header.text(Theme { color: form.color }, stdout::output_width()))?;
        }
        if form.ledger_apart && !stdout().is_terminal() {
            eprint_note(&format!("{}:", replay.path()));
        }
    }
    Ok(())
}

/// Recordings that are read, each with a consumer of its own.
pub struct Recordings<'r> {
    /// The files.
    pub replays: Vec<Replay>,
    /// The form of the output.
    pub form: Form,
    /// Show the progress also beside the output on a terminal: nothing is written before the end.
    pub is_silent: bool,
    /// Signals and keys, for a consumer that waits between items.
    pub stop: Option<&'r Receiver<Wake>>,
}

/// Passes the items of a recording on.
struct Reading<'r> {
    settings: Settings,
    /// The settings select every command.
    all: bool,
    names: Names,
    header: Header,
    shown: Shown,
    /// Commands that the settings select, and those that they do not.
    selected: u64,
    unselected: u64,
    /// The part of the file to pass on.
    window: Range<u64>,
    replay: &'r mut Replay,
}

/// The item of what is neither an event nor stacks; `None` if a run has none for it.
fn item_of<'i>(recorded: &Recorded<'_>, names: &mut Names) -> Option<Item<'i>> {
    Some(match recorded {
        Recorded::Controllers(all) => {
            names.set(all.clone());
            Item::Controllers(all.clone())
        }
        Recorded::Cgroups(all) => {
            names.add_cgroups(all);
            Item::Cgroups(all.clone())
        }
        Recorded::Clock(offset) => Item::Clock(offset.wall_ns),
        Recorded::Activity(activity) => Item::Activity(activity.clone()),
        Recorded::Machine(machine) => Item::Machine(machine.clone()),
        Recorded::Readings(readings) => Item::Readings(readings.clone()),
        Recorded::Event(_)
        | Recorded::Skipped(_)
        | Recorded::Stacks(_)
        | Recorded::Ledger(_)
        | Recorded::End(_)
        | Recorded::Target(_)
        | Recorded::TargetControllers(_)
        | Recorded::TargetEnd(_) => return None,
    })
}

impl<'r> Reading<'r> {
    /// Passes on the items of the next block. Returns false at the end. The inner error is one of the
    /// file.
    fn next<C: Consumer>(&mut self, consumer: &mut C) -> Result<Result<bool>> {
        let Self { settings, all, names, shown, selected, unselected, window, replay, .. } = self;
        // older ones have the clock
        let is_redacted = replay.info().redacted;
        let mut later = replay.later();
        if consumer.wants_ledgers()
            && let Some((at, ledger)) = replay.take_ledger()
        {
            consumer.item(&Item::Ledger(at, ledger), &mut Feed { names, later })?;
        }
        let has_window = settings.window.is_some();
        let mut done = Ok(());
        let read = replay.next(&mut |item| {
            if done.is_err() {
                return;
            }
            let item = match item {
                &Recorded::Event(event) => {
                    if has_window && !window.contains(&event.at_ns) {
                        let command = EventClass::of(&event.what) == EventClass::Command;
                        later += u64::from(command);
                        *unselected += u64::from(command);
                        return;
                    }
                    let is_selected = *all && event.what.is_finished() || settings.selects(event);
                    let class = EventClass::of(&event.what);
                    let is_command = u64::from(class == EventClass::Command);
                    let feed = &mut Feed { names, later };
                    // each item is known here: it owns nothing, so there is nothing to drop
                    let taken = match is_selected {
                        true => consumer.item(&ManuallyDrop::new(Item::Event(event)), feed),
                        false => consumer.item(&ManuallyDrop::new(Item::Unselected(event)), feed),
                    };
                    if taken.is_err() {
                        done = taken;
                    }
                    later += is_command;
                    if !is_selected {
                        *unselected += is_command;
                        return;
                    }
                    *selected += is_command;
                    if C::SHOWS && consumer.shown().is_none() {
                        shown.add(class);
                    }
                    return;
                }
                Recorded::Skipped(block) => {
                    later += u64::from(block.commands);
                    *unselected += u64::from(block.commands);
                    return;
                }
                Recorded::Stacks(stacks) => {
                    done = stacks.iter().try_for_each(|stack| {
                        let item = Item::Stack(StackId(stack.id), stack.frames());
                        consumer.item(&item, &mut Feed { names, later })
                    });
                    return;
                }
                Recorded::Activity(activity) if !window.contains(&activity.at_ns) => return,
                Recorded::Clock(_) if is_redacted => return,
                other => {
                    learn_cgroups(&mut settings.filter, other);
                    match item_of(other, names) {
                        Some(item) => item,
                        None => return,
                    }
                }
            };
            done = consumer.item(&item, &mut Feed { names, later });
        });
        done?;
        consumer.flush();
        Ok(read)
    }

    /// The end of what was read.
    fn end<C: Consumer>(self, consumer: &mut C, mut ledger: Ledger, took: Duration) -> End<'r> {
        let shown = consumer.shown().map_or(self.shown, |shown| *shown);
        if let Some(trace) = ledger.trace.as_mut().filter(|_| C::SHOWS) {
            trace.show(&shown, self.unselected);
        }
        let mut end = End::at(took, self.names);
        end.shown = shown;
        end.header = self.header;
        end.header.end(self.replay.covers(), self.selected, &ledger);
        end.ledger = ledger;
        end.covers = self.replay.covers();
        end.unselected = self.unselected;
        end.unmatched = self.replay.unmatched();
        end.is_whole = self.replay.incomplete().is_none();
        end.recording = Some(self.replay);
        end
    }
}

/// Begins to read a recording.
fn reading(header: Header, replay: &mut Replay) -> Reading<'_> {
    Reading {
        settings: replay.settings().clone(),
        all: replay.selects_all(),
        names: Names::recorded(),
        header,
        shown: Shown::default(),
        selected: 0,
        unselected: 0,
        window: replay.window(),
        replay,
    }
}

/// Passes on the items of a recording, for a first pass: nothing is reported.
///
/// # Errors
/// If it cannot be read; those of the consumer.
pub fn scan<C: Consumer>(replay: &mut Replay, consumer: &mut C) -> Result<()> {
    let mut reading = reading(Header::default(), replay);
    while reading.next(consumer)?? {}
    Ok(())
}

/// Reads a recording to its end, for a consumer of several recordings.
///
/// # Errors
/// If it cannot be read, or has no ledger; those of the consumer.
pub fn read<'r, C: Consumer>(replay: &'r mut Replay, consumer: &mut C) -> Result<End<'r>> {
    let clock = replay.clock()?;
    let header = header_of(replay, clock);
    let mut reading = reading(header, replay);
    while reading.next(consumer)?? {}
    let (ledger, took) = reading.replay.end()?;
    Ok(reading.end(consumer, ledger, took))
}

/// How the reading of one recording ended.
enum Ended {
    /// It was read, or as much of it as the consumer wanted: whether the next one is wanted, and the
    /// consumer's own verdict.
    Read(bool, Result<()>),
    /// It cannot be read to its end.
    Broken(anyhow::Error),
}

impl Recordings<'_> {
    /// Ticks until the consumer wants items. Returns false if it is done, or a signal came.
    fn ticks<C: Consumer>(&self, begin: Instant, consumer: &mut C) -> Result<bool> {
        loop {
            let moment = Moment {
                now: begin.elapsed(),
                is_second: false,
                session: None,
                shown: Shown::default(),
            };
            let left = match (consumer.tick(&moment)?, self.stop) {
                (Turn::Done, _) => return Ok(false),
                (Turn::Until(next), Some(stop)) => {
                    let left = next.saturating_sub(begin.elapsed());
                    stop.recv_timeout(left)
                }
                (Turn::Items, Some(stop)) if stop.try_recv() == Ok(Wake::Stop) => return Ok(false),
                (Turn::Items | Turn::Until(_), _) => return Ok(true),
            };
            if !matches!(left, Err(RecvTimeoutError::Timeout) | Ok(Wake::Turn)) {
                return Ok(false);
            }
        }
    }

    /// Reads one recording. `several`: it is one of several.
    fn one<C: Consumer>(
        &self,
        replay: &mut Replay,
        several: bool,
        make: &mut Make<'_, C>,
    ) -> Result<Ended> {
        let clock = match replay.clock() {
            Ok(clock) => clock,
            Err(error) => return Ok(Ended::Broken(error)),
        };
        let header = header_of(replay, clock);
        if several {
            head::<C>(replay, clock, &header, &self.form)?;
        }
        let mut consumer = make(&Start {
            begin_ns: replay.info().begin_ns,
            from: replay.begins_at(),
            session: None,
            recording: Some(replay),
            header: header.clone(),
        })?;
        if self.is_silent {
            replay.show_progress();
        }
        let (begin, mut reading) = (Instant::now(), reading(header, replay));
        let (mut more, mut goes_on) = (true, true);
        while more && goes_on {
            more = match reading.next(&mut consumer)? {
                Ok(more) => more,
                Err(error) => return Ok(Ended::Broken(error)),
            };
            goes_on = self.ticks(begin, &mut consumer)?;
        }
        let (mut ledger, mut took) = <_>::default();
        if !more {
            (ledger, took) = match reading.replay.end() {
                Ok(end) => end,
                Err(error) => return Ok(Ended::Broken(error)),
            };
            let names = &mut reading.names;
            let last = Item::Last(took, reading.replay.covers(), &ledger);
            consumer.item(&last, &mut Feed { names, later: 0 })?;
            goes_on = goes_on && self.ticks(begin, &mut consumer)?;
        }
        let end = reading.end(&mut consumer, ledger, took);
        let own = consumer.finish(end)?;
        Ok(match replay.check_complete() {
            Ok(()) => Ended::Read(goes_on, own),
            Err(error) => Ended::Broken(error),
        })
    }

    /// Reads all. If there are several, what is wrong with one is reported at its end, and the others
    /// are read.
    pub(super) fn drive<C: Consumer>(mut self, make: &mut Make<'_, C>) -> Result<()> {
        let replays = take(&mut self.replays);
        let (all, mut incomplete, mut own) = (replays.len(), 0, Vec::new());
        for mut replay in replays {
            match self.one(&mut replay, all > 1, make)? {
                Ended::Read(true, Ok(())) => {}
                Ended::Read(false, Ok(())) => return Ok(()),
                Ended::Broken(error) | Ended::Read(_, Err(error)) if all == 1 => {
                    return Err(error);
                }
                Ended::Broken(error) => {
                    eprint_note(&format!("{error:#}"));
                    incomplete += 1;
                }
                Ended::Read(_, Err(error)) => {
                    eprint_note(&format!("{}: {error:#}", replay.path()));
                    own.push(kind_of(&error));
                }
            }
        }
        if incomplete > 0 {
            let text = "recordings could not be read to the end: see above";
            return Err(Failure::error(Kind::Run, format!("{incomplete} of {all} {text}")));
        }
        // what was found counts more than what could not be judged
        let found = own.iter().find(|kind| **kind == Kind::Check);
        found.or(own.first()).map_or(Ok(()), |kind| {
            let text = format!("{} of {all} recordings did not pass: see above", own.len());
            Err(Failure::error(*kind, text))
        })
    }
}
