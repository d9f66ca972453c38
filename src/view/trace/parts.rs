// SPDX-License-Identifier: MIT OR Apache-2.0
//! Values of fields that are more than a number or a name, in each form.

use super::Form;
use super::fields::Row;
use super::line::LineWriter;
use crate::model::event::EventKind;
use crate::model::point::Point;
use crate::model::stage::StageSet;
use crate::model::timeline::Timeline;
use crate::nvme::decode;
use crate::nvme::decode::Field;
use crate::nvme::status::{Status, StatusType};

pub(super) fn ctrl(row: &Row<'_>, line: &mut LineWriter) {
    let ctrl = row.event.what.ctrl();
    if row.is_of_target() {
        match row.form {
            Form::Json => line.json(row.cx.disk),
            _ => line.name(row.cx.disk),
        }
    } else if row.form == Form::Json {
        line.str("\"nvme");
        line.dec(ctrl);
        line.byte(b'"');
    } else {
        line.str("nvme");
        line.dec(ctrl);
    }
}

/// The opcode by its name: `2 (read)`, `"read"`, `read`.
pub(super) fn opcode(row: &Row<'_>, line: &mut LineWriter) {
    match row.form {
        Form::Columns => row.opcode(line),
        Form::Json => {
            line.byte(b'"');
            row.opcode(line);
            line.byte(b'"');
        }
        Form::Long => {
            line.dec(row.id.map_or(0, |id| id.opcode.code));
            line.str(" (");
            row.opcode(line);
            line.byte(b')');
        }
    }
}

/// Who submitted the bio if that was observed, otherwise who called the driver: `fio[366]`.
pub(super) fn process(row: &Row<'_>, line: &mut LineWriter) {
    let submitter = row.submitter().filter(|by| by.is_known());
    let of_caller = || row.caller().map(|caller| (&caller.comm, caller.pid));
    if let Some((comm, pid)) = submitter.map(|by| (&by.comm, by.pid)).or_else(of_caller) {
        line.comm(comm, "", |line, name| line.str(if name.is_empty() { "redacted" } else { name }));
        line.byte(b'[');
        line.dec(pid);
        line.byte(b']');
    }
}

/// Members of an object: `"key":value,...,`.
fn members(fields: impl Iterator<Item = Field>, line: &mut LineWriter) {
    for field in fields {
        line.byte(b'"');
        line.str(field.key);
        line.str("\":");
        line.json_value(field.value);
        line.byte(b',');
    }
}

/// Fields of a long line: `, key=value, ...`.
fn pairs(fields: impl Iterator<Item = Field>, line: &mut LineWriter) {
    for field in fields {
        line.str(", ");
        line.str(field.key);
        line.byte(b'=');
        line.value(field.value);
    }
}

/// The fields of the command. A long line leaves out details that are zero, and has the bytes that are
/// transferred.
pub(super) fn fields(row: &Row<'_>, line: &mut LineWriter) {
    let Some((id, submission)) = row.id.zip(row.submission) else {
        return;
    };
    let (queue, set, sqe) = (id.opcode.queue, row.cx.set, &submission.sqe);
    let blocks = decode::blocks(queue, set, sqe);
    let key = || (sqe.opcode(), set, [12, 13, 14, 15].map(|n| sqe.cdw(n)));
    if row.form == Form::Json {
        line.byte(b'{');
        let fields = decode::fields(queue, set, sqe);
        match blocks {
            Some(blocks) => {
                line.str("\"slba\":");
                line.dec(blocks.slba);
                line.byte(b',');
                line.repeat(key(), |line| members(fields.skip(1), line));
            }
            None => members(fields, line),
        }
        return line.close(b'}');
    }
    let mut asked = None;
    let fields = decode::shown_fields(queue, set, sqe).inspect(|field| {
        if field.key == "bytes" {
            asked = Some(field.value.number());
        }
    });
    match blocks {
        Some(blocks) => {
            line.str(", slba=");
            line.dec(blocks.slba);
            line.repeat(key(), |line| pairs(fields.skip(1), line));
        }
        None => pairs(fields, line),
    }
    let bytes = submission.bytes.filter(|&bytes| bytes != 0);
    if let Some(bytes) = bytes.filter(|&bytes| asked != Some(bytes.into())) {
        // the command may ask for another number of bytes
        line.str(if asked.is_some() { ", transfer=" } else { ", bytes=" });
        line.dec(bytes);
    }
}

/// The `type` of a status in JSON.
const fn status_type(kind: StatusType) -> &'static str {
    match kind {
        StatusType::Generic => "generic",
        StatusType::CommandSpecific => "command_specific",
        StatusType::Media => "media",
        StatusType::Path => "path",
        StatusType::Vendor => "vendor",
        StatusType::Reserved(_) => "reserved",
    }
}

/// What nearly all commands have.
const SUCCESS: &str =
    r#"{"value":0,"type":"generic","code":0,"name":"Success","dnr":false,"more":false,"crd":0}"#;

/// The status in full: `0x281 (Media/Unrecovered Read Error)`, or an object.
pub(super) fn status(row: &Row<'_>, line: &mut LineWriter) {
    let verdict = row.outcome.and_then(|outcome| outcome.verdict);
    let Some((id, Status(value))) = row.id.zip(verdict.map(|verdict| verdict.status)) else {
        return;
    };
    let status = Status(value);
    let name = match value {
        0 => Some("Success"),
        _ => status.name_for(id.opcode),
    };
    match row.form {
        Form::Long if value == 0 => line.str("0x0 (Success)"),
        Form::Columns if value == 0 => line.str("-"),
        Form::Json if value == 0 => line.str(SUCCESS),
        Form::Long | Form::Columns => line.str(&in_words(status, name)),
        Form::Json => {
            line.str("{\"value\":");
            line.dec(value);
            line.str(",\"type\":\"");
            line.str(status_type(status.kind()));
            line.str("\",\"code\":");
            line.dec(status.code());
            line.str(",\"name\":");
            match name {
                Some(name) => line.json(name),
                None => line.str("null"),
            }
            line.str(",\"dnr\":");
            line.bool(status.do_not_retry());
            line.str(",\"more\":");
            line.bool(status.more());
            line.str(",\"crd\":");
            line.dec(status.retry_delay());
            line.byte(b'}');
        }
    }
}

/// `0x281 (Media/Unrecovered Read Error)`.
fn in_words(status: Status, name: Option<&str>) -> String {
    let kind = match status.kind() {
        _ if status.is_success() => String::new(),
        StatusType::Generic => "Generic/".into(),
        StatusType::CommandSpecific => "Command Specific/".into(),
        StatusType::Media => "Media/".into(),
        StatusType::Path => "Path/".into(),
        StatusType::Vendor => "Vendor Specific/".into(),
        StatusType::Reserved(code) => format!("Type {code:#x}/"),
    };
    let delay = match status.retry_delay() {
        0 => String::new(),
        n => format!(" CRD{n}"),
    };
    let more = if status.more() { " MORE" } else { "" };
    let dnr = if status.do_not_retry() { " DNR" } else { "" };
    format!("{:#x} ({kind}{}{delay}{more}{dnr})", status.0, name.unwrap_or("Unknown"))
}

/// The failure of a command, if it has failed: `0x281 (Media/Unrecovered Read Error), attempt 1`.
pub(super) fn failure(row: &Row<'_>) -> Option<String> {
    let verdict = row.outcome?.verdict.filter(|verdict| !verdict.status.is_success())?;
    let name = verdict.status.name_for(row.id?.opcode);
    let attempt = u16::from(verdict.retries) + 1;
    Some(format!("{}, attempt {attempt}", in_words(verdict.status, name)))
}

/// The times of the observed points.
pub(super) fn points(row: &Row<'_>, line: &mut LineWriter) {
    let begin = line.len();
    for (point, key) in row.points {
        let ns = row.timeline.map_or(0, |times| times.ns(*point));
        if ns != 0 {
            line.str(key);
            line.dec(ns);
        }
    }
    line.open(begin, b'{');
    line.byte(b'}');
}

/// The stages, in order.
pub(super) fn stages(row: &Row<'_>, line: &mut LineWriter) {
    if row.form == Form::Json {
        line.byte(b'[');
        for (n, part) in row.stages.iter().enumerate() {
            // the first closes no object
            line.str(if n == 0 { &part.key[2..] } else { &part.key });
            line.dec(part.ns);
        }
        return line.str(if row.stages.is_empty() { "]" } else { "}]" });
    }
    for part in row.stages {
        line.str(&part.key);
        line.nanos(part.ns);
        if part.name == "before"
            && let Some(wait) = row.timeline.and_then(|times| main_wait(times, part.ns))
        {
            line.str(" (");
            line.str(wait);
            line.byte(b')');
        }
    }
}

/// The wait that makes up at least half of the time before the request.
fn main_wait(times: &Timeline, before_ns: u64) -> Option<&'static str> {
    let stages = StageSet::Full.stages();
    let mut waits = stages.iter().zip(&stages[1..]).take(StageSet::Full.before());
    let (wait, _) = waits.find(|(wait, next)| {
        let ends = times.at(wait.from).zip(times.at(next.from));
        let ns = ends.map_or(0, |(from, to)| to.saturating_sub(from));
        // `block` is the time in which no wait was measured
        ns > 0 && ns >= before_ns / 2 && wait.from != Point::Bio
    })?;
    Some(wait.name)
}

pub(super) fn async_event(row: &Row<'_>, line: &mut LineWriter) {
    if let EventKind::AsyncEvent { event, .. } = row.event.what {
        let [_, parts @ ..] = event.fields();
        let parts = parts.into_iter();
        match row.form {
            Form::Json => {
                line.byte(b'{');
                members(parts, line);
                line.close(b'}');
            }
            Form::Long | Form::Columns => pairs(parts, line),
        }
    }
}

/// The state of a controller: `resetting (asked)`.
pub(super) fn state(row: &Row<'_>, line: &mut LineWriter) {
    let EventKind::State { state, requested, .. } = row.event.what else {
        return;
    };
    if row.form != Form::Json {
        line.byte(b' ');
    }
    match (state.name(), row.form) {
        (Some(name), Form::Json) => line.json(name),
        (None, Form::Json) => line.str("null"),
        (Some(name), _) => line.str(name),
        (None, _) => line.str(&format!("unknown ({})", state.0)),
    }
    if row.form == Form::Json {
        line.str(",\"state_value\":");
        line.dec(state.0);
        line.str(",\"asked\":");
        line.bool(requested);
    } else if requested {
        line.str(" (asked)");
    }
}
