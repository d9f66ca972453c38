// SPDX-License-Identifier: MIT OR Apache-2.0
//! `host spdk` and `host msgs`: what happens in a process of SPDK besides the commands.

use std::io::{BufWriter, Write};
use std::time::{Duration, Instant};

use crate::host::view::{MessageRow, messages_text, state_json, state_text};
use crate::machine::System;
use crate::model::target::TargetInfo;
use crate::run::start::{Messages, StateChanges, prepare};
use crate::symbols::process::Functions;
use crate::target::spdk::StateChange;
use crate::view::json::typed_line;
use anyhow::Result;
use serde_json::json;

use crate::host::args::HostSpdkArgs;
use crate::run::drive::turns::{Turns, stop_receiver};
use crate::run::eprint_note;
use crate::run::stdout::stdout;

/// Time between two looks at the functions that were passed on. One that is unloaded earlier has no
/// name.
const LOOK: Duration = Duration::from_millis(500);

/// `process 7 (/usr/bin/nvmf_tgt, SPDK 26.05)`
fn who(target: &TargetInfo) -> String {
    let pid = target.pid.unwrap_or_default();
    let binary = target.binary.as_deref().unwrap_or_default();
    let release = target.version.as_ref();
    let release = release.map_or_else(
        || ", a release of SPDK that it does not say".into(),
        |release| format!(", SPDK {release}"),
    );
    format!("process {pid} ({binary}{release})")
}

/// Reports the accuracy.
fn verdict(number: u64, what: &str, lost: u64) {
    let grade = if lost == 0 { "exact" } else { "DEGRADED" };
    eprint_note(&format!("{grade}: {number} {what}, {lost} lost"));
}

/// Runs `host spdk`.
///
/// # Errors
/// One sentence each, with the exit code of its kind.
pub fn states(args: &HostSpdkArgs) -> Result<()> {
    prepare(None)?;
    let mut changes = StateChanges::of(&System::at("/"), args.pid)?;
    let (who, probes) = (who(&changes.target()), changes.probes());
    eprint_note(&format!("tracing {who} by {probes} USDT probes"));
    let mut out = BufWriter::new(stdout());
    let mut written = Ok(());
    let mut write = |change: &StateChange, out: &mut dyn Write| {
        if written.is_ok() {
            written = match args.json {
                true => state_json(change, out),
                false => state_text(change, out),
            };
        }
    };
    let stop = stop_receiver()?;
    let mut turns = Turns::begin(&stop, args.duration);
    loop {
        let more = changes.take(false, &mut |change| write(change, &mut out))?;
        out.flush()?;
        if changes.alive().is_err() || !turns.pause(more) {
            break;
        }
    }
    let alive = changes.alive();
    let (hits, lost) = changes.end(&mut |change| write(change, &mut out))?;
    written?;
    if args.json {
        let line = json!({ "exact": lost == 0, "changes": hits, "lost": lost });
        typed_line("spdk_end", &line, &mut out)?;
    } else {
        verdict(hits, "changes of state", lost);
    }
    out.flush()?;
    Ok(alive?)
}

/// Runs `host msgs`.
///
/// # Errors
/// One sentence each, with the exit code of its kind.
pub fn messages(args: &HostSpdkArgs) -> Result<()> {
    prepare(None)?;
    let mut messages = Messages::of(&System::at("/"), args.pid)?;
    eprint_note(&format!("tracing the messages of {}", who(&messages.target())));
    let mut functions = Functions::of(args.pid);
    let mut looked: Option<Instant> = None;
    let stop = stop_receiver()?;
    let mut turns = Turns::begin(&stop, args.duration);
    loop {
        if looked.is_none_or(|at| at.elapsed() >= LOOK) {
            functions.look_up(messages.counts()?.iter().map(|c| c.function));
            looked = Some(Instant::now());
        }
        if messages.alive().is_err() || !turns.pause(false) {
            break;
        }
    }
    let alive = messages.alive();
    messages.stop();
    let counts = messages.counts()?;
    functions.look_up(counts.iter().map(|c| c.function));
    let rows = counts.iter().map(|call| MessageRow {
        call: call.by,
        function: functions.name(call.function).map(Into::into),
        address: call.function,
        count: call.count,
    });
    let rows: Vec<MessageRow> = rows.collect();
    let (sent, lost): (u64, u64) = (counts.iter().map(|c| c.count).sum(), messages.lost()?);
    let mut out = BufWriter::new(stdout());
    if args.json {
        for row in &rows {
            typed_line("spdk_messages", row, &mut out)?;
        }
        let line = json!({ "exact": lost == 0, "messages": sent, "lost": lost });
        typed_line("spdk_messages_end", &line, &mut out)?;
    } else {
        messages_text(&rows, &mut out)?;
        verdict(sent, "messages", lost);
    }
    out.flush()?;
    Ok(alive?)
}
