// SPDX-License-Identifier: MIT OR Apache-2.0
//! Options: the command line, converted and checked as far as possible without access to the
//! machine.

mod diagnose;
mod diff;
mod export;
mod filter;
mod heatmap;
mod inflight;
mod latency;
mod pattern;
mod record;
mod schedule;
mod serve;
mod top;
mod trace;

use std::env;
use std::io::IsTerminal;
use std::io::stdout;
use std::path::Path;

use anyhow::Error;
use nvme_deep::error::Kind;
use nvme_deep::model::stage::StageSet;
use nvme_deep::probe::catalog::Method;
use nvme_deep::session::settings::Attaching;

pub use self::diagnose::DiagnoseOptions;
pub use self::diff::DiffOptions;
pub use self::export::ExportOptions;
pub use self::filter::ctrl_instance;
pub use self::heatmap::HeatmapOptions;
pub use self::heatmap::PictureFile;
pub use self::heatmap::PictureFormat;
pub use self::inflight::InflightOptions;
pub use self::latency::LatencyOptions;
pub use self::pattern::PatternOptions;
pub use self::record::RecordOptions;
pub use self::record::Trigger;
pub use self::serve::Output;
pub use self::serve::ServeOptions;
pub use self::top::TopOptions;
pub use self::trace::MAX_BUFFER;
pub use self::trace::StacksOptions;
pub use self::trace::TraceOptions;
use crate::cli::args::AttachArg;
use crate::cli::args::AttachArgs;
use crate::cli::args::ColorArg;
use crate::cli::args::StagesArg;
use crate::exit::Failure;

/// Whether a path of an output means stdout.
pub fn is_stdout(path: &Path) -> bool {
    path.as_os_str() == "-"
}

fn usage(message: impl Into<String>) -> Error {
    Failure::error(Kind::Usage, message)
}

/// The method of `--attach`; `None` is auto.
pub const fn method(attach: AttachArg) -> Option<Method> {
    match attach {
        AttachArg::Auto => None,
        AttachArg::Fentry => Some(Method::Fentry),
        AttachArg::Rawtp => Some(Method::RawTp),
        AttachArg::Kprobe => Some(Method::Kprobe),
        AttachArg::Tracepoint => Some(Method::Tracepoint),
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

const fn stage_set(stages: Option<StagesArg>) -> StageSet {
    match stages {
        None => StageSet::Total,
        Some(StagesArg::Basic) => StageSet::Basic,
        Some(StagesArg::Fine) => StageSet::Fine,
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
            only: method(attach),
            btf,
            verbose,
            ignore,
            no_recovery,
        }
    }
}
