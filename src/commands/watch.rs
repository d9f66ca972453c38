// SPDX-License-Identifier: MIT OR Apache-2.0
//! Commands that sum up events, of a session or of a recording, without a line for each.

use std::time::Duration;

use anyhow::Result;
use nvme_deep::machine::clock::monotonic_ns;
use nvme_deep::machine::own_tgid;
use nvme_deep::model::activity::Activity;
use nvme_deep::model::event::Event;
use nvme_deep::recording::Item;
use nvme_deep::recording::MachineInfo;
use nvme_deep::report::ledger::EventClass;
use nvme_deep::report::ledger::Ledger;
use nvme_deep::report::ledger::Shown;
use nvme_deep::report::submissions::Longest;
use nvme_deep::report::submissions::Submissions;
use nvme_deep::session::Session;
use nvme_deep::session::settings::Settings;
use nvme_deep::source::EventStream;
use nvme_deep::source::Read;
use nvme_deep::source::Source;

use crate::commands::drops::Drops;
use crate::commands::drops::Reader;
use crate::commands::names::Names;
use crate::commands::replay::Replay;
use crate::commands::run::Run;
use crate::commands::run::Turn;
use crate::commands::run::Watchdog;
use crate::commands::run::drain_pause;
use crate::commands::run::ledger_of_trace;
use crate::commands::run::take_in;
use crate::commands::run::take_rest;
use crate::commands::several::again;
use crate::commands::start::Ready;
use crate::commands::start::refuse_unknown;

/// Receives the events that the settings select.
pub trait Watcher {
    /// The run has begun, at this time (CLOCK_MONOTONIC nanoseconds).
    fn begin(&mut self, begin_ns: u64);

    /// An event, in the order of time.
    fn event(&mut self, event: &Event, names: &mut Names);

    /// What the machine did beside the commands: at the begin, each second, and at the end.
    fn activity(&mut self, _activity: Activity) {}

    /// The settings of the machine of a recording.
    fn machine(&mut self, _machine: MachineInfo) {}

    /// When [`Watcher::report`] is due, since the start of the run. `None`: never again.
    fn due(&self) -> Option<Duration> {
        None
    }

    /// Writes a report during the run.
    ///
    /// # Errors
    /// Errors of the output.
    fn report(&mut self, _at: Duration, _ledger: Ledger) -> Result<()> {
        Ok(())
    }

    /// The last ledger of a recording so far, if a report is due later.
    fn recorded_ledger(&mut self, _ledger: Option<Ledger>) {}
}

/// The end of a run.
pub struct Watched {
    /// The ledger.
    pub ledger: Ledger,
    /// Length of the run.
    pub took: Duration,
    /// The time before the first event that is not known, because a ring dropped older events.
    pub dropped: Duration,
    /// The names of the disks at the end.
    pub names: Names,
    /// Of a recording: that it has no command that was asked for.
    pub unmatched: Option<String>,
    /// An error if the run or the recording is not complete. To be returned after the last output.
    pub verdict: Result<()>,
}

/// A session that is watched.
struct Live<'w> {
    watcher: &'w mut dyn Watcher,
    names: Names,
    shown: Shown,
    own: Option<u32>,
}

impl Live<'_> {
    fn activity(&mut self, source: &dyn Source) -> Result<()> {
        if let Some(activity) = source.activity()? {
            self.watcher.activity(activity);
        }
        Ok(())
    }

    fn read(&mut self, read: Read<'_>) {
        let Some(event) = read else {
            self.shown.undecodable += 1;
            return;
        };
        self.watcher.event(event, &mut self.names);
        self.shown.add(EventClass::of(&event.what));
        self.shown.add_own(&event.what, self.own);
    }

    fn reports(&mut self, run: &Run<'_>, session: &Session) -> Result<()> {
        while let Some(due) = self.watcher.due() {
            let now = run.elapsed();
            if now < due {
                break;
            }
            let ledger = ledger_of_trace(session, &self.shown, None)?;
            self.watcher.report(now, ledger)?;
        }
        Ok(())
    }

    /// Takes in what is left after the end of the run.
    fn end(
        &mut self,
        events: &mut dyn EventStream,
        source: &dyn Source,
        end_ns: u64,
    ) -> Result<()> {
        take_rest(events, &mut |read| self.read(read))?;
        self.activity(source)?;
        self.shown.out_of_order = events.late();
        for event in source.unfinished(end_ns.max(events.last_ns()))? {
            self.read(Some(&event));
        }
        Ok(())
    }
}

/// Traces, and passes the events on.
///
/// # Errors
/// One sentence each, with the exit code of its kind. Nothing stays attached.
pub fn watch(
    ready: Ready,
    settings: &Settings,
    until: &str,
    duration: Option<Duration>,
    watcher: &mut dyn Watcher,
) -> Result<Watched> {
    let mut session = ready.attach(settings, until, None)?;
    if let Some(tracing) = &settings.trace {
        refuse_unknown(tracing, &session)?;
    }
    let drops = Drops::watch(&session, settings, Reader::Sums)?;
    let mut watchdog = Watchdog::of(&session, ready.system.clone());
    let mut events = session.events()?;
    let pause = drain_pause(session.rings().bytes);
    watcher.begin(monotonic_ns());
    let mut live = Live {
        watcher,
        names: Names::of(ready.system),
        shown: Shown::default(),
        own: own_tgid(),
    };
    live.activity(&session)?;
    let run = Run::begin(&ready.stop, duration);
    let ended = run.turns(&mut session, &mut watchdog, &mut |session, tick| {
        if tick.rescanned {
            live.names.may_look();
            live.activity(session)?;
        }
        let more = take_in(&mut events, &mut |read| live.read(read))?;
        live.reports(&run, session)?;
        let next = if more {
            tick.now
        } else {
            run.elapsed() + pause
        };
        Ok(Turn::Until(next))
    });
    let took = run.elapsed();
    let end_ns = drops.close(&mut session, &mut watchdog, ended)?;
    live.end(&mut events, &session, end_ns)?;
    let ledger = ledger_of_trace(&session, &live.shown, Some(session.scan()?))?;
    Ok(Watched {
        ledger,
        took,
        dropped: Duration::ZERO,
        names: live.names,
        unmatched: None,
        verdict: watchdog.verdict(),
    })
}

/// Reads a recording, and passes the events on that the settings select.
///
/// # Errors
/// If the file cannot be read; one sentence.
pub fn watch_recording(
    mut replay: Replay,
    settings: &Settings,
    watcher: &mut dyn Watcher,
) -> Result<Watched> {
    let (mut shown, mut unselected) = (Shown::default(), 0);
    let mut names = Names::recorded();
    let begin_ns = replay.info().begin_ns;
    watcher.begin(begin_ns);
    let mut more = true;
    while more {
        if watcher.due().is_some() {
            watcher.recorded_ledger(replay.ledger());
        }
        more = replay.next(&mut |item| match item {
            Item::Event(event) if settings.selects(event) => {
                watcher.event(event, &mut names);
                shown.add(EventClass::of(&event.what));
            }
            Item::Event(event) => {
                unselected += u64::from(EventClass::of(&event.what) == EventClass::Command);
            }
            Item::Controllers(all) => names.set(all),
            Item::Activity(activity) => watcher.activity(activity),
            Item::Machine(machine) => watcher.machine(*machine),
            _ => {}
        })?;
    }
    let (mut ledger, took) = replay.end()?;
    if let Some(trace) = &mut ledger.trace {
        trace.show(&shown, unselected);
    }
    Ok(Watched {
        ledger,
        took,
        dropped: took.saturating_sub(replay.covers()),
        names,
        unmatched: replay.unmatched(),
        verdict: replay.verdict(),
    })
}

/// What puts the submissions of a recording into the order of time. With one event per command, this
/// reads the recording once more, for `option`.
///
/// # Errors
/// If the file cannot be read, or is a pipe; one sentence.
pub fn submissions_of(replay: &Replay, settings: &Settings, option: &str) -> Result<Submissions> {
    if !replay.info().pairs {
        return Ok(Submissions::of_events());
    }
    let mut replay = again(replay, settings, option)?;
    let (mut longest, mut names) = (Longest::default(), Names::recorded());
    while replay.next(&mut |item| match item {
        Item::Event(event) if settings.selects(event) => {
            let (_, set) = names.of_command(event.what.id());
            longest.add(event, set);
        }
        Item::Controllers(all) => names.set(all),
        _ => {}
    })? {}
    Ok(Submissions::of_pairs(longest))
}
