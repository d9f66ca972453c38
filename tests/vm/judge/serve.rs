// SPDX-License-Identifier: MIT OR Apache-2.0
//! `serve`: what Prometheus has stored is what fio and the kernel count; clients, capabilities, files.

use std::collections::BTreeMap;

use serde_json::Value;

use super::guest::{Outcome, Suite};
use super::json::{fio_counts, kernel_counts, list, text};

const SERVE: Suite = Suite::of(
    "serve",
    &["nvme_null nvme0 0", "nvme_null nvme1 2500000000", "nvme_blkdebug nvme2 0 read,sector=8192"],
);

/// Values that Prometheus has stored: labels and number.
fn stored(outcome: &Outcome, metric: &str) -> Vec<(Value, u64)> {
    let answer = outcome.text("http", &format!("{metric}.json"));
    let answer: Value = serde_json::from_str(&answer).unwrap();
    assert_eq!(text(&answer, "status"), "success", "{metric}");
    let series = list(&answer["data"], "result").iter();
    let series = series.map(|one| {
        let value = one["value"][1].as_str().unwrap();
        (one["metric"].clone(), value.parse().unwrap())
    });
    series.collect()
}

/// The values of nvme0's I/O queues, by opcode, with the given labels only.
fn of_opcodes(all: &[(Value, u64)], labels: &[(&str, &str)]) -> BTreeMap<String, u64> {
    let mut sums = BTreeMap::new();
    for (series, value) in all {
        let wanted = [("controller", "nvme0"), ("queue", "io"), ("nsid", "1")];
        let mut wanted = wanted.iter().chain(labels);
        if wanted.all(|(label, want)| series[*label] == *want) {
            *sums.entry(text(series, "opcode").to_owned()).or_default() += value;
        }
    }
    sums
}

fn prometheus_has_the_counts_of_fio(outcome: &Outcome) {
    let [reads, writes, ..] = fio_counts(outcome, "http");
    let [kernel_reads, kernel_writes, ..] = kernel_counts(outcome, "http");
    assert_eq!([reads, writes], [kernel_reads, kernel_writes]);
    assert_eq!(reads + writes, 3200);
    let want = BTreeMap::from([("read".to_owned(), reads), ("write".to_owned(), writes)]);
    let commands = stored(outcome, "commands_total");
    assert_eq!(of_opcodes(&commands, &[]), want);
    let counts = stored(outcome, "command_duration_seconds_count");
    assert_eq!(of_opcodes(&counts, &[]), want);
    let buckets = stored(outcome, "command_duration_seconds_bucket");
    assert_eq!(of_opcodes(&buckets, &[("le", "+Inf")]), want);
    let bounds = buckets.iter().map(|(series, _)| text(series, "le")).filter(|le| *le != "+Inf");
    let bounds: BTreeMap<&str, ()> = bounds.map(|le| (le, ())).collect();
    assert_eq!(bounds.len(), 27, "{bounds:?}");
    let stages = stored(outcome, "stage_duration_seconds_count");
    assert_eq!(of_opcodes(&stages, &[("stage", "complete")]), want);
    // 200 writes of 64 KiB, the rest 4 KiB
    let bytes = stored(outcome, "transferred_bytes_total");
    let want = BTreeMap::from([
        ("read".to_owned(), reads * 4096),
        ("write".to_owned(), (writes - 200) * 4096 + 200 * 65536),
    ]);
    assert_eq!(of_opcodes(&bytes, &[]), want);
}

fn nothing_is_lost(outcome: &Outcome) {
    for (series, value) in stored(outcome, "lost_commands_total") {
        assert_eq!(value, 0, "{series}");
    }
    for (series, value) in stored(outcome, "accuracy") {
        assert_eq!(value, u64::from(series["state"] == "exact"), "{series}");
    }
    let sum = |metric| -> u64 { stored(outcome, metric).iter().map(|(_, n)| n).sum() };
    assert!(sum("observed_commands_total") >= sum("commands_total"));
    let said = outcome.text("http", "serve.err");
    assert_eq!(outcome.code("http", "serve"), 0, "{said}");
    assert!(said.contains("exact: "), "{said}");
}

/// The value of a series of a text.
fn value(text: &str, series: &str) -> Option<u64> {
    let line = text.lines().find_map(|l| l.strip_prefix(series))?;
    line.trim().parse().ok()
}

fn promtool_accepts_the_text(outcome: &Outcome) {
    assert_eq!(outcome.text("http", "promtool.out"), "");
    assert_eq!(outcome.code("http", "promtool"), 0);
    assert!(outcome.text("http", "text").contains("\n# TYPE nvme_deep_commands_total counter\n"));
}

fn hostile_clients_harm_nobody(outcome: &Outcome) {
    let row =
        "nvme_deep_commands_total{controller=\"nvme0\",nsid=\"1\",queue=\"io\",opcode=\"read\"}";
    let [reads, ..] = fio_counts(outcome, "http");
    assert_eq!(value(&outcome.text("http", "hostile"), row), Some(reads));
}

/// The guest checks that the kernel has four commands in flight before and after the scrape.
fn commands_in_flight_are_those_of_the_kernel(outcome: &Outcome) {
    let held = outcome.text("http", "held");
    let of = |ctrl| {
        let series = format!("nvme_deep_in_flight_commands{{controller=\"{ctrl}\"}}");
        value(&held, &series)
    };
    assert_eq!((of("nvme0"), of("nvme1")), (Some(0), Some(4)));
}

/// The bad sector fails once and in each retry; the read behind the end is a generic error.
fn failures_and_retries_are_counted(outcome: &Outcome) {
    let retries = outcome.text("http", "max_retries");
    let retries: u64 = retries.trim().parse().unwrap();
    let failed = |file: &str, ctrl: &str, kind: &str| {
        let series =
            format!("nvme_deep_failed_commands_total{{controller=\"{ctrl}\",type=\"{kind}\"}}");
        value(&outcome.text("http", file), &series)
    };
    assert_eq!(failed("text", "nvme2", "media"), Some(0));
    assert_eq!(failed("failed", "nvme2", "media"), Some(retries + 1));
    assert_eq!(failed("failed", "nvme2", "generic"), Some(1));
    for kind in ["command_specific", "path", "vendor", "reserved"] {
        assert_eq!(failed("failed", "nvme2", kind), Some(0), "{kind}");
    }
    assert_eq!(failed("failed", "nvme0", "media"), Some(0));
    let retried = "nvme_deep_retried_commands_total{controller=\"nvme2\"}";
    let counted = value(&outcome.text("http", "failed"), retried);
    assert_eq!(counted, Some(retries));
}

fn timeouts_are_those_of_the_kernel_log(outcome: &Outcome) {
    let log = outcome.text("http", "dmesg");
    let timeouts =
        log.lines().filter(|l| l.contains("nvme1: I/O") && l.contains(" timeout, ")).count();
    assert!(timeouts > 0, "{log}");
    let text = outcome.text("http", "timeout");
    let counted = value(&text, "nvme_deep_timeouts_total");
    assert_eq!(counted, Some(timeouts as u64), "{log}");
    assert_eq!(value(&outcome.text("http", "held"), "nvme_deep_timeouts_total"), Some(0));
}

fn controllers_go_and_come(outcome: &Outcome) {
    let in_flight = "nvme_deep_in_flight_commands{controller=\"nvme1\"}";
    let reads =
        "nvme_deep_commands_total{controller=\"nvme1\",nsid=\"1\",queue=\"io\",opcode=\"read\"}";
    let gone = outcome.text("http", "gone");
    assert_eq!(value(&gone, in_flight), None);
    let before = value(&outcome.text("http", "timeout"), reads);
    assert!(before >= Some(4));
    assert_eq!(value(&gone, reads), before);
    let back = outcome.text("http", "back");
    assert_eq!(value(&back, in_flight), Some(0));
    // the kernel has read the partition table
    assert!(value(&back, reads) > before, "{back}");
}

fn the_unit_has_the_capabilities_that_all_hooks_need(outcome: &Outcome) {
    let [root, unit] = ["http", "unit"].map(|case| {
        assert_eq!(outcome.code(case, "serve"), 0);
        let said = outcome.text(case, "serve.err");
        said.lines().next().unwrap().to_owned()
    });
    assert_eq!(unit, root);
    let service = include_str!("../../../contrib/nvme-deep.service");
    let bounds = "\nCapabilityBoundingSet=CAP_BPF CAP_PERFMON CAP_SYS_ADMIN\n";
    assert!(service.contains(bounds), "{service}");
    assert!(service.contains("\nLimitMEMLOCK=infinity\n"), "{service}");
}

fn the_textfile_is_written_and_removed(outcome: &Outcome) {
    let said = outcome.text("textfile", "serve.err");
    assert_eq!(outcome.code("textfile", "serve"), 0, "{said}");
    assert_eq!(outcome.text("textfile", "mode").trim(), "644");
    assert_eq!(outcome.text("textfile", "names").trim(), "nvme.prom");
    assert_eq!(outcome.text("textfile", "names.after"), "");
    let row =
        "nvme_deep_commands_total{controller=\"nvme0\",nsid=\"1\",queue=\"io\",opcode=\"read\"}";
    let file = outcome.text("textfile", "text");
    assert_eq!(value(&file, row), Some(500));
    assert!(file.contains("stage=\"queue.setup\""), "{file}");
    assert!(!file.contains("controller=\"nvme1\""), "{file}");
}

fn what_is_wrong_is_one_sentence(outcome: &Outcome) {
    outcome.assert_refused("http", "in-use", 1, &["9998", "another program"]);
    for (name, code, words) in [
        ("no-directory", 2, "its directory does not exist"),
        ("name", 2, ".prom"),
        ("address", 2, "127.0.0.1:9998"),
        ("foreign", 2, "no such address"),
        ("unprivileged", 4, "run it as root"),
        ("low-port", 4, "below 1024"),
    ] {
        outcome.assert_refused("wrong", name, code, &[words]);
    }
    let said = outcome.text("wrong", "full.err");
    assert_eq!(outcome.code("wrong", "full"), 1, "{said}");
    let last = said.lines().last().unwrap();
    assert!(last.contains("No space left on device"), "{said}");
    let [before, after] =
        ["before", "after"].map(|when| outcome.text("wrong", &format!("attached.{when}")));
    assert_eq!(before, after, "something stays attached");
}

super::on_kernels! {
    suite SERVE [
        prometheus_has_the_counts_of_fio nothing_is_lost promtool_accepts_the_text
        hostile_clients_harm_nobody commands_in_flight_are_those_of_the_kernel
        failures_and_retries_are_counted timeouts_are_those_of_the_kernel_log
        controllers_go_and_come the_unit_has_the_capabilities_that_all_hooks_need
        the_textfile_is_written_and_removed what_is_wrong_is_one_sentence
    ] {
        | only_in_test_all on_5_10 "5.10" on_6_1 "6.1" on_6_12 "6.12" on_7_x "7.x"
        on_6_12_arm64 "6.12-arm64"
    }
}
