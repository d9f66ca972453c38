// SPDX-License-Identifier: MIT OR Apache-2.0
//! `dist`.

use std::path::PathBuf;

/// `dist`.
#[derive(Clone, Debug, clap::Args)]
pub struct DistArgs {
    /// The directory to write to: DIRECTORY/man and DIRECTORY/completions
    #[arg(value_name = "DIRECTORY")]
    pub directory: PathBuf,
}
