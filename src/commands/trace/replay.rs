// SPDX-License-Identifier: MIT OR Apache-2.0
//! `trace --from`: the events of a recording.

use std::fs::File;
use std::io::stdout;
use std::os::fd::AsFd;
use std::path::Path;

use anyhow::Result;
use nvme_deep::model::event::StackId;
use nvme_deep::recording::Item;
use nvme_deep::report::ledger::EventClass;
use nvme_deep::session::settings::TraceKind;

use super::finish;
use super::output_verdict;
use super::tracing;
use super::writer::TraceWriter;
use crate::cli::options::TraceOptions;
use crate::commands::names::Names;
use crate::commands::replay::Replay;

/// Prints a recording.
///
/// # Errors
/// One sentence each, with the exit code of its kind.
pub fn run(options: &TraceOptions, path: &Path) -> Result<()> {
    let settings = &options.settings;
    let mut replay = Replay::open(path, settings)?;
    let wants = tracing(settings)?;
    let filter = &settings.filter;
    let by_task = !filter.pids.is_empty() || filter.comm.is_some() || filter.lba.is_some();
    if wants.kind == TraceKind::Pairs || by_task {
        replay.require_pairs()?;
    }
    let out = File::from(stdout().as_fd().try_clone_to_owned()?);
    let begin_ns = replay.info().begin_ns;
    let mut writer = TraceWriter::new(options, out, Names::recorded(), (begin_ns, 0));
    let mut unselected = 0;
    while !writer.out.has_failed()
        && replay.next(&mut |item| match item {
            Item::Event(event) if settings.selects(event) => writer.event(event),
            Item::Event(event) => {
                unselected += u64::from(EventClass::of(&event.what) == EventClass::Command);
            }
            Item::Stacks(stacks) if wants.stack.is_some() => {
                for stack in stacks {
                    writer.stack(StackId(stack.id), &mut stack.frames());
                }
            }
            Item::Clock(offset) => writer.set_clock(offset.wall_ns),
            Item::Controllers(controllers) => writer.names.set(controllers),
            _ => {}
        })?
    {
        writer.flush();
    }
    writer.flush();
    if writer.out.has_failed() {
        // the rest of the file, and the ledger of the whole run, have not been read
        return output_verdict(writer.out, "the remaining events");
    }
    let (mut ledger, at) = replay.end()?;
    if let Some(trace) = &mut ledger.trace {
        // what this command shows, not what was recorded
        trace.submits_shown = writer.shown.submits;
        trace.commands_shown = writer.shown.commands;
        trace.events_shown = writer.shown.events;
        trace.past_count += writer.shown.past_count;
        trace.not_shown += unselected;
        trace.not_written = writer.shown.not_written;
    }
    finish(writer, &ledger, at)?;
    replay.verdict()
}
