// SPDX-License-Identifier: MIT OR Apache-2.0
//! Options of `export`, checked.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::Error;
use anyhow::Result;
use nvme_deep::model::stage::StageSet;
use nvme_deep::session::settings::Events;
use nvme_deep::session::settings::Mode;
use nvme_deep::session::settings::Outcome;
use nvme_deep::session::settings::Settings;

use super::filter::refuse_for_recordings;
use super::usage;
use crate::cli::args::ExecArgs;
use crate::cli::args::OutcomeArgs;
use crate::cli::export::ExportArgs;
use crate::cli::export::FormatArg;

/// Shortest interval.
const MIN_INTERVAL: Duration = Duration::from_millis(1);

/// Options of `export`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExportOptions {
    /// The recordings.
    pub files: Vec<PathBuf>,
    /// What to write.
    pub format: FormatArg,
    /// The file to write; `-`: stdout.
    pub output: PathBuf,
    /// Replace it if it exists.
    pub force: bool,
    /// Leave out names.
    pub redact: bool,
    /// Length of intervals.
    pub interval: Duration,
    /// Which commands.
    pub settings: Settings,
}

/// The length of intervals, for the formats that have some.
fn interval(format: FormatArg, given: Option<Duration>) -> Result<Duration> {
    let default = match format {
        FormatArg::Hlog => Duration::from_secs(1),
        FormatArg::Perfetto => Duration::from_millis(100),
        FormatArg::Csv | FormatArg::Ndjson | FormatArg::Parquet if given.is_some() => {
            return Err(usage(
                "--interval is for the formats hlog and perfetto: leave it out",
            ));
        }
        _ => Duration::from_secs(1),
    };
    let interval = given.unwrap_or(default);
    if interval < MIN_INTERVAL {
        return Err(usage(format!(
            "an interval of {interval:?} is too short: give at least 1ms"
        )));
    }
    Ok(interval)
}

impl TryFrom<ExportArgs> for ExportOptions {
    type Error = Error;

    fn try_from(args: ExportArgs) -> Result<Self> {
        let ExportArgs {
            files,
            format,
            output,
            force,
            redact,
            interval: given,
            outcome: OutcomeArgs { slow, errors },
            filter,
        } = args;
        if cfg!(not(feature = "parquet")) && format == FormatArg::Parquet {
            return Err(usage(
                "this nvme-deep was built without Parquet: give another format, or build with the \
                 feature `parquet`",
            ));
        }
        if matches!(format, FormatArg::Perfetto | FormatArg::Hlog) && files.len() > 1 {
            return Err(usage(
                "the formats perfetto and hlog take one recording, because the clocks of several \
                 differ: export them one by one",
            ));
        }
        refuse_for_recordings(&filter, &ExecArgs::default())?;
        Ok(Self {
            files,
            format,
            output,
            force,
            redact,
            interval: interval(format, given)?,
            settings: Settings {
                filter: filter.try_into()?,
                mode: Mode::Events(Events {
                    outcome: Outcome { slow, errors },
                    ..Events::pairs()
                }),
                ..Settings::of(StageSet::Total)
            },
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

    fn options(words: &str) -> Result<ExportOptions> {
        let words = ["nvme-deep", "export"]
            .into_iter()
            .chain(words.split_whitespace());
        match Args::try_parse_from(words)?.command {
            Command::Export(args) => args.try_into(),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn intervals_are_for_two_formats_and_not_too_short() {
        let of = |words: &str| options(words).map(|o| o.interval);
        let hlog = of("a --format hlog -o b").unwrap();
        assert_eq!(hlog, Duration::from_secs(1));
        let perfetto = of("a --format perfetto -o b --interval 5ms").unwrap();
        assert_eq!(perfetto, Duration::from_millis(5));
        for words in [
            "a --format csv -o b --interval 1s",
            "a --format hlog -o b --interval 10us",
            "a b --format hlog -o c",
            "a b --format perfetto -o c",
        ] {
            let error = options(words).unwrap_err();
            assert_eq!(kind_of(&error), Kind::Usage, "{words}: {error}");
        }
    }
}
