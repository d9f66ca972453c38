// SPDX-License-Identifier: MIT OR Apache-2.0
//! `host annotate`: an SPDK trace with the commands that its entries are about.

use std::collections::BTreeMap;
use std::io;
use std::io::{BufWriter, Write};

use crate::model::target::TargetKind;
use crate::model::text::{Text, printable, word};
use crate::nvme::decode::{CommandSet, blocks};
use crate::target::HostEvent;
use crate::target::spdk_trace::{Argument, ArgumentValue, Entry, Known, Trace, label};
use crate::view::json::{ids, typed_line};
use anyhow::Result;
use serde::Serialize;
use serde_json::{Map, Value};

use crate::host::args::HostAnnotateArgs;
use crate::host::{Step, recorded};
use crate::run::eprint_note;
use crate::run::exit::usage;
use crate::run::input::read_text;
use crate::run::stdout::stdout;

/// Nanoseconds as microseconds with three digits, without rounding.
fn micros(ns: u64) -> String {
    format!("{}.{:03}", ns / 1000, ns % 1000)
}

/// A value; a pointer in hexadecimal.
fn argument(described: Option<&Argument>, value: &ArgumentValue) -> String {
    match value {
        ArgumentValue::Text(text) => word(text).into_owned(),
        ArgumentValue::Number(number) => match number.as_u64() {
            Some(n) if described.is_some_and(|a| a.kind == 1) => format!("{n:#x}"),
            _ => number.to_string(),
        },
    }
}

/// Writes an entry as a line: core, microseconds since the first entry, tracepoint, object,
/// arguments, command.
fn spdk_text(
    trace: &Trace,
    entry: &Entry,
    known: Option<&Known>,
    out: &mut dyn Write,
) -> io::Result<()> {
    let tracepoint = trace.tracepoint(entry);
    let name = tracepoint
        .map_or_else(|| format!("tpoint {}", entry.tpoint), |t| word(&t.name).into_owned());
    let mut line = format!("{:>3} {:>14} {name:<24}", entry.lcore, micros(trace.since_ns(entry)));
    if let Some(size) = entry.size {
        line += &format!(" size={size}");
    }
    if let Some(object) = &entry.object {
        let id = object.id.iter();
        id.for_each(|id| line += &format!(" id={}", word(id)));
        let time = object.time.iter();
        time.for_each(|ticks| line += &format!(" time={}", micros(trace.ns(*ticks))));
    }
    for (n, value) in entry.args.iter().enumerate() {
        let described = tracepoint.and_then(|t| t.args.get(n));
        let name = described.map_or_else(|| "arg".into(), |a| word(&a.name).into_owned());
        line += &format!(" {name}={}", argument(described, value));
    }
    if let Some(Known { id, blocks, .. }) = known {
        let opcode = id.opcode.name_or_code();
        line += &format!(" qid={} cid={} opcode={opcode}", id.qid, id.cid);
        blocks.iter().for_each(|blocks| line += &format!(" slba={}", blocks.slba));
    }
    writeln!(out, "{}", line.trim_end())
}

#[derive(Serialize)]
struct Line<'a> {
    #[serde(flatten)]
    entry: &'a Entry,
    since_ns: u64,
    name: Option<&'a Text>,
    command: Option<Map<String, Value>>,
}

/// Runs the command to its end.
///
/// # Errors
/// One sentence each, with the exit code of its kind.
pub fn run(args: &HostAnnotateArgs) -> Result<()> {
    let text = read_text(&args.trace)?;
    let trace =
        Trace::parse(&text).map_err(|e| usage(format!("{}: {e}", printable(&args.trace))))?;
    let (mut labels, mut early) = (BTreeMap::new(), Ok(()));
    if let Some(path) = &args.recording {
        let mut commands = Vec::new();
        let ended = recorded(path, &mut |step| {
            if let Step::Event(HostEvent::Nvme(event), _) = step
                && let Some((id, submission)) = event.what.id().zip(event.what.submission())
            {
                let (request, at_ns) = (submission.stack.0, event.at_ns);
                let blocks = blocks(id.opcode.queue, CommandSet::Nvm, &submission.sqe);
                commands.push(Known { request, at_ns, id: *id, blocks });
            }
            Ok(true)
        })?;
        early = ended.early;
        let without;
        (labels, without) = label(&trace, &commands);
        if labels.is_empty() && without > 0 {
            let what = match ended.target.kind {
                TargetKind::Spdk => "another run of SPDK's target, or one without ids of commands",
                TargetKind::Nvmet => "the kernel's target",
                TargetKind::Qemu => "QEMU",
            };
            return Err(usage(format!(
                "{} has none of the {without} requests of {}: it is a recording of {what}. Give one of \
                 `host trace --pid PID -o FILE` during the trace",
                printable(path),
                printable(&args.trace)
            )));
        }
        if without > 0 {
            eprint_note(&format!(
                "{without} requests of the trace have no command: their address is not in the \
                 recording, or was used another number of times there"
            ));
        }
    }
    let mut out = BufWriter::new(stdout());
    for (n, entry) in trace.entries.iter().enumerate() {
        let known = labels.get(&n);
        if args.json {
            let since_ns = trace.since_ns(entry);
            let name = trace.tracepoint(entry).map(|tracepoint| &tracepoint.name);
            let command = known.map(|known| ids(&known.id, known.blocks));
            let line = Line { entry, since_ns, name, command };
            typed_line("spdk_trace", &line, &mut out)?;
        } else {
            spdk_text(&trace, entry, known, &mut out)?;
        }
    }
    out.flush()?;
    early
}
