// SPDX-License-Identifier: MIT OR Apache-2.0
//! Entries of spdk_trace as text and as JSON, with the commands that they are about.

use std::io;
use std::io::Write;

use serde::Serialize;
use serde_json::{Map, Value};

use crate::model::machine::HostCommand;
use crate::model::text::{Text, word};
use crate::target::spdk_trace::{Argument, ArgumentValue, Entry, Trace};
use crate::view::json::typed_line;
use crate::view::parts::ids;

/// Nanoseconds as microseconds with three digits, without rounding.
fn micros(ns: u64) -> String {
    format!("{}.{:03}", ns / 1000, ns % 1000)
}

/// A value; a pointer in hexadecimal.
fn value(argument: Option<&Argument>, value: &ArgumentValue) -> String {
    match value {
        ArgumentValue::Text(text) => word(text).into_owned(),
        ArgumentValue::Number(number) => match number.as_u64() {
            Some(n) if argument.is_some_and(|a| a.kind == 1) => format!("{n:#x}"),
            _ => number.to_string(),
        },
    }
}

/// Writes an entry as a line: core, microseconds since the first entry, tracepoint, object,
/// arguments, command.
///
/// # Errors
/// Errors of the writer.
pub fn spdk_text(
    trace: &Trace,
    entry: &Entry,
    id: Option<&HostCommand>,
    out: &mut dyn Write,
) -> io::Result<()> {
    let first = trace.entries.first().map_or(0, |first| first.tsc);
    let since = trace.ns(entry.tsc - first);
    let tracepoint = trace.tracepoint(entry);
    let name = tracepoint
        .map_or_else(|| format!("tpoint {}", entry.tpoint), |t| word(&t.name).into_owned());
    let mut line = format!("{:>3} {:>14} {name:<24}", entry.lcore, micros(since));
    if let Some(size) = entry.size {
        line += &format!(" size={size}");
    }
    if let Some(object) = &entry.object {
        let id = object.id.iter();
        id.for_each(|id| line += &format!(" id={}", word(id)));
        let time = object.time.iter();
        time.for_each(|ticks| line += &format!(" time={}", micros(trace.ns(*ticks))));
    }
    for (n, argument) in entry.args.iter().enumerate() {
        let described = tracepoint.and_then(|t| t.args.get(n));
        let name = described.map_or_else(|| "arg".into(), |a| word(&a.name).into_owned());
        line += &format!(" {name}={}", value(described, argument));
    }
    if let Some(id) = id {
        let numbers = [("qid", id.qid), ("cid", id.cid)].into_iter();
        let known = numbers.filter_map(|(key, value)| Some((key, value?)));
        known.for_each(|(key, value)| line += &format!(" {key}={value}"));
        id.opcode().iter().for_each(|o| line += &format!(" opcode={}", o.name_or_code()));
        let slba = id.slba.iter();
        slba.for_each(|slba| line += &format!(" slba={slba}"));
    }
    writeln!(out, "{}", line.trim_end())
}

#[derive(Serialize)]
struct EntryLine<'a> {
    tsc: u64,
    since_ns: u64,
    lcore: u64,
    tpoint: u64,
    name: Option<&'a Text>,
    size: Option<u64>,
    object: Option<u64>,
    object_id: Option<&'a Text>,
    args: &'a [ArgumentValue],
    command: Option<Map<String, Value>>,
}

/// Writes an entry as an object.
///
/// # Errors
/// Errors of the writer.
pub fn spdk_json(
    trace: &Trace,
    entry: &Entry,
    id: Option<&HostCommand>,
    out: &mut dyn Write,
) -> io::Result<()> {
    let first = trace.entries.first().map_or(0, |first| first.tsc);
    let object = entry.object.as_ref();
    let line = EntryLine {
        tsc: entry.tsc,
        since_ns: trace.ns(entry.tsc - first),
        lcore: entry.lcore,
        tpoint: entry.tpoint,
        name: trace.tracepoint(entry).map(|t| &t.name),
        size: entry.size,
        object: object.and_then(|o| o.value),
        object_id: object.and_then(|o| o.id.as_ref()),
        args: &entry.args,
        command: id.map(ids),
    };
    typed_line("spdk_trace", &line, out)
}
