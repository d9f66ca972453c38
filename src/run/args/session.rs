// SPDX-License-Identifier: MIT OR Apache-2.0
//! Options of each command that traces the driver.

use std::ops::Deref;

use crate::model::filter::Filter;
use crate::model::stage::StageSet;
use crate::settings::{Mode, Settings, Who};
use anyhow::Result;

use super::attach::AttachArgs;
use super::filter::FilterArgs;
use crate::run::args::common::FromArgs;
use crate::run::exit::usage;

/// Filters, attaching and messages.
#[derive(Clone, Debug, clap::Args)]
pub struct SessionArgs {
    #[command(flatten)]
    pub filter: FilterArgs,

    #[command(flatten)]
    pub attach: AttachArgs,
}

impl SessionArgs {
    /// The settings of a session that measures this.
    pub(crate) fn settings(&self, mode: Mode, stage_set: StageSet) -> Result<Settings> {
        self.with(self.filter.filter()?, mode, stage_set)
    }

    /// The same; if recordings are read, with a filter for these.
    pub(crate) fn settings_of(
        &self,
        from: &FromArgs,
        mode: Mode,
        stage_set: StageSet,
    ) -> Result<Settings> {
        if from.is_empty() {
            return self.settings(mode, stage_set);
        }
        self.with(self.filter.for_recordings()?, mode, stage_set)
    }

    fn with(&self, filter: Filter, mode: Mode, stage_set: StageSet) -> Result<Settings> {
        let settings = Settings { stage_set, filter, mode, attaching: self.attach.attaching() };
        if stage_set == StageSet::Full && settings.who() != Who::Nobody {
            return Err(usage(
                "cgroups of commands and submitters are not observed with --stages=full: use \
                 --stages=fine",
            ));
        }
        Ok(settings)
    }

    /// Whether to print details.
    pub const fn is_verbose(&self) -> bool {
        self.attach.verbose > 0
    }
}

/// The options of a command that has a session.
pub trait SessionOptions: Sized {
    /// The settings of the session.
    ///
    /// # Errors
    /// If options exclude each other, or ask for what this machine does not have; one sentence.
    fn settings(&self) -> Result<Settings>;

    /// The options with their settings.
    ///
    /// # Errors
    /// Those of the settings.
    fn checked(self) -> Result<Checked<Self>> {
        let settings = self.settings()?;
        Ok(Checked { settings, options: self })
    }
}

/// The options of a command, and the settings of the session that they ask for.
#[derive(Clone, Debug)]
pub struct Checked<O> {
    /// Settings of the session.
    pub settings: Settings,
    options: O,
}

impl<O> Deref for Checked<O> {
    type Target = O;

    fn deref(&self) -> &O {
        &self.options
    }
}
