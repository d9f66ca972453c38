// SPDX-License-Identifier: MIT OR Apache-2.0
//! Where output goes, and its colour.

use std::env;
use std::io::{IsTerminal, stdout};
use std::path::Path;

use anyhow::Result;
use clap::ValueEnum;

use crate::run::exit::usage;

/// The help of `--json` where a line has an object.
pub const JSON: &str = "One JSON object per line instead of text";
/// The same in full.
pub const JSON_LONG: &str =
    "One JSON object per line instead of text\n\nThe schema is in docs/json.md.";

/// When to use colour.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ColorArg {
    /// On a terminal, unless NO_COLOR is set
    Auto,
    /// Always
    Always,
    /// Never
    Never,
}

impl ColorArg {
    /// Whether to colour text on stdout. `plain`: it is for programs.
    pub fn on_stdout(self, plain: bool) -> bool {
        match self {
            _ if plain => false,
            Self::Always => true,
            Self::Never => false,
            Self::Auto => stdout().is_terminal() && env::var_os("NO_COLOR").is_none(),
        }
    }
}

/// Whether a path of an output means stdout.
pub fn is_stdout(path: &Path) -> bool {
    path.as_os_str() == "-"
}

/// Refuses a picture on stdout beside lines for programs.
pub(crate) fn refuse_two_on_stdout(svg: Option<&Path>, lines: bool) -> Result<()> {
    if lines && svg.is_some_and(is_stdout) {
        return Err(usage(
            "stdout can't have both the lines and the picture: give --svg a file, or leave it out",
        ));
    }
    Ok(())
}
