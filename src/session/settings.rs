// SPDX-License-Identifier: MIT OR Apache-2.0
//! The settings of a run: which commands, what to measure, how to attach.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::Duration;

use crate::model::nvme_latency::LatBuckets;
use crate::model::stack::StackAt;
use crate::model::stage::StageSet;
use crate::nvme::opcode::Opcode;
use crate::probe::catalog::Method;

/// Filters. All that are given must match; an empty set matches everything.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filter {
    /// Controller instances.
    pub ctrls: BTreeSet<u32>,
    /// Namespace ids.
    pub nsids: BTreeSet<u32>,
    /// Opcodes.
    pub opcodes: BTreeSet<Opcode>,
    /// Queues; 0 is the admin queue.
    pub qids: BTreeSet<u16>,
    /// Leave the admin queue out.
    pub no_admin: bool,
    /// Leave all other queues out.
    pub no_io: bool,
    /// Processes that call the driver.
    pub pids: BTreeSet<u32>,
    /// The name of the thread that calls the driver.
    pub comm: Option<String>,
    /// The directory of a cgroup.
    pub cgroup: Option<PathBuf>,
    /// The first and the last logical block of a range that a command must touch.
    pub lba: Option<(u64, u64)>,
}

/// How to attach, and how much to say of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Attaching {
    /// Attach by this method only.
    pub only: Option<Method>,
    /// BTF of the driver's modules.
    pub btf: Option<PathBuf>,
    /// Talk on stderr.
    pub verbose: u8,
    /// Tests only: programs that ignore every 97th of their events.
    pub ignore: Vec<String>,
    /// Tests only: commands whose set-up or completion was not observed are not looked for.
    pub no_recovery: bool,
}

/// What becomes of each command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TraceKind {
    /// An event at its setup, one at its completion.
    Events,
    /// One event at its completion.
    Pairs,
    /// Counted by its stack.
    Stacks,
}

/// What a run that looks at single commands wants of each.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tracing {
    /// What becomes of it.
    pub kind: TraceKind,
    /// Its stack, and where.
    pub stack: Option<StackAt>,
    /// The stack of one in so many.
    pub one_in: u32,
    /// Only if it took this long.
    pub slow: Option<Duration>,
    /// Only if it failed.
    pub errors: bool,
    /// The submission queue's head and tail at its completion.
    pub sq: bool,
    /// The controllers' asynchronous events.
    pub aen: bool,
    /// Size of the ring, a power of two; `None`: what the machine lets it have.
    pub ring_bytes: Option<u32>,
}

/// What the kernel side is to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Which stages to measure.
    pub stage_set: StageSet,
    /// What to look at.
    pub filter: Filter,
    /// nvme_latency's buckets.
    pub lat: Option<LatBuckets>,
    /// A row per size class.
    pub split_size: bool,
    /// A record per command beside the histograms.
    pub commands: bool,
    /// Single commands instead of histograms.
    pub trace: Option<Tracing>,
    /// How to attach.
    pub attaching: Attaching,
}

impl Settings {
    /// A run with this set of stages and no options.
    pub fn of(stage_set: StageSet) -> Self {
        Self {
            stage_set,
            filter: Filter::default(),
            lat: None,
            split_size: false,
            commands: false,
            trace: None,
            attaching: Attaching::default(),
        }
    }

    /// The plainest run that looks at single commands.
    pub fn of_trace(kind: TraceKind, stack: Option<StackAt>) -> Self {
        Self {
            trace: Some(Tracing {
                kind,
                stack,
                one_in: 1,
                slow: None,
                errors: false,
                sq: false,
                aen: false,
                ring_bytes: None,
            }),
            ..Self::of(StageSet::Total)
        }
    }
}
