// SPDX-License-Identifier: MIT OR Apache-2.0
//! A first pass over a recording, for the order of its submissions.

use crate::model::report::submissions::{Longest, Submissions, TaskKind};
use crate::settings::Settings;
use anyhow::Result;

use super::file::again;
use super::{Run, Seen, Step};

/// What puts the submissions of a run into the order of time. With two events per command, this needs
/// no first pass; `option` needs it otherwise. Each has the task that `task_kind` selects.
///
/// # Errors
/// If a recording cannot be read, or is a pipe; one sentence.
pub fn submissions_of(
    run: &Run<'_>,
    settings: &Settings,
    task_kind: TaskKind,
    option: &str,
) -> Result<Submissions> {
    let Some(reader) = run.file().filter(|reader| reader.info().pairs) else {
        return Ok(Submissions::of_events(task_kind));
    };
    let mut longest = Longest::new(task_kind);
    let mut first = again(reader, settings, option)?;
    let mut first = Run::of(&mut first);
    loop {
        match first.next()? {
            Step::Event(Seen { event, is_selected: true, names, .. }) => {
                let (_, set) = names.of_command(event.what.id());
                longest.add(event, set);
            }
            Step::Ended => return Ok(Submissions::of_pairs(longest)),
            _ => {}
        }
    }
}
