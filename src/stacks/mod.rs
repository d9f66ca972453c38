// SPDX-License-Identifier: MIT OR Apache-2.0
//! The `stacks` command: commands and their latency by kernel stack.

pub(crate) mod args;

use std::fs::File;
use std::io::{BufWriter, Write};
use std::time::Duration;

use crate::error::{Failure, Kind};
use crate::model::machine::StackSum;
use crate::model::report::stacks::{MOST_STACKS, RecordedStacks, StackRow, StackSums};
use crate::model::stack::{Stack, StackAt};
use crate::recording::Fact;
use crate::symbols::Symbolizer;
use crate::view::header::Header;
use crate::view::json;
use crate::view::stacks::{StacksView, svg, title};
use crate::view::theme::Theme;
use anyhow::Result;

use crate::run::drive::{End, FileReader, Live, Run, Step, each, open_all};
use crate::run::outfile::{OutFile, Rules};
use crate::run::start::{Preflight, Session, symbolizer};
use crate::run::stdout::{output_width, stdout};
use crate::run::{eprint_note, say_ledger};
use crate::stacks::args::StacksOptions;

/// Upper bound of the time to read the kernel's symbols on a slow machine.
const SYMBOLS_TAKE: Duration = Duration::from_secs(3);

/// What a live run with --slow ends with.
const WAITS_UNMEASURED: &str = "waits before the request (cgroup limits, wbt, tags) were not measured: use \
                                `record --kstack` and `stacks --from`";

/// The file of the flame graph.
type Drawing = (OutFile, File);

/// Creates the file of the flame graph before anything is attached: the run must not fail at its end
/// because the file can't be written.
fn create(options: &StacksOptions) -> Result<Option<Drawing>> {
    let rules = Rules { force: options.force, inputs: &options.from.files, ..Rules::default() };
    let path = options.output.as_deref();
    path.map(|path| OutFile::create(path, &rules)).transpose()
}

fn too_many() -> anyhow::Error {
    let text = format!(
        "the recording has more than {MOST_STACKS} stacks (each counts once per process): choose some \
         commands by --ctrl or --opcode"
    );
    Failure::error(Kind::Usage, text)
}

/// Sums the commands by stack.
struct ByStack<'o> {
    options: &'o StacksOptions,
    at: StackAt,
    drawing: Option<Drawing>,
    /// Of a session. Reading the symbol table takes seconds. The programs already count during that
    /// time, unless they need an address from the table, or the run is short.
    symbolizer: Option<Symbolizer>,
    /// Of a recording.
    recorded: RecordedStacks,
}

impl ByStack<'_> {
    /// The symbolized sums of a session.
    fn counted(&mut self, session: &Session) -> Result<StackSums> {
        let (at, symbolizer) = (self.at, self.symbolizer.get_or_insert_with(symbolizer));
        let row = |sum: StackSum| StackRow {
            process: None,
            stack: sum.addresses.map_or(Stack::NotObserved, |addresses| {
                Stack::Taken(symbolizer.stack(&addresses, at))
            }),
            hist: sum.hist,
            unmeasured: sum.unmeasured,
        };
        Ok(session.stack_sums()?.into_iter().map(row).collect())
    }
}

impl ByStack<'_> {
    fn read(mut self, run: &mut Run<'_>) -> Result<()> {
        let is_live = run.session().is_some();
        loop {
            match run.next()? {
                Step::Event { event, is_selected: true, .. } if !self.recorded.add(&event.what) => {
                    return Err(too_many());
                }
                Step::Fact(Fact::Stacks(all)) => {
                    all.iter().for_each(|(id, frames)| self.recorded.stack(*id, frames));
                }
                Step::Tick { .. } if is_live => {
                    self.symbolizer.get_or_insert_with(symbolizer);
                }
                Step::Ended => break,
                _ => {}
            }
        }
        let mut end = run.end()?;
        let sums = match run.session() {
            Some(session) => self.counted(session)?,
            None => self.recorded.sums(),
        };
        if let Some(trace) = &mut end.ledger.trace {
            trace.commands_shown = sums.commands();
        }
        let is_live_by_time = is_live && self.options.outcome.slow.is_some();
        self.write(sums, &run.header, &end)?;
        if is_live_by_time {
            eprint_note(WAITS_UNMEASURED);
        }
        Ok(())
    }
}

impl ByStack<'_> {
    /// Writes the flame graph, or what flame graph tools read.
    fn draw(&self, (out, file): Drawing, sums: StackSums, header: &Header) -> Result<()> {
        let rows = sums.rows(self.options.weight);
        if rows.is_empty() {
            eprint_note("no stack was seen: no flame graph is drawn");
            return Ok(());
        }
        let mut file = BufWriter::new(file);
        let drawn = match self.options.draws() {
            true => {
                let title = title(&rows, self.options.weight, self.at, header.file.as_ref());
                svg(&rows, self.options.weight, &title, &mut file)
            }
            false => self.view().folded(&rows, &mut file),
        };
        drawn.and_then(|()| file.flush()).map_err(|error| out.failed(error))?;
        out.keep()?;
        Ok(())
    }

    fn view(&self) -> StacksView {
        let options = self.options;
        StacksView {
            theme: Theme { color: options.session.color.on_stdout(options.has_lines()) },
            width: output_width(),
            detail: options.session.is_verbose(),
            full: options.full,
            at: self.at,
            by: options.weight,
            top: options.top.map(|top| usize::try_from(top).unwrap_or(usize::MAX)),
        }
    }

    /// Writes the output.
    fn write(mut self, mut sums: StackSums, header: &Header, end: &End) -> Result<()> {
        let (options, detail) = (self.options, self.options.session.is_verbose());
        if let Some(drawing) = self.drawing.take() {
            let has_stdout = drawing.0.is_stdout();
            self.draw(drawing, sums.clone(), header)?;
            if has_stdout {
                say_ledger(&end.ledger, detail);
                return Ok(());
            }
        }
        if options.by.is_none() {
            sums = sums.of_all_processes();
        }
        let mut out = BufWriter::new(stdout());
        let view = self.view();
        if options.json {
            view.json(&sums.rows(options.weight), &mut out)?;
            json::end(&end.ledger, end.took, &mut out)?;
        } else if options.folded {
            view.folded(&sums.rows(options.weight), &mut out)?;
        } else {
            if !options.full && !detail {
                sums = sums.by_function();
            }
            write!(out, "{}", header.text(view.theme, view.width))?;
            view.text(&sums.rows(options.weight), &mut out)?;
        }
        out.flush()?;
        if !options.json {
            // stdout is for the stacks
            say_ledger(&end.ledger, detail);
        }
        Ok(())
    }
}

/// Runs the command to its end.
///
/// # Errors
/// One sentence each, with the exit code of its kind. Nothing stays attached.
pub fn run(options: &StacksOptions) -> Result<()> {
    let settings = &options.settings;
    let at = options.stack.at;
    let files = open_all(&options.from.files, settings, &FileReader::require_pairs)?;
    let mut drawing = create(options)?;
    let mut by_stack = |symbolizer| ByStack {
        options,
        at,
        drawing: drawing.take(),
        symbolizer,
        recorded: RecordedStacks::new(at, options.by.is_some() || options.draws()),
    };
    if options.from.is_empty() {
        let ready = Preflight::check(settings)?;
        let short = options.run.duration.is_some_and(|d| d < SYMBOLS_TAKE);
        let early = (short || at == StackAt::Complete).then(symbolizer);
        let live = Live {
            exec: &options.exec.program,
            irq_entry: early.as_ref().and_then(Symbolizer::irq_entry),
            ..Live::new(ready, settings, options.run.duration)
        };
        return live.run(|run| by_stack(early).read(run));
    }
    each(files, options.json, false, &mut |run| {
        run.file().into_iter().for_each(FileReader::warn_partial);
        by_stack(None).read(run)
    })
}
