// SPDX-License-Identifier: MIT OR Apache-2.0
//! `host spdk` and `host msgs`: what happens in a process of SPDK besides the commands.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::io;
use std::io::{BufWriter, Write};

use crate::host::args::HostSpdkArgs;
use crate::host::{Step, attach, lines, live};
use crate::model::target::{Call, HostEvent};
use crate::model::text::{Text, word};
use crate::run::eprint_note;
use crate::run::stdout::stdout;
use crate::settings::{ChosenTarget, HostOptions};
use crate::symbols::process::Functions;
use crate::view::json::typed_line;
use anyhow::Result;
use serde::Serialize;
use serde_json::json;

/// How often a function was passed on to other threads.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
struct MessageRow {
    /// The function of SPDK that was called.
    call: &'static str,
    /// The function that was passed on; `None` if it has no symbol.
    function: Option<Text>,
    /// Its address.
    address: u64,
    /// Number of calls.
    count: u64,
}

/// Writes a table, in the order of the rows.
fn messages_text(rows: &[MessageRow], out: &mut dyn Write) -> io::Result<()> {
    if rows.is_empty() {
        return writeln!(out, "no message was sent");
    }
    writeln!(out, "{:>10} {:<22} FUNCTION", "COUNT", "CALL")?;
    for row in rows {
        let address = || format!("{:#x}", row.address);
        let function = row.function.as_ref().map_or_else(address, |f| word(f).into_owned());
        writeln!(out, "{:>10} {:<22} {function}", row.count, row.call)?;
    }
    Ok(())
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
            Step::Event(HostEvent::Call(Call { by, function, count }), _) => {
                counts.insert((*by, *function), *count);
            }
            // a function that is unloaded later has no name
            _ => functions.look_up(counts.keys().map(|(_, function)| *function)),
        }
        Ok(true)
    })?;
    functions.look_up(counts.keys().map(|(_, function)| *function));
    let rows = counts.iter().map(|(&(call, address), &count)| MessageRow {
        call,
        function: functions.name(address).map(Into::into),
        address,
        count,
    });
    let mut rows: Vec<MessageRow> = rows.collect();
    rows.sort_by_key(|row| (row.call, Reverse(row.count), row.address));
    let sent: u64 = rows.iter().map(|row| row.count).sum();
    let lost = ended.ledger.and_then(|ledger| ledger.trace).map_or(0, |trace| trace.lost());
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
    ended.early
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_function_without_a_symbol_is_an_address() {
        let row =
            MessageRow { call: "spdk_thread_send_msg", function: None, address: 16, count: 3 };
        let mut out = Vec::new();
        messages_text(&[row], &mut out).unwrap();
        let text = String::from_utf8(out).unwrap();
        assert!(text.ends_with("         3 spdk_thread_send_msg   0x10\n"), "{text}");
    }
}
