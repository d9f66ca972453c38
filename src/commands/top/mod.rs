// SPDX-License-Identifier: MIT OR Apache-2.0
//! The `top` command: a live screen. Without a terminal, or with a dumb one, it writes a page per
//! interval.

mod app;
mod heat;
mod meter;
mod page;
mod panels;
mod replay;
mod screen;
mod view;

use std::env;
use std::io::IsTerminal;
use std::io::Write;
use std::io::stdin;
use std::io::stdout;
use std::path::Path;
use std::sync::mpsc::Receiver;
use std::sync::mpsc::Sender;
use std::sync::mpsc::channel;
use std::time::Duration;

use anyhow::Result;
use nvme_deep::model::untrusted::file_name;
use nvme_deep::report::top::Sample;
use nvme_deep::report::top::Top;

use self::app::Action;
use self::app::App;
use self::meter::Meter;
use self::page::page;
use self::replay::Recorded;
use self::screen::Input;
use self::screen::Screen;
use self::view::Look;
use crate::cli::options::TopOptions;
use crate::commands::drive::health::HealthCheck;
use crate::commands::drive::ledger_of;
use crate::commands::drive::turns::Run;
use crate::commands::drive::turns::Turn;
use crate::commands::drive::turns::Upkeep;
use crate::commands::drive::turns::Wake;
use crate::commands::drive::turns::stop_signals;
use crate::commands::say;
use crate::commands::say_ledger;
use crate::commands::standard;
use crate::commands::start::Preflight;
use crate::commands::start::until;

/// Where the screen goes.
enum Out {
    /// A terminal, and what the user does.
    Screen(Box<Screen>, Receiver<Input>),
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
    title: String,
    look: Look,
    /// The user has ended the run.
    done: bool,
    /// For tests.
    panics: bool,
}

impl Display {
    fn of_pages(options: &TopOptions, app: App, title: String) -> Self {
        Self {
            app,
            out: Out::Pages,
            title,
            look: Look {
                color: options.color_pages,
                unicode: standard::has_unicode(),
            },
            done: false,
            panics: options.test_panic,
        }
    }

    fn draw(&mut self) -> Result<()> {
        match &mut self.out {
            Out::Screen(screen, _) => screen.draw(&self.app, &self.title, self.look),
            Out::Pages => Ok(()),
        }
    }

    /// Adds an interval, and shows it.
    fn push(&mut self, sample: Sample) -> Result<()> {
        self.app.push(sample);
        if matches!(self.out, Out::Pages) {
            let page = page(&self.app, &self.title, self.look);
            let mut out = standard::stdout();
            out.write_all(page.as_bytes())?;
            out.flush()?;
        }
        self.draw()?;
        assert!(!self.panics, "asked for by --test-panic");
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
                Input::Key(key) => self.app.key(key),
                Input::Resize => Action::Draw,
                Input::Suspend => Action::Suspend,
            };
            match action {
                Action::Draw => {}
                Action::Redraw => screen.clear()?,
                Action::Suspend => screen.suspend()?,
                Action::Quit => self.done = true,
            }
        }
        if any { self.draw() } else { Ok(()) }
    }
}

/// Opens the screen, or the pages.
fn open(options: &TopOptions, app: App, title: String, waker: &Sender<Wake>) -> Result<Display> {
    let mut display = Display::of_pages(options, app, title);
    if has_screen() {
        let (sender, inputs) = channel();
        let screen = Screen::take_over(sender, waker.clone())?;
        (display.look.color, display.out) = (options.color, Out::Screen(Box::new(screen), inputs));
    }
    Ok(display)
}

/// The time of the next interval: late ones are not made up for.
fn after(due: Duration, now: Duration, step: Duration) -> Duration {
    let next = due.saturating_add(step);
    if next > now {
        next
    } else {
        now.saturating_add(step)
    }
}

fn live(options: &TopOptions) -> Result<()> {
    let ready = Preflight::check(&options.settings)?;
    let mut session = ready.attach(&options.settings, until(true), None)?;
    let mut health = HealthCheck::of(&session, ready.system.clone());
    let app = App::new(Top::new(options.settings.stage_set));
    let title = format!("nvme-deep top  every {:?}", options.interval);
    let mut display = open(options, app, title, &ready.waker)?;
    let mut meter = Meter::begin(&session, &ready.system)?;
    let run = Run::begin(&ready.stop, options.duration);
    let mut due = options.interval;
    display.draw()?;
    let ended = run.turns(&mut session, &mut health, &mut |session, tick| {
        display.answer()?;
        if tick.now >= due {
            let at = run.elapsed();
            display.push(meter.sample(options, session, at)?)?;
            due = after(due, at, options.interval);
        }
        Ok(if display.done {
            Turn::Done
        } else {
            Turn::Until(due)
        })
    });
    // gives the terminal back before anything is said
    drop(display);
    health.final_check(&session)?;
    session.end()?;
    ended?;
    let now = session.snapshot()?;
    let ledger = ledger_of(&session, &now, Some(session.scan()?))?;
    say_ledger(&ledger, options.settings.attaching.verbose > 0);
    health.verdict()
}

/// A recording needs no checks.
struct NoUpkeep;

impl Upkeep<()> for NoUpkeep {
    fn rescan(&mut self, (): &mut ()) -> Result<bool> {
        Ok(false)
    }
}

/// Shows a recording on the screen.
fn recorded(options: &TopOptions, mut recorded: Recorded, app: App, title: String) -> Result<()> {
    let (waker, stop) = channel();
    stop_signals(waker.clone())?;
    let mut display = open(options, app, title, &waker)?;
    let run = Run::begin(&stop, None);
    let mut due = Duration::ZERO;
    display.draw()?;
    let shown = run.turns(&mut (), &mut NoUpkeep, &mut |(), tick| {
        display.answer()?;
        if display.done {
            return Ok(Turn::Done);
        }
        if tick.now >= due {
            let Some(sample) = recorded.next()? else {
                display.app.ended = true;
                display.draw()?;
                // the last interval stays until a key
                return Ok(Turn::Until(Duration::MAX));
            };
            display.push(sample)?;
            due = after(due, tick.now, options.interval);
        }
        Ok(Turn::Until(due))
    });
    drop(display);
    shown?;
    say_end(options, &recorded)
}

fn say_end(options: &TopOptions, recorded: &Recorded) -> Result<()> {
    let (ledger, left_out, verdict) = recorded.end();
    left_out.iter().for_each(|text| say(text));
    say_ledger(&ledger, options.settings.attaching.verbose > 0);
    verdict
}

/// Shows a recording: on the screen, or as pages.
///
/// # Errors
/// One sentence each, with the exit code of its kind.
pub fn of_recording(options: &TopOptions, path: &Path) -> Result<()> {
    let mut recording = Recorded::open(path, options)?;
    let app = App::new(Top::new(recording.stage_set));
    let title = format!(
        "nvme-deep top  {}  every {:?}",
        file_name(path),
        options.interval
    );
    if has_screen() {
        return recorded(options, recording, app, title);
    }
    let mut display = Display::of_pages(options, app, title);
    while let Some(sample) = recording.next()? {
        display.push(sample)?;
    }
    say_end(options, &recording)
}

/// Runs the command to its end.
///
/// # Errors
/// One sentence each, with the exit code of its kind. Nothing stays attached, and the terminal is as
/// before.
pub fn run(options: &TopOptions) -> Result<()> {
    match &options.from {
        Some(path) => of_recording(options, path),
        None => live(options),
    }
}

#[cfg(test)]
mod tests;
