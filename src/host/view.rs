// SPDX-License-Identifier: MIT OR Apache-2.0
//! What `host` prints besides the events: changes of state, the target, and the end, as text and as JSON
//! (docs/reference/json.md).

use std::io;
use std::io::Write;

use serde_json::{Map, Value, json};

use crate::model::ledger::Ledger;
use crate::model::target::{FieldValue, HostController, StateChange, TargetInfo};
use crate::model::text::word;
use crate::view::json::typed_line;

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
///
/// # Errors
/// Errors of the writer.
pub fn state_text(change: &StateChange, out: &mut dyn Write) -> io::Result<()> {
    let fields = change.fields.iter();
    let fields: Vec<String> =
        fields.map(|(name, value)| format!("{name}={}", shown(value))).collect();
    let fields = fields.join(", ");
    writeln!(out, "{} - State {}: {fields}", change.at_ns, change.probe)
}

/// Writes a change as an object.
///
/// # Errors
/// Errors of the writer.
pub fn state_json(change: &StateChange, out: &mut dyn Write) -> io::Result<()> {
    let field = |(name, value): &(&str, FieldValue)| ((*name).to_owned(), json!(value));
    let fields: Map<String, Value> = change.fields.iter().map(field).collect();
    let line = json!({ "time_ns": change.at_ns, "probe": change.probe, "fields": fields });
    typed_line("spdk_state", &line, out)
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
pub fn end_json(ledger: &Ledger, out: &mut dyn Write) -> io::Result<()> {
    typed_line("host_end", &json!({ "exact": ledger.is_exact(), "ledger": ledger }), out)
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
}
