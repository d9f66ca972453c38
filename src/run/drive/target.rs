// SPDX-License-Identifier: MIT OR Apache-2.0
//! A run of a target: of this machine, or what was recorded of one.

use std::collections::VecDeque;
use std::mem::take;
use std::path::Path;
use std::sync::mpsc::Receiver;
use std::time::Duration;

use crate::model::host::HostEvent;
use crate::model::ledger::HostLedger;
use crate::model::target::{HostController, TargetInfo};
use crate::recording::HostRecording;
use crate::source::HostSource;
use anyhow::Result;

use super::turns::{Turns, Wake, stop_receiver};
use crate::run::input::check_target_end;

/// Where the events of a target come from.
pub enum TargetInput<'i> {
    /// This machine, until a signal, the end of the target, or for this time.
    Live(Box<dyn HostSource>, Option<Duration>),
    /// What was recorded, with its file, or imported.
    Recorded(Box<HostRecording>, Option<&'i Path>),
}

/// What comes next in a run of a target.
pub enum TargetStep {
    /// An event.
    Event(HostEvent),
    /// There is nothing more at the moment.
    Tick,
    /// The run is over.
    Ended,
}

enum Source<'r> {
    Live { source: Box<dyn HostSource>, turns: Turns<'r>, more: bool, alive: Option<Result<()>> },
    Recorded(Box<HostRecording>),
}

/// A run of a target.
pub struct TargetRun<'r> {
    source: Source<'r>,
    /// Events that have come.
    coming: VecDeque<HostEvent>,
    ticked: bool,
    /// Length of the run.
    pub took: Duration,
    /// `None`: a recording without an end.
    pub ledger: Option<HostLedger>,
}

impl TargetInput<'_> {
    /// Calls `read` for the run, which reads it to its end and writes the result.
    ///
    /// # Errors
    /// Those of `read`; a target that has ended, or a recording without an end; one sentence each.
    pub fn read(self, read: &mut dyn FnMut(&mut TargetRun<'_>) -> Result<()>) -> Result<()> {
        match self {
            Self::Live(source, duration) => {
                let stop: Receiver<Wake> = stop_receiver()?;
                let turns = Turns::begin(&stop, duration);
                let source = Source::Live { source, turns, more: true, alive: None };
                let mut run = TargetRun::new(source);
                read(&mut run)?;
                match run.source {
                    Source::Live { alive, .. } => alive.unwrap_or(Ok(())),
                    Source::Recorded(_) => Ok(()),
                }
            }
            Self::Recorded(mut recording, path) => {
                // before its events are taken, which it counts
                let whole = path.map_or(Ok(()), |path| check_target_end(&recording, path));
                let (events, ledger) = (take(&mut recording.events), recording.ledger.clone());
                let mut run = TargetRun::new(Source::Recorded(recording));
                (run.coming, run.ledger) = (events.into(), ledger);
                read(&mut run)?;
                whole
            }
        }
    }
}

impl<'r> TargetRun<'r> {
    fn new(source: Source<'r>) -> Self {
        let coming = VecDeque::new();
        Self { source, coming, ticked: false, took: Duration::ZERO, ledger: None }
    }

    /// The target.
    pub fn target(&self) -> &TargetInfo {
        match &self.source {
            Source::Live { source, .. } => source.target(),
            Source::Recorded(recording) => &recording.target,
        }
    }

    /// The controllers that are known so far: all of a recording.
    pub fn controllers(&self) -> &[HostController] {
        match &self.source {
            Source::Live { source, .. } => source.controllers(),
            Source::Recorded(recording) => &recording.controllers,
        }
    }

    /// The next step.
    ///
    /// # Errors
    /// If the kernel cannot be read.
    #[allow(clippy::should_implement_trait, reason = "it can fail")]
    pub fn next(&mut self) -> Result<TargetStep> {
        if let Some(event) = self.coming.pop_front() {
            return Ok(TargetStep::Event(event));
        }
        let Source::Live { source, turns, more, alive: None } = &mut self.source else {
            return Ok(TargetStep::Ended);
        };
        if !self.ticked {
            self.ticked = true;
            return Ok(TargetStep::Tick);
        }
        self.ticked = false;
        if source.alive().is_err() || !turns.pause(*more) {
            self.stop()?;
        } else {
            let coming = &mut self.coming;
            *more = source.take(false, &mut |event, _| coming.push_back(*event))?;
        }
        self.next()
    }

    /// Ends the run. What has happened until now still comes.
    ///
    /// # Errors
    /// If the kernel cannot be read.
    pub fn stop(&mut self) -> Result<()> {
        if let Source::Live { source, turns, alive, .. } = &mut self.source
            && alive.is_none()
        {
            let coming = &mut self.coming;
            self.took = turns.elapsed();
            *alive = Some(source.alive().map_err(Into::into));
            self.ledger = Some(source.end(&mut |event, _| coming.push_back(*event))?);
        }
        Ok(())
    }
}
