// SPDX-License-Identifier: MIT OR Apache-2.0
//! Copies recordings into a format of `export`; `join` draws its time line with it, too.

use std::io;
use std::time::Duration;

use anyhow::{Error, Result};

use crate::model::ledger::Ledger;
use crate::model::text::Text;
use crate::model::timeline::Span;
use crate::recording::Fact;
use crate::run::drive::{FileReader, Run, Step, first_pass};
use crate::settings::Settings;
use crate::view::export::perfetto::Begins;
use crate::view::export::{Entry, Sink};

/// What was exported.
#[derive(Default)]
pub struct Counts {
    /// Commands.
    pub commands: u64,
    /// Other events.
    pub events: u64,
    /// Events that the format has no place for.
    pub left_out: u64,
    /// Commands that the filters leave out.
    pub unselected: u64,
    /// Recordings with an exact ledger, of those that are read to the end.
    pub exact: u64,
    /// Recordings that are damaged or have no end.
    pub incomplete: u64,
}

/// The begins of commands, from a first pass over a recording.
///
/// # Errors
/// If it cannot be read; one sentence.
pub fn begins(settings: &Settings, file: &FileReader) -> Result<Begins> {
    let mut begins = Begins::default();
    first_pass(file, settings, "--format perfetto", |event, _| begins.add(event))?;
    Ok(begins)
}

/// Adds a recording. Returns its ledger, and an error if it is damaged or has no end; the events
/// before that are added.
///
/// # Errors
/// If the recording cannot be read, or the format not be written; one sentence.
pub fn add(
    (mut file, name): (FileReader, &Text),
    sink: &mut dyn Sink,
    counts: &mut Counts,
    failed: &dyn Fn(io::Error) -> Error,
) -> Result<(Option<Ledger>, Result<()>)> {
    sink.begin(name, file.info()).map_err(failed)?;
    let mut run = Run::of(&mut file);
    loop {
        let done = match run.next()? {
            Step::Event { event, is_selected: true, names, .. } => {
                let (disk, set, cgroups) = names.of_event(event);
                let taken = sink.event(&Entry { event, disk, set, cgroups });
                taken.map(|taken| match (taken, Span::of(event)) {
                    (false, _) => counts.left_out += 1,
                    (true, Some(_)) => counts.commands += 1,
                    (true, None) => counts.events += 1,
                })
            }
            Step::Fact(Fact::Stacks(all)) => {
                all.iter().try_for_each(|(id, frames)| sink.stack(*id, frames))
            }
            Step::Fact(Fact::Clock(offset)) => sink.clock(offset.wall_ns),
            Step::Ended => break,
            _ => Ok(()),
        };
        done.map_err(failed)?;
    }
    let (ledger, at, ended) = match run.end() {
        Ok(end) => (Some(end.ledger), end.took, Ok(())),
        Err(error) => (None, Duration::ZERO, Err(error)),
    };
    counts.unselected += file.unselected;
    sink.end(ledger.as_ref(), at).map_err(failed)?;
    Ok((ledger, ended.and(file.check_complete())))
}
