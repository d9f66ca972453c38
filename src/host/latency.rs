// SPDX-License-Identifier: MIT OR Apache-2.0
//! `host latency`: histograms of a target.

use std::io::{BufWriter, Write};

use crate::host::view::{latency_json, latency_text};
use crate::model::host::HostEvent;
use crate::model::target::{HostController, name_of};
use crate::target::latency::HostRows;
use crate::view::theme::Theme;
use anyhow::Result;

use super::{Taker, observe, write_ledger};
use crate::host::args::HostLatencyArgs;
use crate::run::stdout::stdout;

impl Taker for HostRows {
    fn event(&mut self, event: &HostEvent, _controllers: &[HostController]) -> Result<()> {
        if let HostEvent::Command(command) = event {
            self.add(command);
        }
        Ok(())
    }
}

/// Runs the command to its end.
///
/// # Errors
/// One sentence each, with the exit code of its kind.
pub fn run(args: &HostLatencyArgs) -> Result<()> {
    let mut rows = HostRows::default();
    let ended = observe(&args.target, args.duration, args.verbose, &mut rows)?;
    let name_of = |ctrl| name_of(&ended.controllers, ctrl);
    let mut out = BufWriter::new(stdout());
    if args.json {
        latency_json(&rows, &name_of, &mut out)?;
    } else {
        let color = args.color.on_stdout(false);
        latency_text(&rows, &name_of, Theme { color }, &mut out)?;
    }
    write_ledger(ended.ledger.as_ref(), args.json, args.verbose, &mut out)?;
    out.flush()?;
    ended.early
}
