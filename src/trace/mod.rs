// SPDX-License-Identifier: MIT OR Apache-2.0
//! The `trace` command: every command as it happens.
//!
//! One thread reads the ring, orders, renders and writes. If it is held up (a reader that is slow,
//! a terminal that is stopped), the ring fills; the kernel side counts what finds no room, and
//! another thread says so while it happens.

mod drops;
mod names;
mod stacks;

use std::fs::File;
use std::io::ErrorKind;
use std::io::IsTerminal;
use std::io::Write;
use std::io::stderr;
use std::io::stdout;
use std::os::fd::AsFd;
use std::sync::mpsc::Receiver;
use std::sync::mpsc::RecvTimeoutError;
use std::time::Duration;
use std::time::Instant;

use anyhow::Context as _;
use anyhow::Result;

use self::drops::Drops;
use self::names::Names;
use self::stacks::Stacks;
use crate::abi;
use crate::attach::slots;
use crate::cli::TimeArg;
use crate::event::Event;
use crate::event::StackId;
use crate::event::What;
use crate::exit::Failure;
use crate::exit::Kind;
use crate::host::Host;
use crate::host::clock::monotonic_ns;
use crate::host::clock::wall_offset_ns;
use crate::ledger::Ledger;
use crate::ledger::Shown;
use crate::options::Probing;
use crate::options::TraceOptions;
use crate::options::Tracing;
use crate::output::Output;
use crate::path::stage::Cut;
use crate::reorder::Reorder;
use crate::session::EventRing;
use crate::session::Session;
use crate::start::Care;
use crate::start::RESCAN;
use crate::start::Ready;
use crate::start::ledger_of_trace;
use crate::start::refuse_unknown;
use crate::start::say;
use crate::start::until;
use crate::view::books::books;
use crate::view::json;
use crate::view::theme::Theme;
use crate::view::trace::Clock;
use crate::view::trace::Context;
use crate::view::trace::TraceJson;
use crate::view::trace::TraceText;

/// How often to empty the ring. In this time a million commands a second make some 4 MB of events; a
/// smaller ring is emptied more often.
const DRAIN: Duration = Duration::from_millis(20);
const ROOM_FOR_DRAIN: u32 = 4 << 20;
const SHORTEST_DRAIN: Duration = Duration::from_millis(1);
/// How long to wait for an event that is earlier than those that are there: a program that has read
/// the clock may be interrupted before it has its place in the ring.
const WINDOW_NS: u64 = 20_000_000;

enum View {
    Text(TraceText),
    Json(TraceJson),
}

impl View {
    fn new(options: &TraceOptions) -> Self {
        let clock = match options.time {
            TimeArg::Mono => Clock::Mono,
            TimeArg::Rel => Clock::Rel {
                begin_ns: monotonic_ns(),
            },
            TimeArg::Wall => Clock::wall(wall_offset_ns()),
        };
        let cut = options.probing.cut;
        let stages = (cut != Cut::Total).then_some(cut);
        if options.json {
            return Self::Json(TraceJson::new(clock, stages));
        }
        let theme = Theme {
            color: options.color,
        };
        Self::Text(TraceText::new(theme, stdout().is_terminal(), clock, stages))
    }

    fn event(&mut self, event: &Event, cx: &Context<'_>) {
        match self {
            Self::Text(view) => view.event(event, cx),
            Self::Json(view) => view.event(event, cx),
        }
    }

    fn is_full(&self) -> bool {
        match self {
            Self::Text(view) => view.is_full(),
            Self::Json(view) => view.is_full(),
        }
    }

    fn take<R>(&mut self, to: impl FnOnce(&[u8]) -> R) -> R {
        match self {
            Self::Text(view) => view.take(to),
            Self::Json(view) => view.take(to),
        }
    }

    fn stack(&self, frames: &[crate::kstack::Frame]) -> String {
        match self {
            Self::Text(view) => view.stack(frames),
            Self::Json(view) => view.stack(frames),
        }
    }

    fn clock(&mut self) -> &mut Clock {
        match self {
            Self::Text(view) => view.clock(),
            Self::Json(view) => view.clock(),
        }
    }
}

/// From records to lines.
struct Scribe<'o> {
    options: &'o TraceOptions,
    view: View,
    names: Names,
    stacks: Option<Stacks>,
    out: Output,
    shown: Shown,
    /// What waits to be written, in its order.
    pending: Vec<Kindred>,
    /// Commands that are shown or pending.
    commands: u64,
}

/// How the books tell events apart.
#[derive(Clone, Copy, Debug)]
enum Kindred {
    Submit,
    Command,
    Other,
}

impl<'o> Scribe<'o> {
    fn new(options: &'o TraceOptions, host: Host, stacks: Option<Stacks>) -> Result<Self> {
        let file = output(&host)?;
        Ok(Self {
            options,
            view: View::new(options),
            names: Names::of(host),
            stacks,
            out: Output::to(file),
            shown: Shown::default(),
            pending: Vec::new(),
            commands: 0,
        })
    }

    /// So many commands were asked for, and shown.
    fn is_done(&self) -> bool {
        self.options
            .count
            .is_some_and(|count| self.commands >= count)
    }

    fn record(&mut self, bytes: &[u8], session: &Session<'_>) {
        // by reference: an event is large, and would be copied out of the result
        match &abi::event(bytes) {
            Ok(event) => self.event(event, session),
            Err(_) => self.shown.undecodable += 1,
        }
    }

    fn event(&mut self, event: &Event, session: &Session<'_>) {
        if self.is_done() {
            self.shown.past_count += 1;
            return;
        }
        let [kstack, kstack_complete] = match &mut self.stacks {
            Some(stacks) => {
                let ids = stack_ids(&event.what);
                for id in ids {
                    stacks.learn(id, session, |frames| self.view.stack(frames));
                }
                ids.map(|id| stacks.block(id))
            }
            None => [""; 2],
        };
        let (disk, set) = self.names.of_command(event.what.id());
        let cx = Context {
            disk,
            set,
            kstack,
            kstack_complete,
        };
        self.view.event(event, &cx);
        let kindred = match event.what {
            What::Submit(..) => Kindred::Submit,
            What::Complete(..) | What::Command(..) | What::Missed { .. } => Kindred::Command,
            _ => Kindred::Other,
        };
        self.commands += u64::from(matches!(kindred, Kindred::Command));
        self.pending.push(kindred);
        if self.view.is_full() {
            self.flush();
        }
    }

    fn flush(&mut self) {
        let lost = self.view.take(|lines| self.out.write(lines));
        // of what was pending, the last ones
        let written = self.pending.len().saturating_sub(lost as usize);
        for kindred in &self.pending[..written] {
            match kindred {
                Kindred::Submit => self.shown.submits += 1,
                Kindred::Command => self.shown.commands += 1,
                Kindred::Other => self.shown.events += 1,
            }
        }
        self.shown.not_written += lost;
        self.pending.clear();
    }
}

/// The stacks at submission and at completion.
fn stack_ids(what: &What) -> [StackId; 2] {
    match what {
        What::Submit(_, asked) => [asked.stack, StackId::default()],
        What::Complete(_, outcome) => [StackId::default(), outcome.stack],
        What::Command(_, asked, outcome) => [asked.stack, outcome.stack],
        What::Missed {
            asked: Some(asked), ..
        } => [asked.stack, StackId::default()],
        _ => Default::default(),
    }
}

/// How long to leave the ring alone.
fn pause(ring_bytes: u32) -> Duration {
    let share = f64::from(ring_bytes) / f64::from(ROOM_FOR_DRAIN);
    DRAIN.mul_f64(share.min(1.0)).max(SHORTEST_DRAIN)
}

/// From the ring to where events wait for earlier ones. True: there may be more.
fn drain(ring: &mut EventRing, waiting: &mut Reorder) -> Result<bool> {
    ring.drain(|bytes| {
        // what is too short for a time is too short for all: it comes first, and is counted
        let ns = abi::event_time(bytes).unwrap_or(0);
        waiting.push(ns, bytes);
    })
}

/// Runs until the count, the duration, a signal or the end of the output.
fn until_told(
    options: &TraceOptions,
    stop: &Receiver<()>,
    ring: &mut EventRing,
    waiting: &mut Reorder,
    scribe: &mut Scribe<'_>,
    session: &mut Session<'_>,
    care: &mut Care,
) -> Result<()> {
    let begin = Instant::now();
    let mut next_scan = RESCAN;
    let pause = pause(session.ring_bytes());
    loop {
        let now_ns = monotonic_ns();
        let more = drain(ring, waiting)?;
        waiting.release(now_ns.saturating_sub(WINDOW_NS), |bytes| {
            scribe.record(bytes, session);
        });
        scribe.flush();
        scribe.out.look();
        let elapsed = begin.elapsed();
        let over = options.duration.is_some_and(|d| elapsed >= d);
        if over || scribe.is_done() || scribe.out.has_failed() {
            return Ok(());
        }
        if elapsed >= next_scan {
            if care.rescan(session)? {
                return Ok(());
            }
            scribe.names.may_look();
            scribe.view.clock().set_offset(wall_offset_ns());
            next_scan = elapsed + RESCAN;
        }
        let pause = if more { Duration::ZERO } else { pause };
        let rest = options.duration.map_or(pause, |d| d - elapsed).min(pause);
        match stop.recv_timeout(rest) {
            Err(RecvTimeoutError::Timeout) => {}
            _ => return Ok(()),
        }
    }
}

fn tracing(probing: &Probing) -> Result<&Tracing> {
    probing.trace.as_ref().context("no trace was asked for")
}

/// Where the lines go.
fn output(host: &Host) -> Result<File> {
    let file = File::from(stdout().as_fd().try_clone_to_owned()?);
    if let Some(disk) = host.nvme_disk_of(&file) {
        say(&format!(
            "stdout is a file on {disk}: writing the trace makes commands, which are traced too. \
             Better write to a tmpfs, or leave that controller out (--ctrl)"
        ));
    }
    Ok(file)
}

/// Runs the command to its end.
///
/// # Errors
/// One sentence each, with the exit code of its kind; nothing stays attached.
pub fn run(options: &TraceOptions) -> Result<()> {
    let ready = Ready::look(&options.probing)?;
    let wants = tracing(&options.probing)?;
    let stacks = wants.stack.map(Stacks::new);
    let until = until(options.duration.is_some() || options.count.is_some());
    let mut slots = slots();
    let irq_entry = stacks.as_ref().and_then(Stacks::irq_entry);
    let mut session = ready.attach(&mut slots, &options.probing, until, irq_entry)?;
    refuse_unknown(wants, &session)?;
    let drops = Drops::watch(session.counter_reader()?);
    let mut care = Care::of(&session, ready.host.clone());
    let mut scribe = Scribe::new(options, ready.host, stacks)?;
    let mut waiting = Reorder::default();
    let mut ring = session.events()?;
    let begin = Instant::now();
    let ended = until_told(
        options,
        &ready.stop,
        &mut ring,
        &mut waiting,
        &mut scribe,
        &mut session,
        &mut care,
    );
    let at = begin.elapsed();
    care.last_look(&session)?;
    // commands go on while we detach, which takes a while, and their last events are still seen
    let end_ns = monotonic_ns();
    let closed = session.end();
    drops.stop();
    ended?;
    closed?;
    while drain(&mut ring, &mut waiting)? {}
    waiting.release(u64::MAX, |bytes| scribe.record(bytes, &session));
    scribe.shown.out_of_order = waiting.late();
    if !scribe.is_done() {
        for event in session.unfinished(end_ns.max(waiting.last_ns()))? {
            scribe.event(&event, &session);
        }
    }
    scribe.flush();
    let ledger = ledger_of_trace(&session, &scribe.shown)?;
    finish(scribe, &ledger, at)?;
    care.verdict()
}

/// The books, and what went wrong with the output.
fn finish(mut scribe: Scribe<'_>, ledger: &Ledger, at: Duration) -> Result<()> {
    if scribe.options.json {
        let mut line = Vec::new();
        json::end(ledger, at, &mut line)?;
        // no event: if it is missing, the error says so
        scribe.out.write(&line);
    } else {
        let mut err = stderr().lock();
        let theme = Theme { color: false };
        let detail = scribe.options.probing.attaching.verbose > 0;
        // nobody may be listening: that is no error
        let _ = books(ledger, theme, detail, &mut err).and_then(|()| err.flush());
    }
    let not_written = scribe.shown.not_written;
    match scribe.out.into_error() {
        Some(error) if error.kind() == ErrorKind::BrokenPipe => {
            say(&format!(
                "the reader of stdout has gone; {not_written} events were not written"
            ));
            Ok(())
        }
        Some(error) => Err(Failure::error(
            Kind::Run,
            format!(
                "stdout can't be written ({error}): {not_written} events are missing at the end. \
                 Make room, or write elsewhere"
            ),
        )),
        None => Ok(()),
    }
}
