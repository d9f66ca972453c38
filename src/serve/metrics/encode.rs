// SPDX-License-Identifier: MIT OR Apache-2.0
//! The two text formats of metrics: OpenMetrics 1.0 and Prometheus text 0.0.4.

use std::fmt::Write;

use super::collect::{Family, Series, Value};
use crate::serve::metrics::{LE_NS, Metric, MetricKind};

/// A text format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// Prometheus text 0.0.4.
    Text,
    /// OpenMetrics 1.0.
    OpenMetrics,
}

impl Format {
    /// The HTTP media type.
    pub const fn content_type(self) -> &'static str {
        match self {
            Self::Text => "text/plain; version=0.0.4; charset=utf-8",
            Self::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
        }
    }
}

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
    let name = metric.full_name();
    let texts = of.labels.iter().map(String::as_str);
    let labels: Vec<(&str, &str)> = metric.labels.iter().copied().zip(texts).collect();
    match &of.value {
        Value::Count(count) => line(out, &name, &labels, &count.to_string()),
        Value::Nanos(ns) => line(out, &name, &labels, &seconds(*ns)),
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
pub fn encode(families: &[Family], format: Format) -> String {
    let mut out = String::new();
    for Family { metric, series: all } in families {
        // OpenMetrics names a family without the suffix of its type
        let (name, kind) = match (format, metric.kind) {
            (Format::OpenMetrics, kind) => (metric.name.to_owned(), kind),
            (Format::Text, MetricKind::Info) => (metric.full_name(), MetricKind::Gauge),
            (Format::Text, kind) => (metric.full_name(), kind),
        };
        let _ = writeln!(out, "# HELP {name} {}", metric.help);
        let _ = writeln!(out, "# TYPE {name} {}", kind.name());
        if format == Format::OpenMetrics && !metric.unit.is_empty() {
            let _ = writeln!(out, "# UNIT {name} {}", metric.unit);
        }
        all.iter().for_each(|of| series(&mut out, metric, of));
    }
    if format == Format::OpenMetrics {
        out.push_str("# EOF\n");
    }
    out
}

#[cfg(test)]
mod tests;
