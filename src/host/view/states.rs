// SPDX-License-Identifier: MIT OR Apache-2.0
//! Changes of state of SPDK's target, and its messages, as text and as JSON.

use std::io;
use std::io::Write;

use serde::Serialize;
use serde_json::{Map, Value as Json, json};

use crate::model::text::{Text, word};
use crate::target::spdk::{StateChange, Value};
use crate::view::json::typed_line;

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
pub struct MessageRow {
    /// The function of SPDK that was called.
    pub call: &'static str,
    /// The function that was passed on; `None` if it has no symbol.
    pub function: Option<Text>,
    /// Its address.
    pub address: u64,
    /// Number of calls.
    pub count: u64,
}

/// Writes a table, in the order of the rows.
///
/// # Errors
/// Errors of the writer.
pub fn messages_text(rows: &[MessageRow], out: &mut dyn Write) -> io::Result<()> {
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
