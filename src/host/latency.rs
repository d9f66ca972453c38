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
use crate::run::drive::{Consumer, End, Feed, Item, drive};
use crate::run::stdout::stdout;

/// Sums the commands up.
struct Rows<'a> {
    args: &'a HostLatencyArgs,
    rows: HostRows,
}

impl Consumer for Rows<'_> {
    fn item(&mut self, item: &Item<'_>, _feed: &mut Feed<'_>) -> Result<()> {
        if let Item::Target(HostEvent::Command(command)) = item {
            self.rows.add(command);
        }
        Ok(())
    }

    fn finish(self, end: End<'_>) -> Result<Result<()>> {
        let Self { args, rows } = self;
        let Some(end) = end.target else {
            return Ok(Ok(()));
        };
        let name_of = |ctrl| name_of(end.controllers, ctrl);
        let mut out = BufWriter::new(stdout());
        if args.json {
            latency_json(&rows, &name_of, &mut out)?;
        } else {
            let color = args.color.on_stdout(false);
            latency_text(&rows, &name_of, Theme { color }, &mut out)?;
        }
        if let Some(ledger) = end.ledger {
            write_ledger(ledger, args.json, args.verbose, &mut out)?;
        }
        out.flush()?;
        Ok(Ok(()))
    }
}

/// Runs the command to its end.
///
/// # Errors
/// One sentence each, with the exit code of its kind.
pub fn run(args: &HostLatencyArgs) -> Result<()> {
    let input = input(&args.target, args.duration, args.verbose)?;
    drive(input, &mut |_| Ok(Rows { args, rows: HostRows::default() }))
}
