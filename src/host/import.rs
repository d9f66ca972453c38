// SPDX-License-Identifier: MIT OR Apache-2.0
//! `host import`: records of the host side from files of other programs.

use std::slice;

use crate::error::Kind;
use crate::model::text::printable;
use crate::target::{import_qemu_log, spdk_trace};
use anyhow::Result;

use super::trace::{Lines, Output, record};
use crate::host::args::HostImportArgs;
use crate::run::drive::{Input, TargetRecording, drive};
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
    let input = Input::TargetRecording(Box::new(TargetRecording {
        recording: imported.into(),
        path: None,
    }));
    let Some(output) = &args.output else {
        return drive(input, &mut |start| Ok(Lines::new(start, args.json, true, false)));
    };
    let output = Output {
        path: output,
        force: args.force,
        inputs: slice::from_ref(path),
        detail: false,
        is_live: false,
    };
    record(input, output)
}
