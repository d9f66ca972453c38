// SPDX-License-Identifier: MIT OR Apache-2.0
//! Metrics as Prometheus text, version 0.0.4.

use std::fmt::Write;

use super::collect::{Family, Series, Value};
use crate::serve::metrics::{LE_NS, Metric};

/// Nanoseconds as seconds, exactly: `0.000001023`, `1.5`, `0.0`.
pub fn seconds(ns: u128) -> String {
    let (whole, rest) = (ns / 1_000_000_000, ns % 1_000_000_000);
    let rest = format!("{rest:09}");
    let rest = rest.trim_end_matches('0');
    format!("{whole}.{}", if rest.is_empty() { "0" } else { rest })
}

/// A value of a label, between quotation marks.
fn escape(value: &str) -> String {
    let mut text = String::new();
    for c in value.chars() {
        match c {
            '\\' => text.push_str("\\\\"),
            '"' => text.push_str("\\\""),
            '\n' => text.push_str("\\n"),
            c => text.push(c),
        }
    }
    text
}

/// `name{label="value",le="..."} value` and the end of the line.
fn line(out: &mut String, name: &str, labels: &[(&str, &str)], value: &str) {
    out.push_str(name);
    for (n, (label, text)) in labels.iter().enumerate() {
        let open = if n == 0 { '{' } else { ',' };
        // writing to a String does not fail
        let _ = write!(out, "{open}{label}=\"{}\"", escape(text));
    }
    if !labels.is_empty() {
        out.push('}');
    }
    let _ = writeln!(out, " {value}");
}

fn series(out: &mut String, metric: &Metric, of: &Series) {
    let name = metric.name;
    let texts = of.labels.iter().map(String::as_str);
    let labels: Vec<(&str, &str)> = metric.labels.iter().copied().zip(texts).collect();
    match &of.value {
        Value::Count(count) => line(out, name, &labels, &count.to_string()),
        Value::Nanos(ns) => line(out, name, &labels, &seconds(*ns)),
        Value::Histogram { cumulative, count, sum_ns } => {
            let bucket = format!("{name}_bucket");
            for (le, count) in LE_NS.iter().zip(cumulative.iter()) {
                let le = seconds((*le).into());
                let labels = [labels.as_slice(), &[("le", &le)]].concat();
                line(out, &bucket, &labels, &count.to_string());
            }
            let all = [labels.as_slice(), &[("le", "+Inf")]].concat();
            line(out, &bucket, &all, &count.to_string());
            line(out, &format!("{name}_sum"), &labels, &seconds(*sum_ns));
            line(out, &format!("{name}_count"), &labels, &count.to_string());
        }
    }
}

/// Writes metrics as text.
pub fn encode(families: &[Family]) -> String {
    let mut out = String::new();
    for Family { metric, series: all } in families {
        let _ = writeln!(out, "# HELP {} {}", metric.name, metric.help);
        let _ = writeln!(out, "# TYPE {} {}", metric.name, metric.kind.name());
        all.iter().for_each(|of| series(&mut out, metric, of));
    }
    out
}

#[cfg(test)]
mod tests;
