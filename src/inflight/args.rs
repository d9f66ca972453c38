// SPDX-License-Identifier: MIT OR Apache-2.0
//! `inflight`.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::Duration;

use crate::machine::inflight::report::AgeLimit;
use crate::model::filter::Filter;
use crate::model::stack::StackAt;
use crate::model::stage::StageSet;
use crate::nvme::subject::parse_nsid;
use crate::settings::{Attaching, Mode, Settings, StackSample};
use crate::units::parse_duration;
use anyhow::Result;

use crate::run::args::common::{ColorArg, ONLY_EXAMPLES, count, number};
use crate::run::args::filter::{ctrl_instance, disk_of};
use crate::run::exit::usage;

const EXAMPLES: &str = "\
Examples:
  nvme-deep inflight
      Look once; a verdict on commands of at least 100 ms
  nvme-deep inflight 1 --age 10x --kstack
      Every second; commands of ten times the p99 of their kind, and who submitted them";

/// `inflight`.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = ONLY_EXAMPLES)]
#[command(after_long_help = EXAMPLES)]
pub struct InflightArgs {
    /// Look again every INTERVAL (`1`, `500ms`, `5s`); without it, once
    #[arg(value_name = "INTERVAL", value_parser = parse_duration)]
    pub interval: Option<Duration>,

    /// Stop after COUNT snapshots
    #[arg(value_name = "COUNT", value_parser = count())]
    pub count: Option<u64>,

    /// Give a verdict on commands of at least this age
    ///
    /// These are read twice, 30 ms apart. `10x`: ten times the p99 of commands with the same
    /// controller, namespace, opcode and size class; needs an INTERVAL, in which commands are traced.
    #[arg(long, value_name = "TIME|Nx", default_value = "100ms", value_parser = AgeLimit::parse)]
    pub age: AgeLimit,

    /// Add the kernel stack of each command; needs an INTERVAL
    ///
    /// The stack at its submission, its submitter, and the p99 of its kind.
    #[arg(long, requires = "interval")]
    pub kstack: bool,

    /// Show only the commands of at least that age
    #[arg(long)]
    pub old: bool,

    /// Only this disk (`nvme0n1`)
    ///
    /// Or `/dev/nvme0n1`, or the one that has this file or directory (`/mnt/data`). All paths of a
    /// multipath disk.
    #[arg(long, value_name = "DISK", conflicts_with_all = ["ctrl", "nsid"])]
    pub disk: Option<String>,

    /// Only these controllers (`nvme0,nvme1`)
    #[arg(long, value_name = "CTRL", value_delimiter = ',', value_parser = ctrl_instance)]
    pub ctrl: Vec<u32>,

    /// Only these namespace ids: `1`, `0x1`; `all` is 0xffffffff
    #[arg(long, value_name = "NSID", value_delimiter = ',', value_parser = parse_nsid)]
    pub nsid: Vec<u32>,

    /// Only commands on these queues; 0 is the admin queue
    #[arg(long, value_name = "QID", value_delimiter = ',', value_parser = number(0..=u16::MAX))]
    pub qid: Vec<u16>,

    /// One JSON object per snapshot instead of text
    ///
    /// The schema is in docs/reference/json.md.
    #[arg(long, short = 'j')]
    pub json: bool,

    /// Also show the fields of each command, its p99 if traced, and the queues
    #[arg(long, short)]
    pub verbose: bool,

    /// BTF of the kernel with its modules, if it has none (5.10)
    #[arg(long, value_name = "FILE")]
    pub btf: Option<PathBuf>,

    /// When to use colour
    #[arg(long, value_name = "WHEN", default_value = "auto")]
    pub color: ColorArg,
}

impl InflightArgs {
    /// Which commands: controllers, namespaces and queues.
    ///
    /// # Errors
    /// If the options need an INTERVAL, or there is no such disk; one sentence.
    pub fn filter(&self) -> Result<Filter> {
        if let (AgeLimit::TimesP99(times), None) = (self.age, self.interval) {
            return Err(usage(format!(
                "--age {times}x needs an INTERVAL, in which commands are traced to learn their p99: \
                 `nvme-deep inflight 1 --age {times}x`"
            )));
        }
        let mut filter = Filter {
            ctrls: self.ctrl.iter().copied().collect(),
            nsids: self.nsid.iter().copied().collect(),
            qids: self.qid.iter().copied().collect(),
            ..Filter::default()
        };
        if let Some(disk) = &self.disk {
            // a partition stands for its disk: the blocks of a command are not read
            let disk = disk_of(disk)?;
            filter.ctrls = disk.controllers.into_iter().collect();
            filter.nsids = BTreeSet::from([disk.nsid]);
        }
        Ok(filter)
    }

    /// The settings of the run that observes submissions, if one is needed.
    pub fn tracing(&self, filter: &Filter) -> Option<Settings> {
        let by_p99 = matches!(self.age, AgeLimit::TimesP99(_));
        let stack = self.kstack.then_some(StackSample::every(StackAt::Submit));
        (by_p99 || self.kstack).then(|| Settings {
            filter: Filter { ctrls: filter.ctrls.clone(), ..Filter::default() },
            attaching: Attaching { btf: self.btf.clone(), ..Attaching::default() },
            ..Mode::Flight(stack).with(StageSet::Total)
        })
    }
}
