// SPDX-License-Identifier: MIT OR Apache-2.0
//! A first pass over a recording, for the order of its submissions.

use crate::model::report::submissions::{Longest, Submissions, TaskKind};
use crate::settings::Settings;
use anyhow::Result;

use super::recorded::{again, scan};
use super::{Consumer, Feed, Item, Start};

/// Looks for the longest commands.
struct Looking(Longest);

impl Consumer for Looking {
    const SHOWS: bool = false;

    fn item(&mut self, item: &Item<'_>, feed: &mut Feed<'_>) -> Result<()> {
        if let Item::Event(event) = item {
            let (_, set) = feed.names.of_command(event.what.id());
            self.0.add(event, set);
        }
        Ok(())
    }
}

/// What puts the submissions of a run into the order of time. With two events per command, this needs
/// no first pass; `option` needs it otherwise. Each has the task that `task_kind` selects.
///
/// # Errors
/// If a recording cannot be read, or is a pipe; one sentence.
pub fn submissions_of(
    start: &Start<'_>,
    settings: &Settings,
    task_kind: TaskKind,
    option: &str,
) -> Result<Submissions> {
    let Some(replay) = start.recording.filter(|replay| replay.info().pairs) else {
        return Ok(Submissions::of_events(task_kind));
    };
    let mut first = again(replay, settings, option)?;
    let mut looking = Looking(Longest::new(task_kind));
    scan(&mut first, &mut looking)?;
    Ok(Submissions::of_pairs(looking.0))
}
