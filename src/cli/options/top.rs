// SPDX-License-Identifier: MIT OR Apache-2.0
//! Options of `top`, checked.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::Error;
use anyhow::Result;
use nvme_deep::model::stage::StageSet;
use nvme_deep::session::settings::Also;
use nvme_deep::session::settings::Histograms;
use nvme_deep::session::settings::Mode;
use nvme_deep::session::settings::Settings;

use super::color;
use super::filter::refuse_for_recordings;
use super::schedule::check_interval;
use super::stage_set;
use super::usage;
use crate::cli::args::ColorArg;
use crate::cli::args::ExecArgs;
use crate::cli::args::StagesArg;
use crate::cli::record::FromArgs;
use crate::cli::top::TopArgs;

/// Shortest interval: a screen cannot be read faster.
const MIN_INTERVAL: Duration = Duration::from_millis(100);

/// Options of `top`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TopOptions {
    /// Settings of the session.
    pub settings: Settings,
    /// Length of an interval.
    pub interval: Duration,
    /// The stage set was asked for: a recording must have it.
    pub needs_stages: bool,
    /// Length of the run.
    pub duration: Option<Duration>,
    /// Tests only: panic when the first interval is on the screen.
    pub test_panic: bool,
    /// Use colour.
    pub color: bool,
    /// Use colour for pages: only if it was asked for, because a dumb terminal has none.
    pub color_pages: bool,
    /// Show these recordings instead of tracing; empty: trace.
    pub from: Vec<PathBuf>,
}

impl TryFrom<TopArgs> for TopOptions {
    type Error = Error;

    fn try_from(args: TopArgs) -> Result<Self> {
        let TopArgs {
            interval,
            stages,
            duration,
            test_panic,
            filter,
            from: FromArgs { from },
            attach,
        } = args;
        check_interval(Some(interval))?;
        if interval < MIN_INTERVAL {
            return Err(usage(format!(
                "an interval of {interval:?} is too short for a screen: give at least 100ms"
            )));
        }
        if !from.is_empty() {
            refuse_for_recordings(&filter, &ExecArgs::default())?;
        }
        let color_pages = matches!(attach.color, ColorArg::Always);
        let color = color(attach.color, false);
        Ok(Self {
            settings: Settings {
                filter: filter.try_into()?,
                attaching: attach.into(),
                ..Mode::Histograms(Histograms {
                    also: Also::TopCounters,
                    ..Histograms::default()
                })
                .with(match stages {
                    None => StageSet::Basic,
                    Some(StagesArg::Basic | StagesArg::Fine) => stage_set(stages),
                })
            },
            interval,
            needs_stages: stages.is_some(),
            duration,
            test_panic,
            color,
            color_pages,
            from,
        })
    }
}
