// SPDX-License-Identifier: MIT OR Apache-2.0
//! `doctor`.

use std::path::PathBuf;

use crate::probe::catalog::Method;
use crate::run::args::common::{ColorArg, ONLY_EXAMPLES};

const EXAMPLES: &str = "\
Examples:
  nvme-deep doctor
      What this machine supports
  nvme-deep doctor --attach kprobe
      The same, if only kprobes were used";

/// `doctor`.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = ONLY_EXAMPLES)]
#[command(after_long_help = EXAMPLES)]
pub struct DoctorArgs {
    /// One JSON object instead of text
    ///
    /// The schema is in docs/reference/json.md.
    #[arg(long, short = 'j')]
    pub json: bool,

    /// Send an Identify command to each live PCI controller
    ///
    /// To check for shadow doorbells. With a hung controller this can take the admin timeout (60 s).
    #[arg(long)]
    pub identify: bool,

    /// Plan with this attach method only
    #[arg(long, value_name = "METHOD")]
    pub attach: Option<Method>,

    /// BTF of the driver's modules, as for latency
    #[arg(long, value_name = "FILE")]
    pub btf: Option<PathBuf>,

    /// Print everything that the verdict is based on
    ///
    /// Kernel, privileges, controllers, the hook of each point, memory.
    #[arg(long, short)]
    pub verbose: bool,

    /// When to use colour
    #[arg(long, value_name = "WHEN", default_value = "auto")]
    pub color: ColorArg,
}
