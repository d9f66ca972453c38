// SPDX-License-Identifier: MIT OR Apache-2.0
//! The command line of `diagnose` as typed.

use std::path::PathBuf;
use std::time::Duration;

use nvme_deep::units::parse_duration;

use super::args::AttachArgs;
use super::args::FilterArgs;
use super::examples;
use super::record::BufferArgs;

/// `diagnose`.
#[derive(Clone, Debug, clap::Args)]
#[command(mut_arg("verbose", |arg| arg
    .help("All kinds of commands, and all rules with their reasons")
    .long_help("All kinds of commands, and all rules with their reasons. While tracing, also the hooks, the \
                reasons of fallbacks, the full ledger; -vv: libbpf's log too")))]
#[command(after_help = examples::WITH_FILTERS)]
#[command(after_long_help = examples::DIAGNOSE)]
pub struct DiagnoseArgs {
    /// How long to observe (`10s`, `1m`) [default: 10s]
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    pub duration: Option<Duration>,

    /// Commands are slow if their median is above this time (`200us`)
    #[arg(long, value_name = "TIME", value_parser = parse_duration, conflicts_with = "baseline")]
    pub expect: Option<Duration>,

    /// Compare with this recording of the same load
    ///
    /// Commands are slow if their median is a fifth above that of the same commands in it.
    #[arg(long, value_name = "FILE")]
    pub baseline: Option<PathBuf>,

    /// Also read log pages of the controllers: SMART, EBS statistics
    ///
    /// Before and after. Sends Get Log Page and Identify commands to each; otherwise `diagnose` sends
    /// none.
    #[arg(long, conflicts_with = "from")]
    pub log: bool,

    /// End with exit code 3 if a cause was found
    ///
    /// With 1 if no rule could be judged.
    #[arg(long)]
    pub check: bool,

    /// Diagnose recordings instead of this machine
    ///
    /// Made by `record --stages=fine --context`. Needs no root. Several are read one after the other.
    #[arg(long, value_name = "FILE", num_args = 1..,
          conflicts_with_all = ["duration", "attach", "btf", "test_ignore", "test_no_recovery"])]
    pub from: Vec<PathBuf>,

    #[command(flatten)]
    #[allow(missing_docs, reason = "BufferArgs says it")]
    pub buffer: BufferArgs,

    /// One JSON object instead of text
    ///
    /// The schema is in docs/json.md.
    #[arg(long, short = 'j')]
    pub json: bool,

    #[command(flatten)]
    #[allow(missing_docs, reason = "FilterArgs says it")]
    pub filter: FilterArgs,

    #[command(flatten)]
    #[allow(missing_docs, reason = "AttachArgs says it")]
    pub attach: AttachArgs,
}
