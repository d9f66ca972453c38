// SPDX-License-Identifier: MIT OR Apache-2.0
//! A choice by what became of a command.

use std::time::Duration;

use crate::settings::Outcome;
use crate::units::parse_duration;

/// A choice by what became of a command.
#[derive(Clone, Copy, Debug, clap::Args)]
pub struct OutcomeArgs {
    /// Only commands that took at least this long (`1ms`)
    ///
    /// From Submit to Complete. Also commands whose latency is not known.
    #[arg(long, alias = "min-lat", value_name = "TIME", value_parser = parse_duration)]
    pub slow: Option<Duration>,

    /// Only commands with a status other than success
    #[arg(long)]
    pub errors: bool,
}

impl OutcomeArgs {
    /// Which commands a session chooses.
    pub const fn chosen(self) -> Outcome {
        Outcome { slow: self.slow, errors: self.errors }
    }

    /// Whether not all commands are chosen.
    pub const fn is_some(self) -> bool {
        self.slow.is_some() || self.errors
    }
}
