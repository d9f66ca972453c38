// SPDX-License-Identifier: MIT OR Apache-2.0
//! Grouping.

use crate::model::group::By;
use crate::model::report::groups::Sort;
use anyhow::Result;
use clap::ValueEnum;

use super::value::count;
use crate::run::args::common::StagesArg;
use crate::run::exit::usage;

/// The order of groups.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum SortArg {
    /// Share of the device's time
    #[default]
    Share,
    /// 99th percentile
    P99,
    /// Commands per second
    Iops,
    /// Bytes
    Bytes,
}

impl SortArg {
    /// What it stands for.
    pub const fn sort(self) -> Sort {
        match self {
            Self::Share => Sort::Share,
            Self::P99 => Sort::P99,
            Self::Iops => Sort::Iops,
            Self::Bytes => Sort::Bytes,
        }
    }
}

/// By what commands are grouped.
#[derive(Clone, Debug, clap::Args)]
pub struct KeysArg {
    /// Group commands by KEY[,KEY]: process, comm, cgroup, container, cpu, queue, size, priority,
    /// disk, opcode
    ///
    /// Instead of rows per disk and opcode. `process` and `comm` are those that call the driver: a
    /// kernel thread, if blk-mq dispatches the request later. `cgroup` and `container` are those that
    /// caused the I/O, also for writeback. `submitter-process`, `submitter-comm` and `submitter-cgroup` are
    /// of the task that submitted the bio. Recordings have cgroups with `record --cgroups`, submitters with
    /// `--submitters`, and no priority.
    #[arg(long, value_name = "KEY", value_delimiter = ',')]
    pub by: Vec<By>,
}

/// Grouping, for reports.
#[derive(Clone, Debug, clap::Args)]
pub struct ByArgs {
    #[command(flatten)]
    pub keys: KeysArg,

    /// The order of groups
    #[arg(
        long,
        hide_short_help = true,
        value_name = "ORDER",
        default_value = "share",
        requires = "by"
    )]
    pub sort: SortArg,

    /// Groups that a text shows
    #[arg(long, hide_short_help = true, value_name = "N", default_value = "20", requires = "by",
          value_parser = count())]
    pub top: u64,
}

/// The error of `--by` with `--stages=full` while tracing: groups have no such stages.
pub fn by_with_full() -> anyhow::Error {
    usage("--by does not work with --stages=full while tracing: use --stages=fine")
}

impl KeysArg {
    /// Refuses what recordings do not have, and what a session cannot group by.
    pub fn check(&self, is_recorded: bool, stages: Option<StagesArg>) -> Result<()> {
        if !is_recorded && !self.by.is_empty() && stages == Some(StagesArg::Full) {
            return Err(by_with_full());
        }
        let missing = self.by.iter().find(|by| is_recorded && !by.is_recorded());
        match missing {
            Some(by) => {
                Err(usage(format!("--by {by} works only while tracing: recordings do not have it")))
            }
            None => Ok(()),
        }
    }

    /// The properties, each once.
    pub fn all(&self) -> Vec<By> {
        let mut keys = Vec::new();
        for by in &self.by {
            if !keys.contains(by) {
                keys.push(*by);
            }
        }
        keys
    }
}
