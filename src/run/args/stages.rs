// SPDX-License-Identifier: MIT OR Apache-2.0
//! Stage sets.

use crate::model::stage::StageSet;
use clap::ValueEnum;

/// Stage sets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum StagesArg {
    /// queue, submit, device, complete
    #[value(alias = "cheap")]
    Basic,
    /// queue, setup, map, submit, device, irq, complete, end
    Fine,
    /// the same, and before them throttle, block, freeze, zone, iocost, wbt, tag
    Full,
}

impl StagesArg {
    /// What it stands for.
    pub const fn set(self) -> StageSet {
        match self {
            Self::Basic => StageSet::Basic,
            Self::Fine => StageSet::Fine,
            Self::Full => StageSet::Full,
        }
    }
}

/// The stage set of an option that may be left out.
pub fn set_or_total(stages: Option<StagesArg>) -> StageSet {
    stages.map_or(StageSet::Total, StagesArg::set)
}
