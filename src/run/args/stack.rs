// SPDX-License-Identifier: MIT OR Apache-2.0
//! Kernel stacks of single commands.

use crate::model::stack::StackAt;
use crate::settings::StackSample;
use clap::ValueEnum;

/// Where a stack is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum StackAtArg {
    /// At submission: who submits
    Submit,
    /// At completion: interrupt, softirq, poll or cancellation
    Complete,
}

impl StackAtArg {
    /// Stacks taken there, of one command in this many; `None`: of each.
    pub fn sample(self, period: Option<u32>) -> StackSample {
        StackSample {
            at: match self {
                Self::Submit => StackAt::Submit,
                Self::Complete => StackAt::Complete,
            },
            period: period.unwrap_or(1),
        }
    }
}

/// Parses `1/64`.
pub(crate) fn share(text: &str) -> Result<u32, String> {
    let n = text.strip_prefix("1/").and_then(|n| n.parse().ok());
    n.filter(|&n| n > 0).ok_or_else(|| {
        format!(
            "`{text}` is not a share of the commands: give one in so many, as in `--sample 1/64`"
        )
    })
}
