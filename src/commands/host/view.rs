// SPDX-License-Identifier: MIT OR Apache-2.0
//! Output of events of the host side.

use std::io::Write;
use std::io::stderr;

use anyhow::Result;
use nvme_deep::model::host::HostEvent;
use nvme_deep::model::host::HostLedger;
use nvme_deep::model::target::HostController;
use nvme_deep::model::target::TargetInfo;
use nvme_deep::model::untrusted::Untrusted;
use nvme_deep::render::host::HostJson;
use nvme_deep::render::host::HostSink;
use nvme_deep::render::host::HostText;
use nvme_deep::render::host::ledger_text;

/// The name of a controller, or its number.
pub fn name_of(controllers: &[HostController], ctrl: u32) -> Untrusted {
    let found = controllers.iter().find(|c| c.number == ctrl);
    found.map_or_else(|| ctrl.to_string().into(), |c| c.name.clone())
}

/// Writes an event.
///
/// # Errors
/// Errors of the writer.
pub fn event(
    event: &HostEvent,
    controllers: &[HostController],
    json: bool,
    out: &mut dyn Write,
) -> Result<()> {
    let name = name_of(controllers, event.ctrl());
    if json {
        HostJson.event(event, &name, out)?;
    } else {
        HostText.event(event, &name, out)?;
    }
    Ok(())
}

/// Writes the target: in JSON only.
///
/// # Errors
/// Errors of the writer.
pub fn target(
    target: &TargetInfo,
    controllers: &[HostController],
    json: bool,
    out: &mut dyn Write,
) -> Result<()> {
    if json {
        HostJson::target(target, controllers, out)?;
    }
    Ok(())
}

/// Writes the ledger: as JSON to the output, as text to stderr.
///
/// # Errors
/// Errors of the writer.
pub fn ledger(ledger: &HostLedger, json: bool, detail: bool, out: &mut dyn Write) -> Result<()> {
    if json {
        HostJson::end(ledger, out)?;
    } else {
        // a closed stderr is not an error
        let _ = ledger_text(ledger, detail, &mut stderr().lock());
    }
    Ok(())
}
