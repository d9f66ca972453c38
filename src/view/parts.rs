// SPDX-License-Identifier: MIT OR Apache-2.0
//! What `host` and `join` print alike: the table of the parts, as text and as JSON, and the ids of a
//! command in JSON.

use std::io;
use std::io::Write;

use serde::Serialize;
use serde_json::{Map, Value, json};

use super::header::WIDTH;
use super::json::{Dist, dist, typed_line};
use super::table::Table;
use super::text::times;
use super::theme::Theme;
use crate::model::event::CommandId;
use crate::model::report::parts::{PartKey, PartRows, PartTimes};
use crate::model::text::Text;
use crate::nvme::decode::Blocks;
use crate::nvme::subject::{fctype, namespace};
use crate::units::{counted, nanos, percent};

/// A signed time.
pub fn signed(ns: f64) -> String {
    if ns < 0.0 { format!("-{}", nanos(-ns)) } else { nanos(ns) }
}

/// The ids of a command, and its blocks if it has some.
pub fn ids(id: &CommandId, blocks: Option<Blocks>) -> Map<String, Value> {
    let CommandId { qid, cid, nsid, opcode, .. } = *id;
    let all = [
        ("qid", Some(qid.into())),
        ("cid", Some(cid.into())),
        ("nsid", namespace(opcode, nsid).map(Value::from)),
        ("queue", Some(opcode.queue.name().into())),
        ("opcode", Some(opcode.name_or_code().into())),
        ("opcode_value", Some(opcode.code.into())),
        ("fctype", fctype(opcode, nsid).map(Value::from)),
        ("slba", blocks.map(|blocks| blocks.slba.into())),
        ("nlb", blocks.map(|blocks| blocks.nlb.into())),
    ];
    all.into_iter().filter_map(|(key, value)| Some((key.to_owned(), value?))).collect()
}

/// Writes a table with a title per row. `subject`: what the commands of a row are. `marks`: a part to which the
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
    let mut table = Table::default();
    for (key, row) in rows {
        let unmeasured = match row.unmeasured {
            0 => String::new(),
            n => format!("  unmeasured {n}"),
        };
        table.title(format!("{}  {}{unmeasured}", subject(key), counted(row.count, "cmd")));
        let mut line = |name: &str, part: &PartTimes| {
            let (count, sum_ns) = (part.times.count(), part.sum_ns as f64);
            let mark = if part.by_clock && marks { " *" } else { "" };
            let share = sum_ns / (row.total.sum_ns as f64).max(1.0);
            let mut cells = vec![
                ("<PART", format!("  {name}{mark}")),
                ("N", count.to_string()),
                ("SHARE", percent(share)),
            ];
            cells.extend(times(&part.times, false, false));
            if sum_ns < 0.0 {
                cells[3].1 = signed(sum_ns / count as f64);
            }
            table.row(cells);
        };
        row.parts.iter().for_each(|part| line(&part.name, part));
        line("total", &row.total);
    }
    table.write(theme, WIDTH, out)?;
    if rows.is_empty() { Ok(()) } else { writeln!(out) }
}

#[derive(Serialize)]
struct PartLine<'a> {
    name: &'a str,
    uncertain: bool,
    exact_sum_ns: i64,
    #[serde(flatten)]
    dist: Dist,
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
        let parts = row.parts.iter().map(|part| PartLine {
            name: &part.name,
            uncertain: part.by_clock,
            exact_sum_ns: i64::try_from(part.sum_ns).unwrap_or(i64::MAX),
            dist: dist(&part.times, false),
        });
        let line = json!({
            "ctrl": name_of(*ctrl),
            "nsid": namespace(*opcode, *cdw1),
            "queue": opcode.queue.name(),
            "opcode": opcode.name_or_code(),
            "opcode_value": opcode.code,
            "fctype": fctype(*opcode, *cdw1),
            "count": row.count,
            "unmeasured": row.unmeasured,
            "parts": parts.collect::<Vec<_>>(),
            "total": dist(&row.total.times, false),
        });
        typed_line(kind, &line, out)?;
    }
    Ok(())
}
