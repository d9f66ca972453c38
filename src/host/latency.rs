// SPDX-License-Identifier: MIT OR Apache-2.0
//! `host latency`: the report of `latency`, of a target.

use std::io::{BufWriter, Write};

use crate::model::report::disk_names::DiskNames;
use crate::model::report::latency::{Report, rows};
use crate::model::report::recount::Recount;
use crate::model::snapshot::Snapshot;
use crate::model::stage::StageSet;
use crate::model::target::HostClock;
use crate::target::HostEvent;
use crate::view::json;
use crate::view::text::TextView;
use crate::view::theme::Theme;
use anyhow::Result;

use super::{Step, observe, write_ledger};
use crate::host::args::HostLatencyArgs;
use crate::run::drive::count;
use crate::run::stdout::{output_width, stdout};

/// Runs the command to its end.
///
/// # Errors
/// One sentence each, with the exit code of its kind.
pub fn run(args: &HostLatencyArgs) -> Result<()> {
    let (recount, mut snapshot) = (Recount::of(StageSet::Host), Snapshot::default());
    let ended = observe(&args.target, &mut |step| {
        if let Step::Event(HostEvent::Nvme(event), _) = step {
            count(&recount, event, &mut snapshot)?;
        }
        Ok(true)
    })?;
    let mut rows = rows(&snapshot, StageSet::Host, None, ended.took);
    if ended.target.clock == HostClock::Order {
        rows.iter_mut().for_each(|row| (row.iops, row.mb_per_s) = (0.0, 0.0));
    }
    let report = Report {
        stage_set: StageSet::Host,
        who: None,
        is_final: true,
        at: ended.took,
        covers: ended.took,
        rows,
        groups: None,
        ledger: ended.ledger.clone().unwrap_or_default(),
        disks: DiskNames::of_target(&ended.controllers),
    };
    let mut out = BufWriter::new(stdout());
    if args.target.json {
        json::report(&report, false, &mut out)?;
        write_ledger(ended.ledger.as_ref(), &args.target, &mut out)?;
    } else {
        let theme = Theme { color: args.color.on_stdout(false) };
        let view = TextView::of(theme, output_width(), args.target.verbose);
        view.report(&report, &mut out)?;
    }
    out.flush()?;
    ended.early
}
