// SPDX-License-Identifier: MIT OR Apache-2.0
//! A program to run while tracing.

use std::ffi::OsString;

use anyhow::Result;

use super::from::FromArgs;
use crate::run::exit::usage;

/// A program to run.
#[derive(Clone, Debug, clap::Args)]
pub struct ExecArgs {
    /// Trace while COMMAND runs, then end with its exit code
    ///
    /// As in `--exec -- COMMAND ARGUMENT...`. The commands of all processes are traced.
    #[arg(long, requires = "program")]
    pub exec: bool,

    /// The command of --exec and its arguments
    #[arg(last = true, value_name = "COMMAND", requires = "exec")]
    pub program: Vec<OsString>,
}

impl ExecArgs {
    /// Refuses a program while recordings are read.
    pub(crate) fn check(&self, from: &FromArgs) -> Result<()> {
        if self.exec && !from.is_empty() {
            return Err(usage(
                "--exec traces while a program runs, and a recording is read: leave out --exec or \
                 --from",
            ));
        }
        Ok(())
    }
}
