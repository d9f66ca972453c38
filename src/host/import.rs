// SPDX-License-Identifier: MIT OR Apache-2.0
//! `host import`: records of the host side from files of other programs.

use std::slice;

use crate::error::Kind;
use crate::model::text::printable;
use crate::target::{import_qemu_log, spdk_trace};
use anyhow::Result;

use super::trace::{Output, lines, record};
use crate::host::args::HostImportArgs;
use crate::run::drive::TargetInput;
use crate::run::exit::Failure;
use crate::run::input::read_text;

/// Runs the command to its end.
///
/// # Errors
/// One sentence each, with the exit code of its kind.
pub fn run(args: &HostImportArgs) -> Result<()> {
    let path = args.qemu_log.as_ref().or(args.spdk_trace.as_ref());
    // clap requires one of them
    let Some(path) = path else { return Ok(()) };
    let text = read_text(path)?;
    let read =
        if args.qemu_log.is_some() { import_qemu_log(&text) } else { spdk_trace::import(&text) };
    let imported =
        read.map_err(|e| Failure::error(Kind::Usage, format!("{}: {e}", printable(path))))?;
    let input = TargetInput::Recorded(Box::new(imported.into()), None);
    let Some(output) = &args.output else {
        return lines(input, args.json, true);
    };
    let inputs = slice::from_ref(path);
    record(input, Output { path: output, force: args.force, inputs, detail: false })
}
