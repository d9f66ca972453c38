// SPDX-License-Identifier: MIT OR Apache-2.0
//! Options of `pattern`, checked.

use std::path::PathBuf;

use anyhow::Error;
use anyhow::Result;
use nvme_deep::model::stage::StageSet;
use nvme_deep::render::picture::Scheme;
use nvme_deep::session::settings::Events;
use nvme_deep::session::settings::Mode;
use nvme_deep::session::settings::Settings;

use super::color;
use super::filter::refuse_for_recordings;
use super::heatmap::PictureFile;
use super::heatmap::PictureFormat;
use super::schedule::Schedule;
use super::schedule::refuse_interval_among;
use super::trace::refuse_two_on_stdout;
use super::usage;
use crate::cli::args::ExecArgs;
use crate::cli::pattern::PatternArgs;
use crate::cli::record::FromArgs;

/// Options of `pattern`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PatternOptions {
    /// Settings of the session.
    pub settings: Settings,
    /// When to report.
    pub schedule: Schedule,
    /// Write all buckets.
    pub hist: bool,
    /// File of the picture.
    pub picture: Option<PictureFile>,
    /// JSON lines instead of text.
    pub json: bool,
    /// Colour the text.
    pub color: bool,
    /// Read these recordings instead of tracing; empty: trace.
    pub from: Vec<PathBuf>,
}

impl TryFrom<PatternArgs> for PatternOptions {
    type Error = Error;

    fn try_from(args: PatternArgs) -> Result<Self> {
        let PatternArgs {
            schedule,
            hist,
            svg,
            force,
            json,
            filter,
            buffer,
            from: FromArgs { from },
            attach,
        } = args;
        if !from.is_empty() {
            refuse_for_recordings(&filter, &ExecArgs::default())?;
        }
        refuse_interval_among(&from)?;
        refuse_two_on_stdout(svg.as_deref(), json || hist || schedule.interval.is_some())?;
        if from.len() > 1 && svg.is_some() {
            return Err(usage(
                "--svg shows one recording: give one file to --from, and run it again for each",
            ));
        }
        let color = color(attach.color, json);
        // submissions come in the order of time; a recording may have one event per command
        let pairs = !from.is_empty();
        let picture = |path| PictureFile {
            path,
            format: PictureFormat::Svg,
            force,
            scheme: Scheme::Auto,
        };
        Ok(Self {
            settings: Settings {
                filter: filter.try_into()?,
                mode: Mode::Events(Events {
                    pairs,
                    ring_bytes: buffer.bytes()?,
                    ..Events::default()
                }),
                attaching: attach.into(),
                ..Settings::of(StageSet::Total)
            },
            schedule: schedule.try_into()?,
            hist,
            picture: svg.map(picture),
            json,
            color,
            from,
        })
    }
}
