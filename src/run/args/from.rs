// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reading recordings instead of tracing.

use std::path::PathBuf;

use crate::units::parse_duration;
use anyhow::Result;

use crate::run::exit::usage;

/// Recordings to read.
#[derive(Clone, Debug, clap::Args)]
pub struct FromArgs {
    /// Read recordings instead of tracing
    ///
    /// Made by `record`. Needs no root. Several are read one after the other; a picture shows one.
    #[arg(id = "from", long = "from", value_name = "FILE", num_args = 1..,
          conflicts_with_all = ["duration", "attach", "btf"])]
    // release builds do not have these, and the man pages ask for each
    #[cfg_attr(debug_assertions, arg(conflicts_with_all = ["test_ignore", "test_no_recovery"]))]
    pub files: Vec<PathBuf>,
}

impl FromArgs {
    /// Whether the run traces.
    pub fn is_empty(&self) -> bool {
        self.files.is_empty()
    }

    /// Refuses several recordings.
    pub(crate) fn refuse_several(&self, why: &str) -> Result<()> {
        if self.files.len() > 1 {
            return Err(usage(format!(
                "{why} one recording: give one file to --from, and run it again for each"
            )));
        }
        Ok(())
    }

    /// Refuses a time after the files: it was meant as INTERVAL or COUNT.
    pub(crate) fn refuse_times(&self) -> Result<()> {
        let texts = self.files.iter().skip(1).filter_map(|path| path.to_str());
        match texts.into_iter().find(|t| parse_duration(t).is_ok()) {
            None => Ok(()),
            Some(time) => Err(usage(format!(
                "`{time}` after --from is a file, not a time: give INTERVAL and COUNT before --from, \
                 or write `./{time}`"
            ))),
        }
    }
}
