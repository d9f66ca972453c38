// SPDX-License-Identifier: MIT OR Apache-2.0
//! Options of `latency`, checked.

use std::ffi::OsString;
use std::path::PathBuf;

use anyhow::Error;
use anyhow::Result;
use nvme_deep::model::nvme_latency::LatBuckets;
use nvme_deep::session::settings::Also;
use nvme_deep::session::settings::Histograms;
use nvme_deep::session::settings::Mode;
use nvme_deep::session::settings::Settings;

use super::color;
use super::filter::refuse_for_recordings;
use super::schedule::Schedule;
use super::schedule::refuse_interval_among;
use super::stage_set;
use super::usage;
use crate::cli::latency::LatencyArgs;
use crate::cli::record::FromArgs;

/// Options of `latency`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LatencyOptions {
    /// Settings of the session.
    pub settings: Settings,
    /// When to report.
    pub schedule: Schedule,
    /// Show the histogram of each stage.
    pub hist: bool,
    /// JSON lines instead of text.
    pub json: bool,
    /// Colour the text.
    pub color: bool,
    /// Read these recordings instead of tracing; empty: trace.
    pub from: Vec<PathBuf>,
    /// The program to run while tracing, and its arguments; empty: none.
    pub exec: Vec<OsString>,
}

fn lat_buckets(min_us: Option<u64>, shift: Option<u32>) -> Result<Option<LatBuckets>> {
    if min_us.is_none() && shift.is_none() {
        return Ok(None);
    }
    let min_us = min_us.unwrap_or(20);
    let min_us = u32::try_from(min_us)
        .map_err(|_| usage(format!("--lat-min-us {min_us} is over an hour: give fewer")))?;
    let buckets = LatBuckets {
        min_us,
        shift: shift.unwrap_or(0),
    };
    buckets.validate().map_err(|why| usage(why.to_string()))?;
    Ok(Some(buckets))
}

impl TryFrom<LatencyArgs> for LatencyOptions {
    type Error = Error;

    fn try_from(args: LatencyArgs) -> Result<Self> {
        let LatencyArgs {
            stages,
            schedule,
            hist,
            filter,
            lat_min_us,
            lat_shift,
            split_size,
            json,
            commands,
            exec,
            from: FromArgs { from },
            attach,
        } = args;
        if commands && !from.is_empty() {
            return Err(usage(
                "--commands is not for recordings: `trace --json --pair --from` prints their commands",
            ));
        }
        refuse_interval_among(&from)?;
        if !from.is_empty() {
            refuse_for_recordings(&filter, &exec)?;
        }
        let color = color(attach.color, json);
        Ok(Self {
            settings: Settings {
                stage_set: stage_set(stages),
                filter: filter.try_into()?,
                mode: Mode::Histograms(Histograms {
                    lat: lat_buckets(lat_min_us, lat_shift)?,
                    split_size,
                    also: if commands {
                        Also::Commands
                    } else {
                        Also::Nothing
                    },
                }),
                attaching: attach.into(),
            },
            schedule: schedule.try_into()?,
            hist,
            json,
            color,
            exec: exec.program,
            from,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::args::Args;
    use crate::cli::args::Command;
    use crate::exit::kind_of;
    use clap::Parser;
    use nvme_deep::error::Kind;
    use std::collections::BTreeSet;

    fn options(words: &str) -> Result<LatencyOptions> {
        let words = ["nvme-deep", "latency"]
            .into_iter()
            .chain(words.split_whitespace());
        match Args::try_parse_from(words).unwrap().command {
            Command::Latency(args) => args.try_into(),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn filters_take_lists_and_names() {
        let o = options("--ctrl nvme1,0 --opcode read,io:0x01 --nsid 1,2 --qid 3").unwrap();
        let filter = o.settings.filter;
        assert_eq!(filter.ctrls, BTreeSet::from([0, 1]));
        assert_eq!(filter.opcodes.len(), 2);
        assert_eq!(filter.nsids, BTreeSet::from([1, 2]));
        assert_eq!(filter.qids, BTreeSet::from([3]));
    }

    #[test]
    fn the_latency_table_has_the_defaults_of_nvme_latency() {
        let lat = |words| options(words).unwrap().settings.lat();
        assert_eq!(lat(""), None);
        let one = lat("--lat-shift 2").unwrap();
        assert_eq!((one.min_us, one.shift), (20, 2));
        let one = lat("--lat-min-us 50").unwrap();
        assert_eq!((one.min_us, one.shift), (50, 0));
    }

    #[test]
    fn nonsense_is_refused_with_the_usage_code() {
        for words in [
            "--ctrl nvme0n1",
            "--ctrl nvme256",
            "--opcode raed",
            "1ms",
            "--lat-shift 60",
            "--no-admin --qid 0",
            "--nsid 1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17",
        ] {
            let error = options(words).unwrap_err();
            assert_eq!(kind_of(&error), Kind::Usage, "{words}: {error}");
        }
    }
}
