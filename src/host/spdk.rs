// SPDX-License-Identifier: MIT OR Apache-2.0
//! `host spdk` and `host msgs`: what happens in a process of SPDK besides the commands.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::io;
use std::io::{BufWriter, Write};

use crate::machine::System;
use crate::model::target::{Call, HostController, TargetInfo};
use crate::model::text::{Text, word};
use crate::run::start::{self, prepare, state_changes};
use crate::symbols::process::Functions;
use crate::target::spdk::{StateChange, Value};
use crate::view::json::typed_line;
use anyhow::Result;
use serde::Serialize;
use serde_json::{Map, Value as Json, json};

use super::{Lines, Taker, live};
use crate::host::args::HostSpdkArgs;
use crate::run::eprint_note;
use crate::run::stdout::stdout;

fn shown(value: &Value) -> String {
    match value {
        // a host that connects chooses its name
        Value::Text(text) => word(text).into_owned(),
        Value::Number(number) | Value::Named(number, None) => number.to_string(),
        Value::Result(result) => result.to_string(),
        Value::Address(address) => format!("{address:#x}"),
        Value::Named(_, Some(name)) => (*name).into(),
    }
}

/// Writes a change as a line.
fn state_text(change: &StateChange, out: &mut dyn Write) -> io::Result<()> {
    let fields = change.fields.iter();
    let fields: Vec<String> =
        fields.map(|(name, value)| format!("{name}={}", shown(value))).collect();
    let fields = fields.join(", ");
    writeln!(out, "{} - State {}: {fields}", change.at_ns, change.probe)
}

/// Writes a change as an object.
fn state_json(change: &StateChange, out: &mut dyn Write) -> io::Result<()> {
    let field = |(name, value): &(&str, Value)| {
        let value = match value {
            Value::Text(text) => json!(text),
            Value::Number(number) | Value::Address(number) => json!(number),
            Value::Result(result) => json!(result),
            Value::Named(number, name) => json!({ "value": number, "name": name }),
        };
        ((*name).to_owned(), value)
    };
    let fields: Map<String, Json> = change.fields.iter().map(field).collect();
    let line = json!({ "time_ns": change.at_ns, "probe": change.probe, "fields": fields });
    typed_line("spdk_state", &line, out)
}

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

impl Taker<StateChange> for Lines {
    fn event(&mut self, change: &StateChange, _controllers: &[HostController]) -> Result<()> {
        match self.json {
            true => state_json(change, &mut self.out)?,
            false => state_text(change, &mut self.out)?,
        }
        Ok(())
    }

    fn pause(&mut self) -> Result<bool> {
        self.out.flush()?;
        Ok(true)
    }
}

/// Runs `host spdk`.
///
/// # Errors
/// One sentence each, with the exit code of its kind.
pub fn states(args: &HostSpdkArgs) -> Result<()> {
    prepare(None)?;
    let (changes, probes) = state_changes(&System::at("/"), args.pid)?;
    eprint_note(&format!("tracing {} by {probes} USDT probes", who(changes.target())));
    let mut lines = Lines::new(args.json);
    let ended = live(changes, args.duration, &mut lines)?;
    let ledger = ended.ledger.unwrap_or_default();
    let (hits, lost): (u64, u64) = (ledger.hits.values().sum(), ledger.lost);
    if args.json {
        let line = json!({ "exact": lost == 0, "changes": hits, "lost": lost });
        typed_line("spdk_end", &line, &mut lines.out)?;
    } else {
        verdict(hits, "changes of state", lost);
    }
    lines.out.flush()?;
    ended.early
}

/// The messages so far: the function of SPDK, the function that was passed on, and how often.
struct Calls {
    functions: Functions,
    counts: BTreeMap<(&'static str, u64), u64>,
}

impl Taker<Call> for Calls {
    fn event(&mut self, call: &Call, _controllers: &[HostController]) -> Result<()> {
        self.counts.insert((call.by, call.function), call.count);
        Ok(())
    }

    fn pause(&mut self) -> Result<bool> {
        self.functions.look_up(self.counts.keys().map(|(_, function)| *function));
        Ok(true)
    }
}

/// Runs `host msgs`.
///
/// # Errors
/// One sentence each, with the exit code of its kind.
pub fn messages(args: &HostSpdkArgs) -> Result<()> {
    prepare(None)?;
    let source = start::messages(&System::at("/"), args.pid)?;
    eprint_note(&format!("tracing the messages of {}", who(source.target())));
    let mut calls = Calls { functions: Functions::of(args.pid), counts: BTreeMap::new() };
    let ended = live(source, args.duration, &mut calls)?;
    calls.pause()?;
    let rows = calls.counts.iter().map(|(&(call, address), &count)| MessageRow {
        call,
        function: calls.functions.name(address).map(Into::into),
        address,
        count,
    });
    let mut rows: Vec<MessageRow> = rows.collect();
    rows.sort_by_key(|row| (row.call, Reverse(row.count), row.address));
    let sent: u64 = rows.iter().map(|row| row.count).sum();
    let lost = ended.ledger.unwrap_or_default().lost;
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
    fn a_change_is_a_line() {
        let change = StateChange {
            at_ns: 7,
            probe: "nvmf_subsystem_change_state",
            fields: vec![
                ("nqn", Value::Text("nqn.a\u{1b}".into())),
                ("to", Value::Named(1, Some("ACTIVATING"))),
                ("from", Value::Named(9, None)),
                ("status", Value::Result(-5)),
                ("qpair", Value::Address(255)),
            ],
        };
        let text = |write: &dyn Fn(&mut dyn Write) -> io::Result<()>| {
            let mut out = Vec::new();
            write(&mut out).unwrap();
            String::from_utf8(out).unwrap()
        };
        assert_eq!(
            text(&|out| state_text(&change, out)),
            "7 - State nvmf_subsystem_change_state: nqn=nqn.a\\u{1b}, to=ACTIVATING, from=9, status=-5, \
             qpair=0xff\n"
        );
        let line: Json = serde_json::from_str(&text(&|out| state_json(&change, out))).unwrap();
        assert_eq!(line["fields"]["to"]["name"], "ACTIVATING");
        assert_eq!(line["fields"]["from"], json!({ "value": 9, "name": null }));
        assert_eq!(line["fields"]["status"], -5);
    }

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
