// SPDX-License-Identifier: MIT OR Apache-2.0
//! The files of contrib/, checked by the programs that read them, and docs/serve.md against the code.
//! promtool comes with Debian's package prometheus; a test whose program is missing says so.

use std::collections::BTreeSet;
use std::fs;
use std::io::{Seek, Write};
use std::path::{Path, PathBuf};
use std::process::Command;

use nvme_deep::serve::metrics::{ALL, Metric, MetricKind};
use serde_json::{Value, json};

use crate::binary::accepts;

fn path(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(name)
}

fn text(name: &str) -> String {
    fs::read_to_string(path(name)).unwrap_or_else(|e| panic!("{name}: {e}"))
}

/// Runs a program in contrib with this input. `None`: it is not installed.
fn accepted(program: &str, words: &[&str], input: &str) -> Option<String> {
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(input.as_bytes()).unwrap();
    file.rewind().unwrap();
    let mut command = Command::new(program);
    let said = accepts(command.args(words).current_dir(path("contrib")).stdin(file));
    said.map(|said| said.concat())
}

#[test]
fn promtool_accepts_the_rules_and_they_fire() {
    accepted("promtool", &["check", "rules", "prometheus-rules.yml"], "");
    let tests = ["test", "rules", "prometheus-rules.test.yml"];
    accepted("promtool", &tests, "");
}

#[test]
fn promtool_accepts_the_queries_of_the_dashboard() {
    let board: Value = serde_json::from_str(&text("contrib/grafana-dashboard.json")).unwrap();
    let panels = board["panels"].as_array().unwrap().iter();
    let targets = panels.filter_map(|p| p["targets"].as_array()).flatten();
    let rules: Vec<Value> = targets
        .map(|target| {
            let query = target["expr"].as_str().unwrap();
            let query = query.replace("$__rate_interval", "5m");
            json!({"record": "query", "expr": query})
        })
        .collect();
    assert!(rules.len() >= 10);
    // JSON is YAML
    let file = json!({"groups": [{"name": "dashboard", "rules": rules}]});
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("queries.yml");
    fs::write(&path, file.to_string()).unwrap();
    let path = path.to_str().unwrap();
    accepted("promtool", &["check", "rules", path], "");
}

#[test]
fn systemd_rates_the_units_as_the_docs_say() {
    for unit in ["nvme-deep.service", "nvme-deep-recorder.service"] {
        let words = ["security", "--offline=true", unit];
        let Some(said) = accepted("systemd-analyze", &words, "") else {
            return;
        };
        let level = said.split_once(&format!("exposure level for {unit}: "));
        let level = level.unwrap_or_else(|| panic!("{said}")).1;
        let level: f64 = level.split(' ').next().unwrap().parse().unwrap();
        // each version of systemd has its own list
        assert!(level <= 2.5, "{said}");
    }
}

/// The words of a text that can be names of metrics.
fn metrics_in(text: &str) -> BTreeSet<String> {
    let words = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    let names = words.filter(|w| w.starts_with("nvme_deep_"));
    names.map(str::to_owned).collect()
}

/// All names of samples.
fn known() -> BTreeSet<String> {
    let of = |metric: &&Metric| -> Vec<String> {
        let name = metric.name.to_owned();
        let parts = ["_bucket", "_sum", "_count"].map(|part| format!("{name}{part}"));
        match metric.kind {
            MetricKind::Histogram => [vec![name], parts.into()].concat(),
            _ => vec![name],
        }
    };
    ALL.iter().flat_map(of).collect()
}

#[test]
fn rules_and_dashboard_use_metrics_that_exist() {
    let dashboard = text("contrib/grafana-dashboard.json");
    let board: Value = serde_json::from_str(&dashboard).unwrap();
    assert!(board["panels"].as_array().unwrap().len() >= 5);
    for text in [dashboard, text("contrib/prometheus-rules.yml")] {
        let used = metrics_in(&text);
        assert!(used.len() >= 5, "{used:?}");
        let unknown: Vec<_> = used.difference(&known()).cloned().collect();
        assert!(unknown.is_empty(), "{unknown:?}");
    }
}

/// A line of the table in docs/serve.md for each metric: name, type, labels.
#[test]
fn the_docs_list_every_metric_and_no_other() {
    let page = text("docs/serve.md");
    let rows: Vec<String> = ALL
        .iter()
        .map(|metric| {
            let labels = metric.labels.iter().map(|label| format!("`{label}`"));
            let labels = labels.collect::<Vec<_>>().join(", ");
            let (name, kind) = (metric.name, metric.kind.name());
            format!("| `{name}` | {kind} | {labels} |")
        })
        .collect();
    for row in &rows {
        assert!(page.contains(row), "docs/serve.md lacks: {row}");
    }
    let listed = page.lines().filter(|l| l.starts_with("| `nvme_deep_"));
    assert_eq!(listed.count(), rows.len());
    let unknown: Vec<_> = metrics_in(&page).difference(&known()).cloned().collect();
    assert!(unknown.is_empty(), "{unknown:?}");
}
