// SPDX-License-Identifier: MIT OR Apache-2.0
//! From words to meaning: what a command line asks for, checked as far as it can be without looking
//! at the machine.

mod filter;
mod latency;
mod trace;

use std::env;
use std::io::IsTerminal;
use std::io::stdout;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::Error;

pub use self::filter::Filter;
pub use self::latency::LatencyOptions;
pub use self::trace::StacksOptions;
pub use self::trace::TraceOptions;
use crate::cli::AttachArg;
use crate::cli::AttachArgs;
use crate::cli::ColorArg;
use crate::cli::StagesArg;
use crate::exit::Failure;
use crate::exit::Kind;
use crate::lat_buckets::LatBuckets;
use crate::path::stage::Cut;
use crate::probe::catalog::Family;

/// How to attach, and how much to say of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Attaching {
    /// Attach by this family only.
    pub only: Option<Family>,
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

/// Where a stack is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StackAt {
    /// At the end of the setup.
    Submit,
    /// At the completion.
    Complete,
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
pub struct Probing {
    /// How finely to cut.
    pub cut: Cut,
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

impl Probing {
    /// The plainest run of a cut.
    pub fn of(cut: Cut) -> Self {
        Self {
            cut,
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
            ..Self::of(Cut::Total)
        }
    }
}

fn usage(message: impl Into<String>) -> Error {
    Failure::error(Kind::Usage, message)
}

/// What `--attach` means; `None` is auto.
pub const fn family(attach: AttachArg) -> Option<Family> {
    match attach {
        AttachArg::Auto => None,
        AttachArg::Fentry => Some(Family::Fentry),
        AttachArg::Rawtp => Some(Family::RawTp),
        AttachArg::Kprobe => Some(Family::Kprobe),
        AttachArg::Tracepoint => Some(Family::Tracepoint),
    }
}

/// Whether to colour text on stdout.
pub fn color(when: ColorArg, json: bool) -> bool {
    match when {
        _ if json => false,
        ColorArg::Always => true,
        ColorArg::Never => false,
        ColorArg::Auto => stdout().is_terminal() && env::var_os("NO_COLOR").is_none(),
    }
}

const fn cut(stages: Option<StagesArg>) -> Cut {
    match stages {
        None => Cut::Total,
        Some(StagesArg::Basic) => Cut::Cheap,
        Some(StagesArg::Fine) => Cut::Fine,
    }
}

impl From<AttachArgs> for Attaching {
    fn from(args: AttachArgs) -> Self {
        let AttachArgs {
            attach,
            btf,
            color: _,
            verbose,
            test_ignore: ignore,
            test_no_recovery: no_recovery,
        } = args;
        Self {
            only: family(attach),
            btf,
            verbose,
            ignore,
            no_recovery,
        }
    }
}
