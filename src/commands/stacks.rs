// SPDX-License-Identifier: MIT OR Apache-2.0
//! The `stacks` command: commands and their latency by kernel stack.

use std::collections::HashMap;
use std::fs::File;
use std::io::BufWriter;
use std::io::Write;
use std::time::Duration;

use anyhow::Context;
use anyhow::Result;
use nvme_deep::error::Kind;
use nvme_deep::model::event::EventKind;
use nvme_deep::model::event::StackId;
use nvme_deep::model::histogram::Histogram;
use nvme_deep::model::ledger::Ledger;
use nvme_deep::model::ledger::Shown;
use nvme_deep::model::run::StackSum;
use nvme_deep::model::stack::Frame;
use nvme_deep::model::stack::Stack;
use nvme_deep::model::stack::StackAt;
use nvme_deep::recording::Item;
use nvme_deep::render::flamegraph::svg;
use nvme_deep::render::json;
use nvme_deep::render::stacks::StacksView;
use nvme_deep::render::theme::Theme;
use nvme_deep::report::stacks::StackRow;
use nvme_deep::report::stacks::StackSums;
use nvme_deep::report::stacks::Weight;
use nvme_deep::source::Source;
use nvme_deep::symbols::Symbolizer;

use crate::cli::args::StacksByArg;
use crate::cli::options::StacksOptions;
use crate::commands::exec::Program;
use crate::commands::exec::until_end;
use crate::commands::outfile::OutFile;
use crate::commands::outfile::Rules;
use crate::commands::replay::Replay;
use crate::commands::run::Run;
use crate::commands::run::Turn;
use crate::commands::run::Watchdog;
use crate::commands::run::ledger_of_trace;
use crate::commands::say;
use crate::commands::say_ledger;
use crate::commands::several::Ended;
use crate::commands::several::Form;
use crate::commands::several::open_all;
use crate::commands::several::show_each;
use crate::commands::standard::stdout;
use crate::commands::start::Ready;
use crate::commands::start::refuse_unknown;
use crate::commands::start::symbolizer;
use crate::exit::Failure;

/// Upper bound of the time to read the kernel's symbols on a slow machine.
const SYMBOLS_TAKE: Duration = Duration::from_secs(3);

/// The file of the flame graph.
type Drawing = (OutFile, File);

/// Creates the file of the flame graph before anything is attached: the run must not fail at its end
/// because the file can't be written.
fn create(options: &StacksOptions) -> Result<Option<Drawing>> {
    let rules = Rules {
        force: options.force,
        inputs: &options.from,
        ..Rules::default()
    };
    let path = options.svg.as_deref();
    path.map(|path| OutFile::create(path, &rules)).transpose()
}

/// Draws the flame graph.
fn draw((out, file): Drawing, rows: &[StackRow], by: Weight, took: Duration) -> Result<()> {
    let title = format!("NVMe commands, {:.1} s", took.as_secs_f64());
    let mut file = BufWriter::new(file);
    let drawn = svg(rows, by, &title, &mut file).and_then(|()| file.flush());
    drawn.map_err(|error| out.failed(error))?;
    out.keep()?;
    Ok(())
}

const fn weight(by: StacksByArg) -> Weight {
    match by {
        StacksByArg::Count => Weight::Count,
        StacksByArg::Latency => Weight::Latency,
    }
}

struct Seen {
    at: StackAt,
    rows: Vec<StackRow>,
    ledger: Ledger,
    took: Duration,
    /// An error if the programs stopped receiving events during the run.
    verdict: Result<()>,
}

/// Sums the commands by symbolized stack.
fn sum(
    source: &dyn Source,
    options: &StacksOptions,
    mut frames: impl FnMut(&[u64]) -> Vec<Frame>,
) -> Result<Vec<StackRow>> {
    let row = |sum: StackSum| StackRow {
        stack: sum.addresses.map_or(Stack::NotObserved, |addresses| {
            Stack::Taken(frames(&addresses))
        }),
        hist: sum.hist,
        unmeasured: sum.unmeasured,
    };
    let sums: StackSums = source.stack_sums()?.into_iter().map(row).collect();
    Ok(sums.rows(weight(options.by)))
}

/// The stack of a finished command, and its latency. The outer `None`: not a finished command, or
/// its stack was not to be taken (`--sample`). The inner `None`: not observed.
fn stack_of(what: &EventKind, at: StackAt) -> Option<(Option<StackId>, Option<u64>)> {
    let [submit, complete] = what.stacks();
    let (asked, latency, completed) = match what {
        EventKind::Command(_, asked, end) => (Some(asked), end.latency_ns, true),
        EventKind::Missed { asked, .. } => (asked.as_ref(), None, false),
        _ => return None,
    };
    let (id, observed) = match at {
        StackAt::Submit => (submit, asked.is_some_and(|a| a.knows_submitter)),
        StackAt::Complete => (complete, completed),
    };
    match observed {
        true if !id.is_some() => None,
        observed => Some((observed.then_some(id), latency)),
    }
}

/// Most stacks of a recording: more than the kernel keeps.
const MOST_STACKS: usize = 16_384;

fn too_many() -> anyhow::Error {
    let text = format!(
        "the recording has more than {MOST_STACKS} stacks: choose some commands by --ctrl or --opcode"
    );
    Failure::error(Kind::Usage, text)
}

/// Sums the commands of a recording by stack.
fn replay(options: &StacksOptions, mut replay: Replay) -> Result<Seen> {
    let settings = &options.settings;
    replay.say_choice();
    replay.show_progress();
    let wants = settings.trace.as_ref().and_then(|t| t.stack);
    let at = wants.context("no stacks were asked for")?;
    let (mut frames, mut sums) = (HashMap::new(), HashMap::new());
    let mut done = Ok(());
    while replay.next(&mut |item| match item {
        Item::Stacks(stacks) => {
            frames.extend(stacks.iter().map(|s| (StackId(s.id), s.frames())));
        }
        Item::Event(event) if settings.selects(event) => {
            if let Some((id, latency)) = stack_of(&event.what, at) {
                // all without a description are one
                let id = id.map(|id| {
                    if frames.contains_key(&id) {
                        id
                    } else {
                        StackId(0)
                    }
                });
                if sums.len() > MOST_STACKS {
                    done = Err(too_many());
                    return;
                }
                let (hist, unmeasured): &mut (Histogram, u64) = sums.entry(id).or_default();
                match latency {
                    Some(ns) => hist.record(ns),
                    None => *unmeasured += 1,
                }
            }
        }
        _ => {}
    })? && done.is_ok()
    {}
    done?;
    let mut all = StackSums::default();
    for (id, (hist, unmeasured)) in sums {
        let taken = |id| Stack::Taken(frames.get(&id).cloned().unwrap_or_default());
        all.add(StackRow {
            stack: id.map_or(Stack::NotObserved, taken),
            hist,
            unmeasured,
        });
    }
    let rows = all.rows(weight(options.by));
    let (mut ledger, took) = replay.end()?;
    if let Some(trace) = &mut ledger.trace {
        trace.commands_shown = rows.iter().map(StackRow::commands).sum();
    }
    Ok(Seen {
        at,
        rows,
        ledger,
        took,
        verdict: replay.verdict(),
    })
}

/// Runs the session. Writes no output.
fn trace(options: &StacksOptions) -> Result<Seen> {
    let ready = Ready::look(&options.settings)?;
    let wants = options.settings.trace.as_ref();
    let wants = wants.context("no stacks were asked for")?;
    let at = wants.stack.context("no stacks were asked for")?;
    // Reading the symbol table takes seconds. The programs already count during that time, unless
    // they need an address from the table, or the run is short.
    let short = options.duration.is_some_and(|d| d < SYMBOLS_TAKE);
    let early = (short || at == StackAt::Complete).then(symbolizer);
    let irq_entry = early.as_ref().and_then(Symbolizer::irq_entry);
    let until = until_end(&options.exec, options.duration.is_some());
    let mut session = ready.attach(&options.settings, &until, irq_entry)?;
    refuse_unknown(wants, &session)?;
    let mut watchdog = Watchdog::of(&session, ready.system);
    let program = Program::start(&options.exec, &ready.waker)?;
    let run = Run::begin(&ready.stop, options.duration);
    let mut symbolizer = early.unwrap_or_else(symbolizer);
    let ended = run.turns(&mut session, &mut watchdog, &mut |_, _| {
        Ok(Turn::Until(Duration::MAX))
    });
    let took = run.elapsed();
    watchdog.last_look(&session)?;
    session.end()?;
    ended?;
    let rows = sum(&session, options, |addresses| {
        symbolizer.stack(addresses, at)
    })?;
    let shown = Shown {
        commands: rows.iter().map(StackRow::commands).sum(),
        ..Shown::default()
    };
    let ledger = ledger_of_trace(&session, &shown, Some(session.scan()?))?;
    Ok(Seen {
        at,
        rows,
        ledger,
        took,
        verdict: watchdog.verdict().and_then(|()| program.end()),
    })
}

/// Runs the command to its end.
///
/// # Errors
/// One sentence each, with the exit code of its kind. Nothing stays attached.
pub fn run(options: &StacksOptions) -> Result<()> {
    if options.from.is_empty() {
        let drawing = create(options)?;
        return write(options, trace(options)?, drawing)?;
    }
    let replays = open_all(&options.from, &options.settings, &Replay::require_pairs)?;
    let mut drawing = create(options)?;
    let form = Form {
        json: options.json,
        color: options.color,
        ledger_apart: true,
    };
    show_each(replays, &form, &mut |file| match replay(options, file) {
        Ok(seen) => write(options, seen, drawing.take()).map(Ended::File),
        Err(error) => Ok(error.into()),
    })
}

/// Writes the output. The inner result is the verdict on the run.
fn write(options: &StacksOptions, seen: Seen, drawing: Option<Drawing>) -> Result<Result<()>> {
    let Seen {
        at,
        rows,
        ledger,
        took,
        verdict,
    } = seen;
    let by = weight(options.by);
    let has_stdout = drawing.as_ref().is_some_and(|(out, _)| out.is_stdout());
    match drawing {
        Some(_) if rows.is_empty() => say("no stack was seen: no flame graph is drawn"),
        Some(drawing) => draw(drawing, &rows, by, took)?,
        None => {}
    }
    if has_stdout {
        say_ledger(&ledger, options.settings.attaching.verbose > 0);
        return Ok(verdict);
    }
    let mut out = BufWriter::new(stdout());
    let theme = Theme {
        color: options.color,
    };
    let view = StacksView {
        theme,
        at,
        by,
        top: options.top,
    };
    if options.json {
        view.json(&rows, &mut out)?;
        json::end(&ledger, took, &mut out)?;
    } else if options.folded {
        view.folded(&rows, &mut out)?;
    } else {
        view.text(&rows, &mut out)?;
    }
    out.flush()?;
    if !options.json {
        // stdout is for the stacks
        say_ledger(&ledger, options.settings.attaching.verbose > 0);
    }
    Ok(verdict)
}
