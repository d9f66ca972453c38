// SPDX-License-Identifier: MIT OR Apache-2.0
//! The `top` command: a live screen. Without a terminal, or with a dumb one, it writes a page per
//! interval.

mod app;
pub(crate) mod args;
mod intervals;
mod panels;
pub(crate) mod report;
mod screen;
mod view;

use std::env;
use std::io::{IsTerminal, Write, stdin, stdout};
use std::mem::take;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use crate::machine::clock::wall_offset_ns;
use crate::model::stage::StageSet;
use crate::model::text::Text;
use crate::recording::Fact;
use crate::run::args::common::ColorArg;
use crate::top::report::stages;
use anyhow::{Context, Result};

use self::app::{Action, App};
use self::intervals::IntervalConsumer;
use self::screen::{Input as Typed, Screen};
use self::view::Look;
use crate::run::drive::turns::{Turns, Wake, stop_signals};
use crate::run::drive::{FileReader, Live, Run, Step, each, open_all};
use crate::run::start::Preflight;
use crate::run::{WAITS_UNMEASURED, eprint_note, say_ledger, stdout};
use crate::top::args::TopOptions;
use crate::top::intervals::Meter;
use crate::top::screen::page;
use crate::when::RunClock;

/// Where the screen goes.
enum Out {
    /// A terminal, and what the user does.
    Screen(Box<Screen>, Receiver<Typed>),
    /// Pages, one after the other.
    Pages,
}

/// Whether the terminal can move its cursor.
fn has_screen() -> bool {
    let term = env::var_os("TERM").unwrap_or_default();
    let dumb = term.is_empty() || term == "dumb";
    stdin().is_terminal() && stdout().is_terminal() && !dumb
}

/// The screen of a run.
struct Display {
    app: App,
    out: Out,
    look: Look,
    /// The user has ended the run.
    done: bool,
    /// For tests.
    panics: bool,
}

impl Display {
    /// Draws, or writes a page.
    fn show(&mut self) -> Result<()> {
        match &mut self.out {
            Out::Screen(screen, _) => screen.draw(&self.app, self.look)?,
            Out::Pages => {
                let page = page(&self.app, self.look);
                let mut out = stdout::stdout();
                out.write_all(page.as_bytes())?;
                out.flush()?;
            }
        }
        let is_empty = self.app.now().is_none();
        assert!(!self.panics || is_empty, "asked for by --test-panic");
        Ok(())
    }

    /// Does what the user asks for.
    fn answer(&mut self) -> Result<()> {
        let Out::Screen(screen, inputs) = &mut self.out else {
            return Ok(());
        };
        let mut any = false;
        for input in inputs.try_iter() {
            any = true;
            let action = match input {
                Typed::Key(key) => self.app.key(key),
                Typed::Resize => Action::Draw,
                Typed::Suspend => Action::Suspend,
            };
            match action {
                Action::Draw => {}
                Action::Redraw => screen.clear()?,
                Action::Suspend => screen.suspend()?,
                Action::Quit => self.done = true,
            }
        }
        if any { self.show() } else { Ok(()) }
    }
}

/// Opens the screen, or the pages.
fn open(options: &TopOptions, app: App, waker: &Sender<Wake>) -> Result<Display> {
    let color = options.session.color;
    let mut display = Display {
        app,
        out: Out::Pages,
        // a dumb terminal has no colour
        look: Look { color: color == ColorArg::Always, unicode: stdout::has_unicode() },
        done: false,
        panics: options.test_panic,
    };
    if has_screen() {
        let (sender, inputs) = channel();
        let screen = Screen::take_over(sender, waker.clone())?;
        (display.look.color, display.out) =
            (color.on_stdout(false), Out::Screen(Box::new(screen), inputs));
        display.show()?;
    }
    Ok(display)
}

/// The time of the next interval: late ones are not made up for.
fn after(due: Duration, now: Duration, step: Duration) -> Duration {
    let next = due.saturating_add(step);
    if next > now { next } else { now.saturating_add(step) }
}

/// Shows the intervals of a run.
struct Showing<'o> {
    options: &'o TopOptions,
    display: Display,
    /// When the next interval is due.
    due: Duration,
    intervals: Intervals<'o>,
}

/// Where the intervals come from.
enum Intervals<'o> {
    Live(Box<Meter>),
    Recorded {
        cutter: Box<IntervalConsumer>,
        turns: &'o mut Turns,
        /// Another recording comes after this one.
        has_next: bool,
    },
}

impl Showing<'_> {
    fn live(&mut self, run: &mut Run<'_>, now: Duration) -> Result<()> {
        if let (Intervals::Live(meter), Some(session)) = (&mut self.intervals, run.session()) {
            let app = &mut self.display.app;
            if now >= self.due {
                app.push(meter.sample(self.options, session, &app.stages, now)?);
                self.due = after(self.due, now, self.options.interval);
            }
        }
        let app = &mut self.display.app;
        let mut is_new = false;
        while (!app.paused || app.goal.is_some()) && app.next() {
            is_new = true;
        }
        // what comes next is not known yet
        app.goal = None;
        if is_new {
            self.display.show()?;
        }
        run.wake_at(self.due);
        Ok(())
    }

    /// Shows the intervals that have been read, as fast as they are to be shown. Returns when to go on;
    /// `None`: when more was read.
    fn recorded(&mut self) -> Result<Option<Duration>> {
        let Intervals::Recorded { cutter, turns, has_next } = &mut self.intervals else {
            return Ok(None);
        };
        let now = turns.elapsed();
        let paces = matches!(self.display.out, Out::Screen(..));
        loop {
            let app = &mut self.display.app;
            if paces && app.goal.is_none() {
                if app.paused || app.is_over() {
                    return Ok(Some(Duration::MAX));
                }
                if now < self.due {
                    return Ok(Some(self.due));
                }
            }
            if let Some(sample) = cutter.ended.pop_front() {
                app.push(sample);
            }
            if !app.next() {
                // a screen stays until a key
                let is_done = if paces { *has_next } else { app.is_over() };
                if !cutter.is_last || is_done {
                    return Ok(None);
                }
                app.finish(cutter.whole.take());
            }
            if app.goal.is_none() {
                let step = self.options.interval.mul_f64(0.5_f64.powi(app.speed));
                self.due = after(self.due, now, step);
                self.display.show()?;
            }
        }
    }

    /// Shows what has been read of a recording. Returns false if a key or a signal ends it.
    fn play(&mut self) -> Result<bool> {
        loop {
            self.display.answer()?;
            if self.display.done {
                return Ok(false);
            }
            let wake_at = self.recorded()?;
            let Intervals::Recorded { turns, .. } = &mut self.intervals else {
                return Ok(true);
            };
            let goes_on = turns.wait(wake_at.unwrap_or_default());
            if !goes_on || wake_at.is_none() {
                return Ok(goes_on);
            }
        }
    }

    fn read(mut self, run: &mut Run<'_>) -> Result<()> {
        self.display.app.who = run.header.who;
        let is_live = run.session().is_some();
        loop {
            match run.next()? {
                Step::Event { event, is_selected, .. } => match &mut self.intervals {
                    Intervals::Live(meter) => meter.event(event, self.options.settings.stage_set),
                    Intervals::Recorded { cutter, .. } => cutter.add(event, is_selected)?,
                },
                Step::Fact(fact) => self.fact(fact),
                Step::Tick { now, .. } if is_live => {
                    self.display.answer()?;
                    match self.display.done {
                        true => run.stop(),
                        false => self.live(run, now)?,
                    }
                }
                Step::Tick { .. } => {
                    if !self.play()? {
                        run.stop();
                        break;
                    }
                }
                Step::Ended => {
                    if let Intervals::Recorded { cutter, .. } = &mut self.intervals {
                        let end = run.end()?;
                        cutter.finish(end.took, end.covers, &end.ledger);
                        if !self.play()? {
                            run.stop();
                        }
                    }
                    break;
                }
            }
        }
        // gives the terminal back before anything is said
        drop(self.display);
        let ledger = match self.intervals {
            Intervals::Live(_) => run.end()?.ledger,
            // the user may have ended it earlier
            Intervals::Recorded { cutter, .. } => {
                cutter.idle.text().iter().for_each(|text| eprint_note(text));
                cutter.ledger
            }
        };
        say_ledger(&ledger, self.options.session.is_verbose());
        let stages = self.options.settings.stage_set;
        if is_live && matches!(stages, StageSet::Basic | StageSet::Fine) {
            eprint_note(WAITS_UNMEASURED);
        }
        Ok(())
    }

    fn fact(&mut self, fact: Fact) {
        let Intervals::Recorded { cutter, .. } = &mut self.intervals else {
            return;
        };
        match fact {
            Fact::Clock(offset) => self.display.app.clock.wall_ns = Some(offset.wall_ns),
            Fact::Controllers(all) => cutter.disks.recorded(&all),
            Fact::Cgroups(all) => cutter.cgroups(&all),
            Fact::Ledger(info) | Fact::End(info) => {
                cutter.ledger = info.ledger.unwrap_or_else(|| take(&mut cutter.ledger));
            }
            _ => {}
        }
    }
}

fn live(options: &TopOptions) -> Result<()> {
    let ready = Preflight::check(&options.settings)?;
    let (system, waker) = (ready.system.clone(), ready.waker.clone());
    let live = Live::new(ready, &options.settings, options.run.duration);
    live.run(|run| {
        let session = run.session().context("a session")?;
        let set = options.settings.stage_set;
        let clock = RunClock { begin_ns: run.begin_ns, wall_ns: Some(wall_offset_ns()) };
        let host = run.header.host.clone().unwrap_or_default();
        let app = App::new(&host, options.interval, stages(set, set), options.settings.by(), clock);
        let display = open(options, app, &waker)?;
        let meter = Meter::begin(session, system.clone())?;
        let showing = Showing {
            options,
            display,
            due: options.interval,
            intervals: Intervals::Live(Box::new(meter)),
        };
        showing.read(run)
    })
}

/// Shows recordings: on the screen, or as pages.
fn recorded(options: &TopOptions) -> Result<()> {
    let files = open_all(&options.from.files, &options.settings, &FileReader::require_pairs)?;
    let mut left = files.len();
    let (waker, stop) = channel();
    // a user may end it; a pipe ends with its reader
    if stdout().is_terminal() {
        stop_signals(waker.clone())?;
    }
    let mut turns = Turns::begin(stop, None);
    each(files, false, true, &mut |run| {
        let file = run.file().context("a recording")?;
        file.warn_partial();
        let set = file.settings.stage_set;
        left -= 1;
        let by = options.settings.by();
        let stages = stages(set, file.info().stage_set);
        let clock = RunClock { begin_ns: run.begin_ns, wall_ns: None };
        let cutter = IntervalConsumer::new(
            options.interval,
            set,
            (by, file.settings.filter.who),
            stages.clone(),
            run.begin_ns,
        );
        let name = Text::file_name(&file.file);
        let app = App::new(&name, options.interval, stages, by, clock);
        let display = open(options, app, &waker)?;
        let showing = Showing {
            options,
            display,
            due: Duration::ZERO,
            intervals: Intervals::Recorded {
                cutter: Box::new(cutter),
                turns: &mut turns,
                has_next: left > 0,
            },
        };
        showing.read(run)
    })
}

/// Runs the command to its end.
///
/// # Errors
/// One sentence each, with the exit code of its kind. Nothing stays attached, and the terminal is as
/// before.
pub fn run(options: &TopOptions) -> Result<()> {
    if options.from.is_empty() { live(options) } else { recorded(options) }
}

#[cfg(test)]
mod tests;
