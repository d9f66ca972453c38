// SPDX-License-Identifier: MIT OR Apache-2.0
//! Options of `diagnose`, checked.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::Error;
use anyhow::Result;
use nvme_deep::model::stage::StageSet;
use nvme_deep::session::settings::Events;
use nvme_deep::session::settings::Mode;
use nvme_deep::session::settings::Settings;

use super::color;
use super::filter::refuse_for_recordings;
use crate::cli::args::ExecArgs;
use crate::cli::diagnose::DiagnoseArgs;

/// How long to observe without `--duration`.
const DURATION: Duration = Duration::from_secs(10);

/// Options of `diagnose`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DiagnoseOptions {
    /// Settings of the session.
    pub settings: Settings,
    /// Length of the run.
    pub duration: Duration,
    /// Medians above this are slow.
    pub expect: Option<Duration>,
    /// A recording whose medians are expected.
    pub baseline: Option<PathBuf>,
    /// Read the log pages of the controllers.
    pub log: bool,
    /// Fail if there is a cause.
    pub check: bool,
    /// Recordings to read instead of tracing; empty: trace.
    pub from: Vec<PathBuf>,
    /// JSON instead of text.
    pub json: bool,
    /// Show all kinds of commands.
    pub verbose: bool,
    /// Colour the text.
    pub color: bool,
}

impl TryFrom<DiagnoseArgs> for DiagnoseOptions {
    type Error = Error;

    fn try_from(args: DiagnoseArgs) -> Result<Self> {
        let DiagnoseArgs {
            duration,
            expect,
            baseline,
            log,
            check,
            from,
            buffer,
            json,
            filter,
            attach,
        } = args;
        if !from.is_empty() {
            refuse_for_recordings(&filter, &ExecArgs::default())?;
        }
        let verbose = attach.verbose > 0;
        let color = color(attach.color, json);
        Ok(Self {
            settings: Settings {
                stage_set: StageSet::Fine,
                filter: filter.try_into()?,
                mode: Mode::Events(Events {
                    context: true,
                    ring_bytes: buffer.bytes()?,
                    ..Events::pairs()
                }),
                attaching: attach.into(),
            },
            duration: duration.unwrap_or(DURATION),
            expect,
            baseline,
            log,
            check,
            from,
            json,
            verbose,
            color,
        })
    }
}
