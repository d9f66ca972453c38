// SPDX-License-Identifier: MIT OR Apache-2.0
//! `host import`: records of the host side from files of other programs.

use std::io::BufWriter;
use std::io::Write;

use anyhow::Result;
use nvme_deep::error::Kind;
use nvme_deep::host::import_qemu_log;
use nvme_deep::host::spdk_trace;
use nvme_deep::model::untrusted::printable;

use super::file::HostFile;
use super::view;
use crate::cli::host::HostImportArgs;
use crate::commands::input::read_text;
use crate::commands::standard::stdout;
use crate::exit::Failure;

/// Runs the command to its end.
///
/// # Errors
/// One sentence each, with the exit code of its kind.
pub fn run(args: &HostImportArgs) -> Result<()> {
    let path = args.qemu_log.as_ref().or(args.spdk_trace.as_ref());
    // clap requires one of them
    let Some(path) = path else { return Ok(()) };
    let text = read_text(path)?;
    let read = if args.qemu_log.is_some() {
        import_qemu_log(&text)
    } else {
        spdk_trace::import(&text)
    };
    let imported =
        read.map_err(|e| Failure::error(Kind::Usage, format!("{}: {e}", printable(path))))?;
    let mut out = BufWriter::new(stdout());
    if let Some(output) = &args.output {
        let inputs = [path.clone()];
        let mut file = HostFile::create(output, args.force, &inputs, imported.target, false)?;
        for event in &imported.events {
            file.event(event)?;
        }
        file.finish(&imported.controllers, &imported.ledger)?;
        view::ledger(&imported.ledger, false, false, &mut out)?;
        return Ok(());
    }
    view::target(&imported.target, &imported.controllers, args.json, &mut out)?;
    for event in &imported.events {
        view::event(event, &imported.controllers, args.json, &mut out)?;
    }
    view::ledger(&imported.ledger, args.json, true, &mut out)?;
    out.flush()?;
    Ok(())
}
