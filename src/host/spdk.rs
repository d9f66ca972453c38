// SPDX-License-Identifier: MIT OR Apache-2.0
//! `host spdk` and `host msgs`: what happens in a process of SPDK besides the commands.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::io::{BufWriter, Write};

use crate::host::args::HostSpdkArgs;
use crate::host::{Step, attach, lines, live};
use crate::model::text::{Text, word};
use crate::run::eprint_note;
use crate::run::stdout::stdout;
use crate::settings::{ChosenTarget, HostOptions};
use crate::symbols::process::Functions;
use crate::target::HostEvent;
use crate::view::json::typed_line;
use crate::view::table::{Table, WIDE};
use crate::view::theme::Theme;
use anyhow::Result;
use serde_json::json;

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
    let (source, what) = attach(ChosenTarget::States(args.pid), HostOptions::default())?;
    eprint_note(&format!("tracing {what} by {} USDT probes", source.probes()));
    let mut out = BufWriter::new(stdout());
    let ended = live(source, args.duration, &mut lines(args.json, &mut out))?;
    let ledger = ended.ledger.unwrap_or_default();
    let hits: u64 = ledger.hooks.iter().map(|hook| hook.hits).sum();
    let lost = ledger.trace.unwrap_or_default().lost();
    if args.json {
        let line = json!({ "exact": lost == 0, "changes": hits, "lost": lost });
        typed_line("spdk_end", &line, &mut out)?;
    } else {
        verdict(hits, "changes of state", lost);
    }
    out.flush()?;
    ended.early
}

/// Runs `host msgs`.
///
/// # Errors
/// One sentence each, with the exit code of its kind.
pub fn messages(args: &HostSpdkArgs) -> Result<()> {
    let (source, what) = attach(ChosenTarget::Messages(args.pid), HostOptions::default())?;
    eprint_note(&format!("tracing the messages of {what}"));
    let mut functions = Functions::of(args.pid);
    let mut counts: BTreeMap<(&'static str, u64), u64> = BTreeMap::new();
    let ended = live(source, args.duration, &mut |step| {
        match step {
            Step::Event(HostEvent::Call { by, function, count }, _) => {
                counts.insert((*by, *function), *count);
            }
            // a function that is unloaded later has no name
            _ => functions.look_up(counts.keys().map(|(_, function)| *function)),
        }
        Ok(true)
    })?;
    functions.look_up(counts.keys().map(|(_, function)| *function));
    let sent: u64 = counts.values().sum();
    let mut rows: Vec<_> = counts.into_iter().collect();
    rows.sort_by_key(|((call, address), count)| (*call, Reverse(*count), *address));
    let lost = ended.ledger.and_then(|ledger| ledger.trace).map_or(0, |trace| trace.lost());
    let mut out = BufWriter::new(stdout());
    let mut table = Table::default();
    for ((call, address), count) in rows {
        let function = functions.name(address).map(Text::from);
        if args.json {
            let line =
                json!({ "call": call, "function": function, "address": address, "count": count });
            typed_line("spdk_messages", &line, &mut out)?;
            continue;
        }
        let function = function.map_or_else(|| format!("{address:#x}"), |f| word(&f).into_owned());
        let cells = [("<CALL", call.into()), ("COUNT", count.to_string()), ("<FUNCTION", function)];
        table.row(cells.to_vec());
    }
    if args.json {
        let line = json!({ "exact": lost == 0, "messages": sent, "lost": lost });
        typed_line("spdk_messages_end", &line, &mut out)?;
    } else {
        table.write(Theme { color: false }, WIDE, &mut out)?;
        verdict(sent, "messages", lost);
    }
    out.flush()?;
    ended.early
}
