// SPDX-License-Identifier: MIT OR Apache-2.0
//! `host latency`: histograms of a target.

use std::io::{BufWriter, Write};

use crate::host::view::{latency_json, latency_text};
use crate::model::host::HostEvent;
use crate::model::target::name_of;
use crate::target::latency::HostRows;
use crate::view::theme::Theme;
use anyhow::Result;

use super::{input, write_ledger};
use crate::host::args::HostLatencyArgs;
use crate::run::drive::TargetStep;
use crate::run::stdout::stdout;

/// Runs the command to its end.
///
/// # Errors
/// One sentence each, with the exit code of its kind.
pub fn run(args: &HostLatencyArgs) -> Result<()> {
    input(&args.target, args.duration, args.verbose)?.read(&mut |run| {
        let mut rows = HostRows::default();
        loop {
            match run.next()? {
                TargetStep::Event(HostEvent::Command(command)) => rows.add(&command),
                TargetStep::Ended => break,
                _ => {}
            }
        }
        let name_of = |ctrl| name_of(run.controllers(), ctrl);
        let mut out = BufWriter::new(stdout());
        if args.json {
            latency_json(&rows, &name_of, &mut out)?;
        } else {
            let color = args.color.on_stdout(false);
            latency_text(&rows, &name_of, Theme { color }, &mut out)?;
        }
        if let Some(ledger) = &run.ledger {
            write_ledger(ledger, args.json, args.verbose, &mut out)?;
        }
        out.flush()?;
        Ok(())
    })
}
