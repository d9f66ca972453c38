// SPDX-License-Identifier: MIT OR Apache-2.0
//! The `stacks` command: which paths of the kernel commands come through, and how long they took.

use std::fs::File;
use std::io::BufWriter;
use std::io::Write;
use std::io::stderr;
use std::io::stdout;
use std::path::Path;
use std::sync::mpsc::Receiver;
use std::sync::mpsc::RecvTimeoutError;
use std::time::Duration;
use std::time::Instant;

use anyhow::Context;
use anyhow::Result;

use crate::attach::slots;
use crate::cli::StacksByArg;
use crate::exit::Failure;
use crate::exit::Kind;
use crate::kstack::Hooked;
use crate::kstack::Stack;
use crate::kstack::StackRow;
use crate::kstack::StackSums;
use crate::kstack::Symbolizer;
use crate::kstack::Weight;
use crate::ledger::Ledger;
use crate::ledger::Shown;
use crate::options::StackAt;
use crate::options::StacksOptions;
use crate::session::Session;
use crate::start::Care;
use crate::start::RESCAN;
use crate::start::Ready;
use crate::start::hooked;
use crate::start::ledger_of_trace;
use crate::start::refuse_unknown;
use crate::start::say;
use crate::start::symbolizer;
use crate::start::until;
use crate::view::books::books;
use crate::view::flame::svg;
use crate::view::json;
use crate::view::stacks::StacksView;
use crate::view::theme::Theme;

/// More than it takes to read the kernel's symbols, even on a slow machine.
const SYMBOLS_TAKE: Duration = Duration::from_secs(3);

fn until_told(
    begin: Instant,
    duration: Option<Duration>,
    stop: &Receiver<()>,
    session: &mut Session<'_>,
    care: &mut Care,
) -> Result<()> {
    loop {
        let elapsed = begin.elapsed();
        let rest = duration.map_or(RESCAN, |d| d.saturating_sub(elapsed));
        if rest.is_zero() {
            return Ok(());
        }
        match stop.recv_timeout(rest.min(RESCAN)) {
            Err(RecvTimeoutError::Timeout) => {}
            _ => return Ok(()),
        }
        if care.rescan(session)? {
            return Ok(());
        }
    }
}

/// Before anything is attached: a file that can't be written is no reason to have traced.
fn create(path: &Path) -> Result<File> {
    // what is in it stays until there is something better
    let file = File::options()
        .write(true)
        .create(true)
        .truncate(false)
        .open(path);
    file.map_err(|error| {
        Failure::error(
            Kind::Usage,
            format!(
                "{} can't be written ({error}): give --svg another file",
                path.display()
            ),
        )
    })
}

const fn weight(by: StacksByArg) -> Weight {
    match by {
        StacksByArg::Count => Weight::Count,
        StacksByArg::Latency => Weight::Latency,
    }
}

struct Seen {
    at: Hooked,
    rows: Vec<StackRow>,
    ledger: Ledger,
    took: Duration,
    /// Whether the session saw all of it.
    verdict: Result<()>,
}

/// Everything but the output.
fn trace(options: &StacksOptions) -> Result<Seen> {
    let ready = Ready::look(&options.probing)?;
    let wants = options.probing.trace.as_ref();
    let wants = wants.context("no stacks were asked for")?;
    let stack = wants.stack.context("no stacks were asked for")?;
    let at = hooked(stack);
    // The table of symbols takes its time. It is read while the programs already count, unless they
    // need one thing of it, or are to end before.
    let short = options.duration.is_some_and(|d| d < SYMBOLS_TAKE);
    let early = (short || stack == StackAt::Complete).then(symbolizer);
    let irq_entry = early.as_ref().and_then(Symbolizer::irq_entry);
    let until = until(options.duration.is_some());
    let mut slots = slots();
    let mut session = ready.attach(&mut slots, &options.probing, until, irq_entry)?;
    refuse_unknown(wants, &session)?;
    let mut care = Care::of(&session, ready.host);
    let begin = Instant::now();
    let mut symbolizer = early.unwrap_or_else(symbolizer);
    let ended = until_told(
        begin,
        options.duration,
        &ready.stop,
        &mut session,
        &mut care,
    );
    let took = begin.elapsed();
    care.last_look(&session)?;
    session.end()?;
    ended?;
    let sums: StackSums = session
        .stack_sums()?
        .into_iter()
        .map(|(frames, hist, unmeasured)| StackRow {
            stack: frames.map_or(Stack::NotObserved, |frames| {
                Stack::Taken(symbolizer.stack(&frames, at))
            }),
            hist,
            unmeasured,
        })
        .collect();
    let rows = sums.rows(weight(options.by));
    let shown = Shown {
        commands: rows.iter().map(StackRow::commands).sum(),
        ..Shown::default()
    };
    let ledger = ledger_of_trace(&session, &shown)?;
    Ok(Seen {
        at,
        rows,
        ledger,
        took,
        verdict: care.verdict(),
    })
}

/// Runs the command to its end.
///
/// # Errors
/// One sentence each, with the exit code of its kind; nothing stays attached.
pub fn run(options: &StacksOptions) -> Result<()> {
    let drawing = options.svg.as_deref().map(create).transpose()?;
    let Seen {
        at,
        rows,
        ledger,
        took,
        verdict,
    } = trace(options)?;
    let by = weight(options.by);
    if let Some(file) = drawing {
        if rows.is_empty() {
            say("no stack was seen: no flame graph is drawn");
        } else {
            let title = format!("NVMe commands, {:.1} s", took.as_secs_f64());
            file.set_len(0).context("failed to empty the file")?;
            svg(&rows, by, &title, &mut BufWriter::new(file)).context("failed to draw")?;
        }
    }
    let mut out = BufWriter::new(stdout().lock());
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
        let detail = options.probing.attaching.verbose > 0;
        // stdout is for the stacks; nobody may be listening here: that is no error
        let _ = books(
            &ledger,
            Theme { color: false },
            detail,
            &mut stderr().lock(),
        );
    }
    verdict
}
