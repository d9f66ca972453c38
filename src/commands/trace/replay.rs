// SPDX-License-Identifier: MIT OR Apache-2.0
//! `trace --from`: the events of a recording.

use std::fs::File;
use std::io::stdout;
use std::os::fd::AsFd;

use anyhow::Result;
use nvme_deep::model::event::StackId;
use nvme_deep::model::ledger::EventClass;
use nvme_deep::recording::Item;
use nvme_deep::session::settings::TraceKind;

use super::finish;
use super::output_verdict;
use super::tracing;
use super::writer::TraceWriter;
use crate::cli::options::TraceOptions;
use crate::commands::names::Names;
use crate::commands::replay::Replay;
use crate::commands::several::Ended;
use crate::commands::several::Form;
use crate::commands::several::open_all;
use crate::commands::several::show_each;

/// Prints the recordings of `--from`.
///
/// # Errors
/// One sentence each, with the exit code of its kind.
pub fn run(options: &TraceOptions) -> Result<()> {
    let settings = &options.settings;
    let wants = tracing(settings)?;
    let pairs = wants.kind == TraceKind::Pairs || settings.filter.needs_submission();
    let replays = open_all(&options.from, settings, &|replay| match pairs {
        true => replay.require_pairs(),
        false => Ok(()),
    })?;
    let form = Form {
        json: options.json,
        color: options.color,
        ledger_apart: true,
    };
    show_each(replays, &form, &mut |replay| {
        show(options, wants.stack.is_some(), replay)
    })
}

/// Prints a recording.
fn show(options: &TraceOptions, stacks: bool, mut replay: Replay) -> Result<Ended> {
    let settings = &options.settings;
    let out = File::from(stdout().as_fd().try_clone_to_owned()?);
    let begin_ns = replay.info().begin_ns;
    let mut writer = TraceWriter::new(options, out, Names::recorded(), (begin_ns, 0));
    let mut unselected = 0;
    let all = replay.selects_all();
    while !writer.out.has_failed() {
        let read = replay.next(&mut |item| match item {
            Item::Event(event) if all && event.what.is_finished() || settings.selects(event) => {
                writer.event(event);
            }
            Item::Event(event) => {
                unselected += u64::from(EventClass::of(&event.what) == EventClass::Command);
            }
            Item::Stacks(all) if stacks => {
                for stack in all {
                    writer.stack(StackId(stack.id), &mut stack.frames());
                }
            }
            Item::Clock(offset) => writer.set_clock(offset.wall_ns),
            Item::Controllers(controllers) => writer.names.set(controllers),
            _ => {}
        });
        writer.flush();
        match read {
            Ok(true) => {}
            Ok(false) => break,
            Err(error) => return Ok(error.into()),
        }
    }
    if writer.out.has_failed() {
        // the rest of the file, and the ledger of the whole run, have not been read
        output_verdict(writer.out, "the output is incomplete")?;
        return Ok(Ended::NoReader);
    }
    let (mut ledger, at) = match replay.end() {
        Ok(end) => end,
        Err(error) => return Ok(error.into()),
    };
    if let Some(trace) = &mut ledger.trace {
        trace.show(&writer.shown, unselected);
    }
    finish(writer, &ledger, at)?;
    Ok(Ended::File(replay.verdict()))
}
