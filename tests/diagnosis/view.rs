// SPDX-License-Identifier: MIT OR Apache-2.0
//! A diagnosis as text and as JSON.

use std::time::Duration;

use nvme_deep::diagnose::report::{
    Cause, Collector, Diagnosis, Expectation, Facts, Judged, Outcome, Subject, diagnose,
};
use nvme_deep::diagnose::view::{DiagnosisView, Origin};
use nvme_deep::view::theme::Theme;
use serde_json::{Value, json};

use super::load::Load;
use super::plants::{PLANTS, facts};

const MACHINE: Origin<'_> =
    Origin { file: None, kernel: Some("6.12.90+deb13-amd64"), machine: Some("QEMU, KVM") };

/// A cause with all parts.
fn flush() -> Cause {
    Cause::new(
        "flush-cost",
        "nvme0",
        "flushes of nvme0 take the time".into(),
        "let the application flush less often (group commits); where losing the last writes is acceptable, switch \
         the write cache off",
    )
    .with_risk("a power cut loses data that the application believes written")
    .explaining(0.61)
    .shown_by("flushes", "61 % [55, 66] of the time")
    .shown_by(
        "write 128K nvme0n1, flush in flight / none",
        "1.61x [1.48, 1.74]",
    )
}

fn bounce() -> Cause {
    Cause::new(
        "bounce",
        "machine",
        "data are copied through bounce buffers (swiotlb) on their way to the device: 45 % of the time".into(),
        "remove `swiotlb=force`",
    )
    .shown_by("bounces per command", 1)
}

fn polling() -> Cause {
    Cause::new(
        "not-polling",
        "nvme0",
        "nvme0 has polled queues, but no command used them".into(),
        "submit with RWF_HIPRI",
    )
    .shown_by("nvme.poll_queues", 1)
}

fn judged(rule: &'static str, why: &str, is_absent: bool) -> Judged {
    Judged {
        rule,
        subject: Subject::Controller(0),
        name: "nvme0".into(),
        why: why.into(),
        is_absent,
        is_minor: false,
    }
}

fn diagnosis(outcome: Outcome, verdict: &str, causes: &[Cause]) -> Diagnosis {
    Diagnosis {
        outcome,
        verdict: verdict.into(),
        causes: causes.to_vec(),
        notes: vec![polling()],
        ruled_out: vec![
            judged("split", "1.00 commands for each request", true),
            judged("scheduler", "it has no scheduler", true),
            judged("device", "flush-cost explains it", false),
        ],
        not_judged: vec![judged("rate-cap", "needs another depth", false)],
        not_looked_at: ["tag-wait", "bounce", "vcpu-stolen"]
            .map(|rule| judged(rule, "record --stages=full", false))
            .to_vec(),
    }
}

/// A few commands, whose times do not depend on a generator.
fn few() -> Facts {
    let load =
        Load { sigmas: [0.0, 0.0], bursts: (0.0, 0.0, 1.0), seconds: 2.0, ..Load::default() };
    facts(&load, &[])
}

fn text(facts: &Facts, diagnosis: &Diagnosis, color: bool, detail: bool) -> String {
    let view = DiagnosisView { facts, origin: MACHINE, diagnosis };
    let mut out = Vec::new();
    view.text(Theme { color }, detail, &mut out).unwrap();
    String::from_utf8(out).unwrap()
}

#[test]
fn the_verdict_comes_first_then_evidence_advice_and_risk() {
    let causes = [flush(), bounce()];
    let found = diagnosis(Outcome::Cause, &causes[0].sentence, &causes);
    let plain = text(&few(), &found, false, false);
    insta::assert_snapshot!("two_causes", plain);
    let colored = text(&few(), &found, true, false).replace('\u{1b}', "ESC");
    insta::assert_snapshot!("two_causes_in_colour", colored);
}

#[test]
fn without_a_cause_the_text_says_why() {
    let nothing = diagnosis(Outcome::Nothing, "nothing avoidable seen", &[]);
    let plain = text(&few(), &nothing, false, false);
    assert!(plain.starts_with("nothing avoidable seen\n"), "{plain}");
    let unknown = diagnosis(
        Outcome::Unknown,
        "not known: only 7 I/O commands finished, and 200 are needed",
        &[],
    );
    let empty = Collector::default();
    let empty = empty.finish(Duration::from_secs(10), None, Expectation::None);
    insta::assert_snapshot!("not_known", text(&empty, &unknown, false, false));
}

#[test]
fn no_line_of_a_report_is_wider_than_80_columns() {
    for plant in PLANTS {
        let facts = facts(&plant.load(1), &[plant.cause]);
        let diagnosis = diagnose(&facts);
        for line in text(&facts, &diagnosis, false, true).lines() {
            let width = line.chars().count();
            assert!(width <= 80, "{}: {width}: {line}", plant.rule);
        }
    }
}

#[test]
fn more_kinds_of_commands_than_fit_are_shown_with_detail() {
    let load = Load {
        writes: 0.4,
        flushes: 0.1,
        discards: 0.02,
        sizes: &[4096, 8192, 65536, 131_072],
        ..Load::default()
    };
    let facts = facts(&load, &[]);
    let found = diagnosis(Outcome::Nothing, "nothing avoidable seen", &[]);
    let kinds = |text: &str| text.matches(" commands\n").count();
    let short = text(&facts, &found, false, false);
    assert!(short.contains("4 more kinds of commands (-v)\n"), "{short}");
    let long = text(&facts, &found, false, true);
    assert_eq!((kinds(&short), kinds(&long)), (6, 10), "{long}");
}

/// The diagnosis as a JSON object.
fn object(facts: &Facts, diagnosis: &Diagnosis) -> Value {
    let view =
        DiagnosisView { facts, origin: Origin { file: Some("x.nvd"), ..MACHINE }, diagnosis };
    let mut out = Vec::new();
    view.json(&mut out).unwrap();
    let lines = out.iter().filter(|b| **b == b'\n').count();
    assert_eq!(lines, 1);
    serde_json::from_slice(&out).unwrap()
}

#[test]
fn json_is_one_object_with_all_parts() {
    let causes = [flush()];
    let found = diagnosis(Outcome::Cause, &causes[0].sentence, &causes);
    let object = object(&few(), &found);
    for (key, value) in [
        ("type", "diagnosis"),
        ("outcome", "cause"),
        ("verdict", "flushes of nvme0 take the time"),
        ("file", "x.nvd"),
        ("kernel", "6.12.90+deb13-amd64"),
    ] {
        assert_eq!(object[key], value, "{key}");
    }
    let cause = &object["causes"][0];
    assert_eq!((&cause["rule"], &cause["subject"]), (&json!("flush-cost"), &json!("nvme0")));
    assert_eq!(cause["explains"], 0.61);
    assert_eq!(cause["evidence"][1]["value"], "1.61x [1.48, 1.74]");
    assert!(cause["risk"].is_string() && cause["advice"].is_string());
    let explained = json!({"rule": "device", "subject": "nvme0", "why": "flush-cost explains it"});
    assert_eq!(object["ruled_out"][2], explained);
    assert_eq!(object["not_judged"][0]["rule"], "rate-cap");
    assert_eq!(object["notes"][0]["rule"], "not-polling");
    assert_eq!(object["not_looked_at"].as_array().unwrap().len(), 3);
    assert_eq!(object["machine"]["controllers"][0]["io_queues"], 4);
    for (outcome, name) in
        [(Outcome::Nothing, "nothing_avoidable"), (Outcome::Unknown, "not_known")]
    {
        let found = diagnosis(outcome, "", &[]);
        assert_eq!(self::object(&few(), &found)["outcome"], name);
    }
}

#[test]
fn the_times_in_json_add_up() {
    let object = object(&few(), &diagnosis(Outcome::Nothing, "", &[]));
    let times = object["times"].as_array().unwrap();
    let commands: u64 = times.iter().map(|t| t["commands"].as_u64().unwrap()).sum();
    assert_eq!(object["commands"], commands);
    for time in times {
        let stages = time["stages"].as_array().unwrap();
        let sum: u64 = stages.iter().map(|s| s["sum_ns"].as_u64().unwrap()).sum();
        assert_eq!(time["sum_ns"], sum);
    }
}

#[test]
fn the_docs_have_every_key_of_the_json() {
    let object = object(&few(), &diagnosis(Outcome::Nothing, "", &[]));
    let docs = include_str!("../../docs/reference/json.md");
    let (_, section) = docs.split_once("## `diagnose`").unwrap();
    let section = section.split("\n## ").next().unwrap();
    let in_every_object = ["type", "schema_version"];
    let keys = object.as_object().unwrap().keys();
    for key in keys.filter(|k| !in_every_object.contains(&k.as_str())) {
        assert!(section.contains(&format!("`{key}`")), "{key}");
    }
}
