// SPDX-License-Identifier: MIT OR Apache-2.0
//! Options of `record`, checked.

use std::ffi::OsString;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use anyhow::Error;
use anyhow::Result;
use nvme_deep::model::stage::StageSet;
use nvme_deep::recording::Keep;
use nvme_deep::session::settings::Events;
use nvme_deep::session::settings::Mode;
use nvme_deep::session::settings::Settings;
use nvme_deep::units::parse_duration;

use super::trace::ring_bytes;
use super::trace::size;
use super::trace::stack_sample;
use super::usage;
use crate::cli::record::RecordArgs;
use crate::cli::record::RecordStagesArg;

/// Smallest useful file.
const MIN_SIZE: u64 = 1 << 20;

/// Default size of a ring in memory.
const RING_BYTES: u64 = 64 << 20;

/// What makes a ring be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trigger {
    /// A command that took at least this long.
    Slow(Duration),
    /// A timeout of the block layer.
    Timeout,
    /// A reset of a controller.
    Reset,
    /// A command with a status other than success.
    Error,
}

impl FromStr for Trigger {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        Ok(match text.split_once('=') {
            Some(("slow", time)) => Self::Slow(
                parse_duration(time).map_err(|e| usage(format!("`--trigger {text}`: {e}")))?,
            ),
            None if text == "timeout" => Self::Timeout,
            None if text == "reset" => Self::Reset,
            None if text == "error" => Self::Error,
            _ => {
                return Err(usage(format!(
                    "`{text}` is not a trigger: give slow=TIME, timeout, reset or error"
                )));
            }
        })
    }
}

/// Options of `record`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordOptions {
    /// Settings of the session.
    pub settings: Settings,
    /// The file to write.
    pub output: PathBuf,
    /// Replace it if it exists.
    pub force: bool,
    /// Length of the run.
    pub duration: Option<Duration>,
    /// Stop when the file has this size in bytes.
    pub max_size: Option<u64>,
    /// Keep the last part of the run in memory.
    pub keep: Option<Keep>,
    /// What makes it be written.
    pub triggers: Vec<Trigger>,
    /// How long to record after that.
    pub after: Duration,
    /// Compress the blocks.
    pub compress: bool,
    /// Leave out names.
    pub redact: bool,
    /// The program to run while tracing, and its arguments; empty: none.
    pub exec: Vec<OsString>,
}

fn max_size(text: &str) -> Result<u64> {
    let bytes = size(text, "--max-size")?;
    if bytes < MIN_SIZE {
        return Err(usage(format!(
            "--max-size {text} is too small for a recording: give at least 1M"
        )));
    }
    Ok(bytes)
}

impl TryFrom<RecordArgs> for RecordOptions {
    type Error = Error;

    fn try_from(args: RecordArgs) -> Result<Self> {
        let RecordArgs {
            output,
            force,
            stages,
            kstack,
            sample,
            context,
            duration,
            max_size: size,
            ring: time,
            trigger,
            after,
            no_compress,
            redact,
            buffer,
            exec,
            filter,
            attach,
        } = args;
        let limit = size.as_deref().map(max_size).transpose()?;
        Ok(Self {
            settings: Settings {
                stage_set: match stages {
                    RecordStagesArg::None => StageSet::Total,
                    RecordStagesArg::Basic => StageSet::Basic,
                    RecordStagesArg::Fine => StageSet::Fine,
                },
                filter: filter.try_into()?,
                mode: Mode::Events(Events {
                    stack: stack_sample(kstack, sample.as_deref())?,
                    context,
                    ring_bytes: buffer.as_deref().map(ring_bytes).transpose()?,
                    ..Events::pairs()
                }),
                attaching: attach.into(),
            },
            output,
            force,
            duration,
            max_size: limit.filter(|_| time.is_none()),
            keep: time.map(|time| Keep {
                time,
                bytes: limit.unwrap_or(RING_BYTES),
            }),
            triggers: trigger.iter().map(|t| t.parse()).collect::<Result<_>>()?,
            after,
            compress: !no_compress,
            redact,
            exec: exec.program,
        })
    }
}
