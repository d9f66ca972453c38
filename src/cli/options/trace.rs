// SPDX-License-Identifier: MIT OR Apache-2.0
//! Options of `trace` and `stacks`, checked.

use std::ffi::OsString;
use std::path::Path;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::Error;
use anyhow::Result;
use nvme_deep::model::stack::StackAt;
use nvme_deep::model::stage::StageSet;
use nvme_deep::session::settings::Events;
use nvme_deep::session::settings::Mode;
use nvme_deep::session::settings::Outcome;
use nvme_deep::session::settings::Settings;
use nvme_deep::session::settings::StackSample;

use super::color;
use super::filter::refuse_for_recordings;
use super::is_stdout;
use super::stage_set;
use super::usage;
use crate::cli::args::OutcomeArgs;
use crate::cli::args::StackAtArg;
use crate::cli::args::StacksByArg;
use crate::cli::args::TimeArg;
use crate::cli::args::TraceArgs;
use crate::cli::record::BufferArgs;
use crate::cli::record::FromArgs;
use crate::cli::stacks::StacksArgs;

/// Smallest ring. The kernel requires at least one page.
const MIN_BUFFER: u64 = 64 << 10;
/// Largest ring. The kernel uses two bits of a record's length as flags (BPF_RINGBUF_BUSY_BIT,
/// BPF_RINGBUF_DISCARD_BIT).
pub const MAX_BUFFER: u32 = 1 << 30;

/// Options of `trace`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TraceOptions {
    /// Settings of the session.
    pub settings: Settings,
    /// Stop after this many commands.
    pub count: Option<u64>,
    /// Length of the run.
    pub duration: Option<Duration>,
    /// Clock and format of times.
    pub time: TimeArg,
    /// JSON lines instead of text.
    pub json: bool,
    /// Colour the text.
    pub color: bool,
    /// Also record to this file.
    pub tee: Option<PathBuf>,
    /// Replace that file.
    pub force: bool,
    /// Read these recordings instead of tracing; empty: trace.
    pub from: Vec<PathBuf>,
    /// The program to run while tracing, and its arguments; empty: none.
    pub exec: Vec<OsString>,
}

/// Options of `stacks`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StacksOptions {
    /// Settings of the session.
    pub settings: Settings,
    /// Order of the list, and weight in graphs.
    pub by: StacksByArg,
    /// Number of stacks to show.
    pub top: Option<usize>,
    /// Write lines for flame graph tools.
    pub folded: bool,
    /// File for a flame graph.
    pub svg: Option<PathBuf>,
    /// Replace that file.
    pub force: bool,
    /// Length of the run.
    pub duration: Option<Duration>,
    /// JSON lines instead of text.
    pub json: bool,
    /// Colour the text.
    pub color: bool,
    /// Read these recordings instead of tracing; empty: trace.
    pub from: Vec<PathBuf>,
    /// The program to run while tracing, and its arguments; empty: none.
    pub exec: Vec<OsString>,
}

/// Refuses a recording on stdout beside the lines.
fn refuse_tee_on_stdout(tee: Option<&Path>) -> Result<()> {
    if tee.is_some_and(is_stdout) {
        return Err(usage(
            "stdout has the lines of `trace`, so --tee can't be `-`: give a file, or use `record -o -`",
        ));
    }
    Ok(())
}

/// Refuses a picture on stdout beside lines for programs.
pub(super) fn refuse_two_on_stdout(svg: Option<&Path>, lines: bool) -> Result<()> {
    if lines && svg.is_some_and(is_stdout) {
        return Err(usage(
            "stdout can't have both the lines and the picture: give --svg a file, or leave it out",
        ));
    }
    Ok(())
}

/// Parses `1/64`; without a value, 1.
fn sample_period(text: Option<&str>) -> Result<u32> {
    let Some(text) = text else { return Ok(1) };
    let n = text.strip_prefix("1/").and_then(|n| n.parse().ok());
    n.filter(|&n| n > 0).ok_or_else(|| {
        usage(format!(
            "`{text}` is not a share of the commands: give one in so many, as in `--sample 1/64`"
        ))
    })
}

/// Parses `16M` and the like, for an option.
pub(super) fn size(text: &str, option: &str) -> Result<u64> {
    let digits = text.trim_end_matches(|c: char| !c.is_ascii_digit());
    let shift = match &text[digits.len()..] {
        "" => Some(0),
        "K" | "k" | "KiB" => Some(10),
        "M" | "m" | "MiB" => Some(20),
        "G" | "g" | "GiB" => Some(30),
        _ => None,
    };
    let bytes = digits.parse::<u64>().ok().zip(shift);
    let bytes = bytes.and_then(|(n, shift)| n.checked_mul(1 << shift));
    bytes.ok_or_else(|| {
        usage(format!(
            "`{text}` is not a size: give a number and K, M or G, as in `{option} 16M`"
        ))
    })
}

/// The size of the ring buffers. Rounds up to a power of two.
pub(super) fn ring_bytes(text: &str) -> Result<u32> {
    let bytes = size(text, "--buffer")?;
    if !(MIN_BUFFER..=MAX_BUFFER.into()).contains(&bytes) {
        return Err(usage(format!(
            "--buffer {text} is out of range: give a size between 64K and 1G"
        )));
    }
    Ok(u32::try_from(bytes.next_power_of_two())?)
}

impl BufferArgs {
    /// The size of the ring buffers, if one was given.
    pub(super) fn bytes(&self) -> Result<Option<u32>> {
        self.buffer.as_deref().map(ring_bytes).transpose()
    }
}

/// The stacks of `--kstack` and `--sample`.
pub(super) fn stack_sample(
    at: Option<StackAtArg>,
    sample: Option<&str>,
) -> Result<Option<StackSample>> {
    let period = sample_period(sample)?;
    Ok(at.map(stack_at).map(|at| StackSample { at, period }))
}

const fn stack_at(at: StackAtArg) -> StackAt {
    match at {
        StackAtArg::Submit => StackAt::Submit,
        StackAtArg::Complete => StackAt::Complete,
    }
}

impl TryFrom<TraceArgs> for TraceOptions {
    type Error = Error;

    fn try_from(args: TraceArgs) -> Result<Self> {
        let TraceArgs {
            pair,
            stages,
            kstack,
            sample,
            outcome: OutcomeArgs { slow, errors },
            sq,
            aen,
            context,
            count,
            duration,
            time,
            buffer,
            json,
            tee,
            force,
            exec,
            from: FromArgs { from },
            filter,
            attach,
        } = args;
        let at_the_end = slow.is_some() || errors;
        if !from.is_empty() {
            refuse_for_recordings(&filter, &exec)?;
        }
        refuse_tee_on_stdout(tee.as_deref())?;
        let color = color(attach.color, json);
        Ok(Self {
            settings: Settings {
                filter: filter.try_into()?,
                mode: Mode::Events(Events {
                    pairs: pair || at_the_end,
                    stack: stack_sample(kstack, sample.as_deref())?,
                    outcome: Outcome { slow, errors },
                    sq,
                    aen,
                    context,
                    ring_bytes: buffer.bytes()?,
                }),
                attaching: attach.into(),
                ..Settings::of(stage_set(stages))
            },
            count,
            duration,
            time,
            json,
            color,
            tee,
            force,
            exec: exec.program,
            from,
        })
    }
}

impl TryFrom<StacksArgs> for StacksOptions {
    type Error = Error;

    fn try_from(args: StacksArgs) -> Result<Self> {
        let StacksArgs {
            at,
            by,
            sample,
            outcome: OutcomeArgs { slow, errors },
            top,
            folded,
            svg,
            force,
            duration,
            json,
            exec,
            from: FromArgs { from },
            filter,
            attach,
        } = args;
        refuse_two_on_stdout(svg.as_deref(), json || folded)?;
        if from.len() > 1 && (folded || svg.is_some()) {
            return Err(usage(
                "--folded and --svg show one recording: give one file to --from, and run it again \
                 for each",
            ));
        }
        if !from.is_empty() {
            refuse_for_recordings(&filter, &exec)?;
        }
        let color = color(attach.color, json || folded);
        Ok(Self {
            settings: Settings {
                filter: filter.try_into()?,
                attaching: attach.into(),
                ..Mode::Stacks(
                    StackSample {
                        at: stack_at(at),
                        period: sample_period(sample.as_deref())?,
                    },
                    Outcome { slow, errors },
                )
                .with(StageSet::Total)
            },
            by,
            top: top.map(usize::try_from).transpose()?,
            folded,
            svg,
            force,
            duration,
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

    fn options(words: &str) -> Result<TraceOptions> {
        let words = ["nvme-deep", "trace"]
            .into_iter()
            .chain(words.split_whitespace());
        match Args::try_parse_from(words)?.command {
            Command::Trace(args) => args.try_into(),
            other => panic!("{other:?}"),
        }
    }

    fn events(words: &str) -> Events {
        options(words).unwrap().settings.events().unwrap().clone()
    }

    #[test]
    fn what_is_known_at_the_end_only_makes_pairs() {
        assert!(!events("").pairs);
        for words in ["--pair", "--slow 1ms", "--min-lat 1ms", "--errors"] {
            assert!(events(words).pairs, "{words}");
        }
    }

    #[test]
    fn sizes_become_powers_of_two() {
        assert_eq!(events("").ring_bytes, None);
        assert_eq!(events("--buffer 3M").ring_bytes, Some(4 << 20));
        assert_eq!(events("--buffer 65536").ring_bytes, Some(65536));
        assert_eq!(events("--buffer 1GiB").ring_bytes, Some(1 << 30));
    }

    #[test]
    fn stacks_and_their_share() {
        let of = |at, period| Some(StackSample { at, period });
        assert_eq!(events("").stack, None);
        assert_eq!(events("--kstack").stack, of(StackAt::Submit, 1));
        let some = events("--kstack=complete --sample 1/64");
        assert_eq!(some.stack, of(StackAt::Complete, 64));
        assert!(options("--sample 1/2").is_err(), "of what?");
    }

    #[test]
    fn nonsense_is_refused_with_the_usage_code() {
        for words in [
            "--kstack --sample 64",
            "--kstack --sample 1/0",
            "--buffer 1K",
            "--buffer 2G",
            "--buffer 16X",
            "--buffer M",
            "--lba 9-1",
            "--no-admin --no-io",
        ] {
            let error = options(words).unwrap_err();
            assert_eq!(kind_of(&error), Kind::Usage, "{words}: {error}");
        }
    }
}
