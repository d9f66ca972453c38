// SPDX-License-Identifier: MIT OR Apache-2.0
//! Events of the host side and the ledger, as text in the form of `trace` and as JSON
//! (docs/reference/json.md).

use std::io;
use std::io::Write;

use serde_json::{Map, Value, json};

use crate::model::ledger::{Accuracy, HostLedger};
use crate::model::target::{
    FieldValue, HostCommand, HostController, HostEvent, StateChange, TargetInfo,
};
use crate::model::text::word;
use crate::nvme::subject::Nsid;
use crate::units::{counted, nanos};
use crate::view::header::entry_at;
use crate::view::json::typed_line;
use crate::view::parts::ids;
use crate::view::trace::status_type;

/// The keys and values of a command.
fn fields(command: &HostCommand) -> String {
    let mut parts = Vec::new();
    parts.extend(command.qid.map(|qid| format!("qid={qid}")));
    parts.extend(command.cid.map(|cid| format!("cid={cid}")));
    parts.extend(command.namespace().map(|nsid| format!("nsid={}", Nsid(nsid))));
    let opcode = command.opcode();
    if let Some((code, name)) = command.code.zip(command.name()) {
        parts.push(format!("opcode={code} ({name})"));
    }
    parts.extend(command.slba.map(|slba| format!("slba={slba}")));
    parts.extend(command.nlb.map(|nlb| format!("nlb={nlb}")));
    parts.extend(command.request.map(|at| format!("request={at:#x}")));
    parts.extend(command.status.map(|status| {
        let name = opcode.and_then(|opcode| status.name_for(opcode));
        let name = name.map_or_else(String::new, |name| format!(" ({name})"));
        format!("status={:#x}{name}", status.0)
    }));
    let stages = command.times.stages().unwrap_or_default();
    for stage in &stages {
        parts.push(format!("{}={}", stage.name, nanos(stage.ns as f64)));
    }
    if !stages.is_empty() {
        let total: i64 = stages.iter().map(|s| s.ns).sum();
        parts.push(format!("total={}", nanos(total as f64)));
    }
    parts.join(", ")
}

fn shown(value: &FieldValue) -> String {
    match value {
        // a host that connects chooses its name
        FieldValue::Text(text) => word(text).into_owned(),
        FieldValue::Number(value) | FieldValue::Named { value, name: None } => value.to_string(),
        FieldValue::Result(result) => result.to_string(),
        FieldValue::Address(address) => format!("{address:#x}"),
        FieldValue::Named { name: Some(name), .. } => (*name).into(),
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
    let field = |(name, value): &(&str, FieldValue)| ((*name).to_owned(), json!(value));
    let fields: Map<String, Value> = change.fields.iter().map(field).collect();
    let line = json!({ "time_ns": change.at_ns, "probe": change.probe, "fields": fields });
    typed_line("spdk_state", &line, out)
}

/// Writes an event as a line. `name` is its controller's.
///
/// # Errors
/// Errors of the writer.
pub fn event_text(event: &HostEvent, name: &str, out: &mut dyn Write) -> io::Result<()> {
    let (kind, rest) = match event {
        HostEvent::Command(command) => ("Command", fields(command)),
        HostEvent::Unfinished(command) => ("Unfinished", fields(command)),
        HostEvent::Interrupt { vector, .. } => ("Interrupt", format!("vector={vector}")),
        HostEvent::State(change) => return state_text(change, out),
        HostEvent::Call(_) => return Ok(()),
    };
    writeln!(out, "{} - {kind} {}: {rest}", event.at_ns(), word(name))
}

fn status(command: &HostCommand) -> Option<Value> {
    let status = command.status?;
    Some(json!({
        "value": status.0,
        "type": status_type(status.kind()),
        "code": status.code(),
        "name": command.opcode().and_then(|opcode| status.name_for(opcode)),
        "dnr": status.do_not_retry(),
        "more": status.more(),
        "crd": status.retry_delay(),
    }))
}

/// A command, finished or not.
fn command(command: &HostCommand, ctrl: &str) -> Map<String, Value> {
    let stages = command.times.stages();
    let total = stages.as_ref().filter(|stages| !stages.is_empty());
    let points = command.times.seen().map(|(point, ns)| (point.name().to_owned(), ns.into()));
    let mut line = ids(command);
    line.extend(command.request.map(|at| ("request".to_owned(), at.into())));
    let more = [
        ("time_ns", json!(HostEvent::Command(*command).at_ns())),
        ("ctrl", json!(ctrl)),
        ("status", json!(status(command))),
        ("points_ns", Value::Object(points.collect())),
        ("total_ns", json!(total.map(|stages| stages.iter().map(|s| s.ns).sum::<i64>()))),
        ("stages", json!(stages)),
    ];
    line.extend(more.map(|(key, value)| (key.to_owned(), value)));
    line
}

/// Writes an event. `name` is its controller's.
///
/// # Errors
/// Errors of the writer.
pub fn event_json(event: &HostEvent, name: &str, out: &mut dyn Write) -> io::Result<()> {
    match event {
        HostEvent::Command(c) => typed_line("host_command", &command(c, name), out),
        HostEvent::Unfinished(c) => typed_line("host_unfinished", &command(c, name), out),
        HostEvent::Interrupt { vector, at_ns, .. } => {
            let line = json!({ "time_ns": at_ns, "ctrl": name, "vector": vector });
            typed_line("host_interrupt", &line, out)
        }
        HostEvent::State(change) => state_json(change, out),
        HostEvent::Call(_) => Ok(()),
    }
}

/// Writes the target and its controllers.
///
/// # Errors
/// Errors of the writer.
pub fn target_json(
    target: &TargetInfo,
    controllers: &[HostController],
    out: &mut dyn Write,
) -> io::Result<()> {
    typed_line("host_target", &json!({ "target": target, "controllers": controllers }), out)
}

/// Writes the ledger: the last object.
///
/// # Errors
/// Errors of the writer.
pub fn end_json(ledger: &HostLedger, out: &mut dyn Write) -> io::Result<()> {
    typed_line("host_end", &json!({ "exact": ledger.is_exact(), "ledger": ledger }), out)
}

/// Column of the text of an entry.
const INDENT: usize = 10;

fn entry(label: &str, text: &str, out: &mut dyn Write) -> io::Result<()> {
    entry_at(INDENT, label, text, out)
}

/// Writes the ledger: one line if nothing was lost, more with `detail`.
///
/// # Errors
/// Errors of the writer.
pub fn ledger_text(ledger: &HostLedger, detail: bool, out: &mut dyn Write) -> io::Result<()> {
    let mut text = counted(ledger.commands, "command");
    if ledger.unfinished > 0 {
        text += &format!(", {} unfinished", ledger.unfinished);
    }
    if ledger.interrupts > 0 {
        text += &format!(", {}", counted(ledger.interrupts, "interrupt"));
    }
    let accuracy = ledger.accuracy();
    let grade = match &accuracy {
        Accuracy::Degraded(why) => format!("DEGRADED: {text}; {}", why.join(", ")),
        Accuracy::Unknown => {
            format!("NOT KNOWN: {text} in a text, which does not say what is missing")
        }
        Accuracy::Exact => format!("exact: {text}, 0 lost"),
    };
    entry("accuracy", &grade, out)?;
    if !detail && !matches!(accuracy, Accuracy::Degraded(_)) {
        return Ok(());
    }
    for (program, hits) in &ledger.hits {
        let skipped = ledger.skipped.get(program).copied().unwrap_or(0);
        let mut text = format!("{program}: {hits} hits, {skipped} skipped");
        if let Some(ns) = ledger.run_ns.get(program) {
            text += &format!(", {ns} ns per hit in the program");
        }
        entry("hook", &text, out)?;
    }
    if ledger.other > 0 {
        entry("other", &format!("{} lines about something else", ledger.other), out)?;
    }
    Ok(())
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
                ("nqn", FieldValue::Text("nqn.a\u{1b}".into())),
                ("to", FieldValue::Named { value: 1, name: Some("ACTIVATING") }),
                ("from", FieldValue::Named { value: 9, name: None }),
                ("status", FieldValue::Result(-5)),
                ("qpair", FieldValue::Address(255)),
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
        let line: Value = serde_json::from_str(&text(&|out| state_json(&change, out))).unwrap();
        assert_eq!(line["fields"]["to"]["name"], "ACTIVATING");
        assert_eq!(line["fields"]["from"], json!({ "value": 9, "name": null }));
        assert_eq!(line["fields"]["status"], -5);
    }

    #[test]
    fn losses_are_named_and_fit_the_screen() {
        let ledger = HostLedger {
            commands: 7,
            without_begin: 1,
            without_end: 2,
            lost: 3,
            not_read: 4,
            failed_checks: 5,
            hits: [("nvmet_req_init".into(), 8)].into(),
            ..HostLedger::default()
        };
        let mut out = Vec::new();
        ledger_text(&ledger, false, &mut out).unwrap();
        let text = String::from_utf8(out).unwrap();
        let want = "accuracy  DEGRADED: 7 commands; 1 end without a start, 2 starts without an end,\n          \
                    3 events lost, 4 events not read, 5 hits that failed a check\nhook      \
                    nvmet_req_init: 8 hits, 0 skipped\n";
        assert_eq!(text, want);
    }
}
