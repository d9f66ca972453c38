// SPDX-License-Identifier: MIT OR Apache-2.0
//! Turns events into lines, and writes them. The events come from a session or from a recording.

use std::collections::{HashMap, VecDeque};
use std::fs::File;
use std::io::{ErrorKind, IsTerminal, stdout};
use std::time::Duration;

use crate::error::{Failure, Kind};
use crate::machine::own_tgid;
use crate::model::event::{Event, EventKind, StackId};
use crate::model::ids::FlightId;
use crate::model::ledger::{EventClass, Shown};
use crate::model::point::Point;
use crate::model::stack::Frame;
use crate::model::stage::StageSet;
use crate::recording::Fact;
use crate::units::counted;
use crate::view::header::Header;
use crate::view::json;

use crate::view::theme::Theme;
use crate::view::trace::{Clock, Context, TraceLines};
use anyhow::Result;
use ratatui::crossterm::terminal;

use crate::run::drive::{End, Names, Run, Step};
use crate::run::outfile::Output;
use crate::run::recording::FileWriter;
use crate::run::slowest::Slowest;
use crate::run::stdout::{cannot_write, output_width};
use crate::run::{WAITS_UNMEASURED, eprint_note, exit, say_ledger};
use crate::trace::args::{TimeArg, TraceOptions};

/// The clock of a run that began at `begin_ns`. `wall_ns`: the wall clock minus CLOCK_MONOTONIC, if it is
/// known.
pub(super) fn clock(options: &TraceOptions, begin_ns: u64, wall_ns: Option<i64>) -> Clock {
    match (options.clock(), wall_ns) {
        (TimeArg::Mono, _) => Clock::Mono,
        (TimeArg::Wall, Some(offset_ns)) => Clock::wall(offset_ns),
        (TimeArg::Rel, _) | (TimeArg::Wall, None) => Clock::Rel { begin_ns },
    }
}

/// Lines of a terminal for events, between two headings.
fn lines_of_screen() -> Option<usize> {
    let size = stdout().is_terminal().then(terminal::size)?;
    size.ok().map(|(_, rows)| usize::from(rows).saturating_sub(1).max(2))
}

/// The renderer of the events.
fn renderer(options: &TraceOptions, clock: Clock, stage_set: StageSet) -> TraceLines {
    let stages = (stage_set != StageSet::Total).then_some(stage_set);
    if options.json {
        return TraceLines::json(clock, stages);
    }
    let theme = Theme { color: options.session.color.on_stdout(options.json) };
    if options.is_long() {
        return TraceLines::long(theme, clock, stages);
    }
    let chosen = options.columns.as_ref();
    let lines = TraceLines::columns(theme, clock, stages, chosen, output_width());
    match options.slowest {
        Some(_) => lines.with_largest_stages(),
        None => lines.with_pages(lines_of_screen()),
    }
}

/// Turns events into lines and writes them.
pub(super) struct TraceWriter<'o> {
    options: &'o TraceOptions,
    out: Output,
    pub shown: Shown,
    /// `--tee`.
    tee: Option<FileWriter>,
    lines: TraceLines,
    /// The rendered stacks, which are written below events.
    stacks: HashMap<StackId, String>,
    /// Events that are rendered and not written, in order, and where the lines of each end.
    pending: Vec<(EventClass, usize)>,
    /// Commands shown, written or pending.
    commands: u64,
    /// The last commands shown that have failed: they may be tried again.
    failed: VecDeque<Failed>,
    /// `--slowest`.
    slowest: Option<Slowest>,
    /// Without `-n`, `--tee` and `--slowest`: a command that has succeeded is a line, and no more.
    is_plain: bool,
    /// This process, if the events are of this machine.
    own: Option<u32>,
    /// Whether the submitters of bios are observed.
    has_submitters: bool,
}

/// A command that has failed.
struct Failed {
    id: FlightId,
    /// Its place among the pending events, until it is written.
    pending: Option<usize>,
}

/// Whether it is a command that is known to have succeeded: nearly all events are.
fn has_succeeded(what: &EventKind) -> bool {
    let verdict = match what {
        EventKind::Command(_, _, outcome) => outcome.verdict.as_ref(),
        _ => None,
    };
    verdict.is_some_and(|verdict| verdict.status.is_success())
}

/// A retry follows its command within microseconds: few others fail in between.
const MOST_FAILED: usize = 1024;

impl<'o> TraceWriter<'o> {
    /// Writes to `out`.
    pub fn new(options: &'o TraceOptions, out: File, clock: Clock, stage_set: StageSet) -> Self {
        Self {
            options,
            lines: renderer(options, clock, stage_set),
            tee: None,
            stacks: HashMap::new(),
            out: Output::to(out),
            shown: Shown::default(),
            pending: Vec::new(),
            commands: 0,
            failed: VecDeque::new(),
            slowest: options.slowest.map(Slowest::new),
            is_plain: options.count.is_none() && options.slowest.is_none(),
            own: None,
            has_submitters: false,
        }
    }

    /// Whether the submitters of bios are observed.
    pub fn with_submitters(self, has_submitters: bool) -> Self {
        Self { has_submitters, ..self }
    }

    /// Counts the commands of this process, and also records what is shown.
    pub fn of_this_machine(self, tee: Option<FileWriter>) -> Self {
        let is_plain = self.is_plain && tee.is_none();
        Self { tee, own: own_tgid(), is_plain, ..self }
    }

    /// Begins with a header. Long lines are for programs: they have one only if they are of several files.
    pub fn with_header(mut self, header: &Header) -> Self {
        let options = self.options;
        if !options.json && (!options.is_long() || options.from.files.len() > 1) {
            let theme = Theme { color: options.session.color.on_stdout(false) };
            self.lines.text(&header.text(theme, output_width()));
        }
        self
    }

    /// Adds a stack, before the first event with it.
    fn stack(&mut self, id: StackId, frames: &mut [Frame]) {
        if let Some(tee) = &mut self.tee {
            // recordings have no addresses: show what --from can show
            let unnamed = frames.iter_mut().filter(|f| f.symbol.is_none());
            unnamed.for_each(|f| f.address = 0);
            tee.stack(id, frames);
        }
        self.stacks.insert(id, self.lines.stack(frames));
    }

    /// Whether the COUNT of `-n` is reached.
    fn is_done(&self) -> bool {
        self.options.count.is_some_and(|count| self.commands >= count)
    }

    /// Shows an event.
    pub fn event(&mut self, event: &Event, names: &mut Names) {
        if !self.is_plain || !has_succeeded(&event.what) {
            return self.unusual(event, names);
        }
        let (disk, set, cgroups) = names.of_event(event);
        self.line(event, Context { disk, set, cgroups: Some(cgroups), ..Context::default() });
        if self.lines.is_full() {
            self.flush();
        }
    }

    /// Shows any event, or keeps it for `--slowest`.
    #[inline(never)]
    fn unusual(&mut self, event: &Event, names: &mut Names) {
        if self.is_done() {
            let is_over = !matches!(event.what, EventKind::Unfinished { .. });
            self.shown.past_count += u64::from(is_over);
            return;
        }
        if let Some(tee) = &mut self.tee {
            tee.event(event);
        }
        if let Some(slowest) = &mut self.slowest {
            match event.what {
                EventKind::Command(..) | EventKind::Missed { .. } => {
                    slowest.add(event, names);
                    // the ledger is made before they are written
                    (self.shown.commands, self.shown.hidden) = slowest.shown_and_hidden();
                    return;
                }
                EventKind::Retry { .. } | EventKind::Requeue(_) => return,
                // those in flight may be the slowest; resets are never left out
                _ => {}
            }
        }
        if !self.options.events.submits && self.is_second(event, names) {
            return;
        }
        let (disk, set, cgroups) = names.of_event(event);
        self.line(event, Context { disk, set, cgroups: Some(cgroups), ..Context::default() });
        if !self.options.events.submits {
            self.note_failure(&event.what);
        }
        if self.lines.is_full() {
            self.flush();
        }
    }

    /// In lines with one command each: deals with events that have no line of their own.
    fn is_second(&mut self, event: &Event, names: &mut Names) -> bool {
        let has_slow = self.options.events.outcome.slow.is_some();
        match &event.what {
            EventKind::Missed { .. } => self.shown.hidden += 1,
            EventKind::Requeue(_) => {}
            // a session reports all commands in flight at the end
            EventKind::Unfinished { .. } => {
                return has_slow && !self.options.settings.selects(event);
            }
            EventKind::Retry { id, .. } => {
                let is_it = |failed: &&mut Failed| failed.id == id.in_flight();
                let Some(failed) = self.failed.iter_mut().rev().find(is_it) else {
                    // its command is not shown
                    return has_slow;
                };
                let Some(number) = failed.pending.filter(|_| !self.options.json) else {
                    return false;
                };
                self.second_line(event, names, number);
            }
            _ => return false,
        }
        true
    }

    /// Puts a line below the lines of the pending event with this number.
    fn second_line(&mut self, event: &Event, names: &mut Names, number: usize) {
        let (from, to) = (self.lines.bytes(), self.pending[number].1);
        let (disk, set, _) = names.of_event(event);
        self.line(event, Context { disk, set, is_second_line: true, ..Context::default() });
        let added = self.lines.bytes() - from;
        self.lines.move_up(from, to);
        let below = &mut self.pending[number + 1..];
        below.rotate_right(1);
        below[0].1 = to + added;
        below[1..].iter_mut().for_each(|(_, end)| *end += added);
        let moved = self.failed.iter_mut().filter_map(|failed| failed.pending.as_mut());
        moved.for_each(|place| *place += usize::from(*place >= number));
    }

    /// Remembers a command that has failed, or may have.
    fn note_failure(&mut self, what: &EventKind) {
        if let EventKind::Command(id, ..) = what
            && !has_succeeded(what)
        {
            if self.failed.len() >= MOST_FAILED {
                self.failed.pop_front();
            }
            let pending = self.pending.len().checked_sub(1);
            self.failed.push_back(Failed { id: id.in_flight(), pending });
        }
    }

    /// Renders an event. Inlined: a call would copy the context.
    #[inline(always)]
    fn line(&mut self, event: &Event, cx: Context<'_>) {
        let block = |id| self.stacks.get(&id).map_or("", String::as_str);
        let [kstack, kstack_complete] =
            if self.stacks.is_empty() { [""; 2] } else { event.what.stacks().map(block) };
        let has_submitters = self.has_submitters;
        self.lines.event(event, &Context { kstack, kstack_complete, has_submitters, ..cx });
        self.shown.add_own(&event.what, self.own);
        let class = EventClass::of(&event.what);
        self.commands += u64::from(matches!(class, EventClass::Command));
        self.pending.push((class, self.lines.bytes()));
    }

    /// Writes the commands of `--slowest`, and corrects the ledger if that fails.
    fn write_slowest(&mut self, names: &mut Names, end: &mut End) {
        let Some(slowest) = self.slowest.take() else {
            return;
        };
        self.shown = Shown::default();
        let (shown, hidden) = slowest.shown_and_hidden();
        if !self.options.json && !self.options.is_long() {
            let all = counted(shown + hidden, "command");
            self.lines.text(&format!("slowest {shown} of {all}, by total\n"));
        }
        for (event, disk, set) in slowest.slowest_first() {
            let (_, _, cgroups) = names.of_event(&event);
            let cx = Context { disk: &disk, set, cgroups: Some(cgroups), ..Context::default() };
            self.line(&event, cx);
            if self.lines.is_full() {
                self.flush();
            }
        }
        self.flush();
        if let Some(trace) = &mut end.ledger.trace {
            trace.commands_shown -= self.shown.not_written;
            trace.not_written += self.shown.not_written;
        }
    }

    /// An error if the output could not be written. `missing`: what it lacks.
    fn output_error(&mut self, missing: &str) -> Result<()> {
        match self.out.take_error() {
            Some(error) if error.kind() == ErrorKind::BrokenPipe => Err(error.into()),
            Some(error) => {
                Err(Failure::error(Kind::Run, format!("{}; {missing}", cannot_write(&error))))
            }
            None => Ok(()),
        }
    }
}

impl TraceWriter<'_> {
    /// Reads a run to its end.
    ///
    /// # Errors
    /// One sentence each, with the exit code of its kind.
    pub fn read(mut self, run: &mut Run<'_>) -> Result<()> {
        loop {
            match run.next()? {
                Step::Event { event, is_selected: true, names, .. } => {
                    self.event(event, names);
                }
                Step::Event { .. } => {}
                Step::Fact(fact) => self.fact(fact),
                Step::Tick { now, is_second } => {
                    self.flush();
                    self.tick(run, now, is_second)?;
                }
                Step::Ended => break,
            }
        }
        self.flush();
        run.shown = self.shown_of(run);
        let end = run.end()?;
        self.finish(run, end)
    }

    fn fact(&mut self, fact: Fact) {
        match fact {
            Fact::Stacks(all) if self.options.settings.stack().is_some() => {
                all.into_iter().for_each(|(id, mut frames)| self.stack(id, &mut frames));
            }
            Fact::Stacks(_) => {}
            fact => {
                if let Fact::Clock(offset) = &fact {
                    self.lines.clock().set_offset(offset.wall_ns);
                }
                if let Some(tee) = &mut self.tee {
                    tee.fact(fact);
                }
            }
        }
    }

    /// Writes the lines that are rendered.
    pub fn flush(&mut self) {
        let written = self.lines.take(|lines| self.out.write(lines));
        for (class, end) in self.pending.drain(..) {
            match end <= written {
                true => self.shown.add(class),
                false => self.shown.not_written += 1,
            }
        }
        self.failed.iter_mut().for_each(|failed| failed.pending = None);
    }

    /// What was shown, and how the events have come.
    fn shown_of(&self, run: &Run<'_>) -> Shown {
        let Shown { out_of_order, undecodable, .. } = run.shown;
        Shown { out_of_order, undecodable, ..self.shown }
    }

    fn tick(&mut self, run: &mut Run<'_>, now: Duration, is_second: bool) -> Result<()> {
        if run.session().is_none() {
            // the rest of the file, and the ledger of the whole run, have not been read
            return self.output_error("the output is incomplete");
        }
        let shown = self.shown_of(run);
        if let Some(tee) = self.tee.as_mut().filter(|_| is_second) {
            run.shown = shown;
            tee.ledger(now, &run.ledger()?);
        }
        self.out.look();
        if self.is_done() || self.out.has_failed() {
            run.stop();
        }
        Ok(())
    }

    /// Writes the ledger. Reports errors of the output, and of the file of `--tee`.
    fn finish(mut self, run: &mut Run<'_>, mut end: End) -> Result<()> {
        self.write_slowest(&mut run.names, &mut end);
        let (ledger, at) = (&end.ledger, end.took);
        if self.options.json {
            let mut line = Vec::new();
            json::end(ledger, at, &mut line)?;
            // not an event: if it is missing, the error reports it
            self.out.write(&line);
        } else {
            say_ledger(ledger, self.options.session.is_verbose());
        }
        let teed = self.tee.take().map_or(Ok(()), |tee| {
            let done = tee.finish(at, ledger);
            done.map(|_| ())
        });
        if let Some(session) = run.session() {
            let by_time =
                self.options.slowest.is_some() || self.options.events.outcome.slow.is_some();
            if by_time && !session.plan().has(Point::Bio) {
                eprint_note(WAITS_UNMEASURED);
            }
        }
        let missing = format!("{} events are missing at its end", self.shown.not_written);
        let written =
            self.output_error(&missing).or_else(|error| match exit::is_closed_pipe(&error) {
                // a reader that has gone is no error
                true => Ok(()),
                false => Err(error),
            });
        written.and(teed)
    }
}
