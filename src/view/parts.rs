// SPDX-License-Identifier: MIT OR Apache-2.0
//! What `host` and `join` print alike: the table of the parts, as text and as JSON, and the ids of a
//! command in JSON.

use std::io;
use std::io::Write;

use serde::Serialize;
use serde_json::{Map, Value};

use super::json::{Dist, dist, typed_line};
use super::theme::Theme;
use crate::model::report::parts::{PartKey, PartRows, PartTimes};
use crate::model::target::HostCommand;
use crate::model::text::Text;
use crate::nvme::subject::{fctype, namespace};
use crate::units::{counted, nanos};

/// Width of the column of names.
const NAME: usize = 26;

/// A signed time.
pub fn signed(ns: f64) -> String {
    if ns < 0.0 { format!("-{}", nanos(-ns)) } else { nanos(ns) }
}

/// A name that fits the column: the first and the last part of a long one.
fn short(name: &str) -> String {
    match (name.split_once('+'), name.rsplit_once('+')) {
        (Some((first, _)), Some((_, last))) if name.len() >= NAME => format!("{first}..{last}"),
        _ => name.to_owned(),
    }
}

fn line(name: &str, part: &PartTimes, total: i128, out: &mut dyn Write) -> io::Result<()> {
    let PartTimes { times, sum_ns, .. } = part;
    let count = times.count();
    let share = 100.0 * *sum_ns as f64 / (total as f64).max(1.0);
    let mean = (count > 0).then(|| signed(*sum_ns as f64 / count as f64));
    let time = |ns: Option<u64>| ns.map_or_else(|| "-".into(), |ns| nanos(ns as f64));
    write!(out, "  {name:<NAME$}{count:>7}{share:>6.1}%{:>8}", mean.unwrap_or("-".into()))?;
    for p in [50.0, 99.0] {
        write!(out, "{:>8}", time(times.percentile(p)))?;
    }
    writeln!(out, "{:>8}", time(times.max()))
}

/// The ids of a command that are known.
pub fn ids(id: &HostCommand) -> Map<String, Value> {
    let opcode = id.opcode();
    let all = [
        ("qid", id.qid.map(Value::from)),
        ("cid", id.cid.map(Value::from)),
        ("nsid", id.namespace().map(Value::from)),
        ("queue", opcode.map(|opcode| opcode.queue.name().into())),
        ("opcode", opcode.map(|opcode| opcode.name_or_code().into())),
        ("opcode_value", id.code.map(Value::from)),
        (
            "fctype",
            opcode.zip(id.nsid).and_then(|(opcode, cdw1)| Some(fctype(opcode, cdw1)?.into())),
        ),
        ("slba", id.slba.map(Value::from)),
        ("nlb", id.nlb.map(Value::from)),
    ];
    all.into_iter().filter_map(|(key, value)| Some((key.to_owned(), value?))).collect()
}

/// Writes a table per row. `subject`: what the commands of a row are. `marks`: a part to which the
/// clock's error applies has a `*`.
///
/// # Errors
/// Errors of the writer.
pub fn parts_text(
    rows: &PartRows,
    subject: &dyn Fn(&PartKey) -> String,
    marks: bool,
    theme: Theme,
    out: &mut dyn Write,
) -> io::Result<()> {
    for (key, row) in rows {
        let unmeasured = match row.unmeasured {
            0 => String::new(),
            n => format!("  unmeasured {n}"),
        };
        let count = counted(row.count, "cmd");
        writeln!(out, "{}  {count}{unmeasured}", theme.head(&subject(key)))?;
        let columns = format!(
            "  {:<NAME$}{:>7}{:>7}{:>8}{:>8}{:>8}{:>8}",
            "part", "n", "share", "mean", "p50", "p99", "max"
        );
        writeln!(out, "{}", theme.dim(&columns))?;
        for part in &row.parts {
            let mark = if part.by_clock && marks { " *" } else { "" };
            line(&(short(&part.name) + mark), part, row.total.sum_ns, out)?;
        }
        line("total", &row.total, row.total.sum_ns, out)?;
        writeln!(out)?;
    }
    Ok(())
}

#[derive(Serialize)]
struct PartLine<'a> {
    name: &'a str,
    uncertain: bool,
    exact_sum_ns: i64,
    #[serde(flatten)]
    dist: Dist,
}

#[derive(Serialize)]
struct RowLine<'a> {
    ctrl: Text,
    nsid: Option<u32>,
    queue: Option<&'static str>,
    opcode: Option<String>,
    opcode_value: Option<u8>,
    #[serde(skip_serializing_if = "Option::is_none")]
    fctype: Option<String>,
    count: u64,
    unmeasured: u64,
    parts: Vec<PartLine<'a>>,
    total: Dist,
}

fn part_line(part: &PartTimes) -> PartLine<'_> {
    PartLine {
        name: &part.name,
        uncertain: part.by_clock,
        exact_sum_ns: i64::try_from(part.sum_ns).unwrap_or(i64::MAX),
        dist: dist(&part.times, false),
    }
}

/// Writes an object of this type per row. `name_of`: names of controllers.
///
/// # Errors
/// Errors of the writer.
pub fn parts_json(
    kind: &'static str,
    rows: &PartRows,
    name_of: &dyn Fn(u32) -> Text,
    out: &mut dyn Write,
) -> io::Result<()> {
    for ((ctrl, cdw1, opcode), row) in rows {
        let ids = opcode.zip(*cdw1);
        let line = RowLine {
            ctrl: name_of(*ctrl),
            nsid: ids.and_then(|(opcode, cdw1)| namespace(opcode, cdw1)),
            queue: opcode.map(|o| o.queue.name()),
            opcode: opcode.map(|o| o.name_or_code()),
            opcode_value: opcode.map(|o| o.code),
            fctype: ids.and_then(|(opcode, cdw1)| fctype(opcode, cdw1)),
            count: row.count,
            unmeasured: row.unmeasured,
            parts: row.parts.iter().map(part_line).collect(),
            total: dist(&row.total.times, false),
        };
        typed_line(kind, &line, out)?;
    }
    Ok(())
}
