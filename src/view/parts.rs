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
use crate::model::histogram::Histogram;
use crate::model::report::parts::{PartKey, PartRows};
use crate::model::text::Text;
use crate::nvme::decode::Blocks;
use crate::nvme::subject::{fctype, namespace};
use crate::units::{counted, percent};

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
        let mut line = |name: &str, mark: &str, h: &Histogram| {
            let share = h.sum() as f64 / (row.total.sum() as f64).max(1.0);
            let name = format!("  {name}{mark}");
            let mut cells =
                vec![("<PART", name), ("N", h.count().to_string()), ("SHARE", percent(share))];
            cells.extend(times(h, false, false));
            table.row(cells);
        };
        for (name, by_clock, h) in &row.parts {
            line(name, if *by_clock && marks { " *" } else { "" }, h);
        }
        line("total", "", &row.total);
    }
    table.write(theme, WIDTH, out)?;
    if rows.is_empty() { Ok(()) } else { writeln!(out) }
}

#[derive(Serialize)]
struct PartLine<'a> {
    name: &'a str,
    uncertain: bool,
    #[serde(flatten)]
    dist: Dist,
}

/// Writes an object of this type per row. `name_of`: names of controllers.
///
/// # Errors
/// Errors of the writer.
pub fn parts_json<'a>(
    kind: &'static str,
    rows: &'a PartRows,
    name_of: &dyn Fn(u32) -> Text,
    out: &mut dyn Write,
) -> io::Result<()> {
    for ((ctrl, cdw1, opcode), row) in rows {
        let part = |(name, by_clock, h): &'a (String, bool, Histogram)| PartLine {
            name,
            uncertain: *by_clock,
            dist: dist(h, false),
        };
        let line = json!({
            "ctrl": name_of(*ctrl),
            "nsid": namespace(*opcode, *cdw1),
            "queue": opcode.queue.name(),
            "opcode": opcode.name_or_code(),
            "opcode_value": opcode.code,
            "fctype": fctype(*opcode, *cdw1),
            "count": row.count,
            "unmeasured": row.unmeasured,
            "parts": row.parts.iter().map(part).collect::<Vec<_>>(),
            "total": dist(&row.total, false),
        });
        typed_line(kind, &line, out)?;
    }
    Ok(())
}
