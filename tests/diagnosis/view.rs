// SPDX-License-Identifier: MIT OR Apache-2.0
//! A diagnosis as text and as JSON.

use nvme_deep::diagnose::view::{DiagnosisView, Look};
use nvme_deep::diagnose::{Diagnosis, Facts, Outcome, Status, diagnose};
use nvme_deep::view::header::Header;
use nvme_deep::view::theme::Theme;
use serde_json::{Value, json};

use super::causes::Cause;
use super::load::Load;
use super::plants::{PLANTS, facts, said};

const PLAIN: Look = Look { theme: Theme { color: false }, width: 80, detail: false };

/// A few commands, whose times do not depend on a generator.
fn few(causes: &[Cause]) -> Facts {
    let load =
        Load { sigmas: [0.0, 0.0], bursts: (0.0, 0.0, 1.0), seconds: 2.0, ..Load::default() };
    facts(&load, causes)
}

fn header() -> Header {
    let (file, kernel) = (Some("x.nvd".into()), Some("6.12.90+deb13-amd64".into()));
    Header { file, kernel, ..Header::default() }
}

fn text(facts: &Facts, diagnosis: &Diagnosis, look: Look) -> String {
    let view = DiagnosisView { facts, header: &header(), diagnosis };
    let mut out = Vec::new();
    view.text(look, &mut out).unwrap();
    String::from_utf8(out).unwrap()
}

fn shown(causes: &[Cause], look: Look) -> String {
    let facts = few(causes);
    text(&facts, &diagnose(&facts), look)
}

#[test]
fn the_verdict_comes_first_then_when_who_and_what_to_do() {
    let causes = [Cause::Throttle, Cause::Wbt, Cause::NotPolling];
    insta::assert_snapshot!("two_causes", shown(&causes, PLAIN));
    let color = Look { theme: Theme { color: true }, ..PLAIN };
    insta::assert_snapshot!("two_causes_in_colour", shown(&causes, color).replace('\u{1b}', "ESC"));
}

#[test]
fn without_a_cause_the_text_says_what_to_do() {
    insta::assert_snapshot!("healthy", shown(&[], PLAIN));
    let load = Load { seconds: 0.3, ..Load::default() };
    let facts = facts(&load, &[]);
    insta::assert_snapshot!("not_known", text(&facts, &diagnose(&facts), PLAIN));
}

#[test]
fn a_report_fits_its_width_and_no_name_in_braces_is_left() {
    for plant in PLANTS {
        let facts = facts(&plant.load(1), &[plant.cause]);
        let diagnosis = diagnose(&facts);
        for width in [80, 120] {
            let long = text(&facts, &diagnosis, Look { width, detail: true, ..PLAIN });
            for line in long.lines() {
                let size = line.chars().count();
                assert!(size <= width, "{}: {size}: {line}", plant.rule);
            }
            assert!(!long.contains('{'), "{long}");
        }
    }
}

#[test]
fn more_classes_of_commands_than_fit_are_shown_with_detail() {
    let load = Load {
        writes: 0.4,
        flushes: 0.1,
        discards: 0.02,
        sizes: &[4096, 8192, 65536, 131_072],
        ..Load::default()
    };
    let facts = facts(&load, &[]);
    let found = diagnose(&facts);
    let short = text(&facts, &found, PLAIN);
    assert!(short.contains("4 more classes of commands (-v)\n"), "{short}");
    let long = text(&facts, &found, Look { detail: true, ..PLAIN });
    let classes = |text: &str| {
        let (_, table) = text.split_once("\nCOMMANDS ").unwrap();
        let lines = table.lines().skip(1);
        lines.take_while(|line| line.contains("nvme0n1")).count()
    };
    assert_eq!((facts.classes.all.len(), classes(&short), classes(&long)), (10, 6, 10), "{long}");
    assert!(!long.contains("more classes"), "{long}");
}

/// The diagnosis as a JSON object.
fn object(facts: &Facts, diagnosis: &Diagnosis) -> Value {
    let mut out = Vec::new();
    DiagnosisView { facts, header: &header(), diagnosis }.json(&mut out).unwrap();
    let lines = out.iter().filter(|b| **b == b'\n').count();
    assert_eq!(lines, 1);
    serde_json::from_slice(&out).unwrap()
}

#[test]
fn json_is_one_object_with_all_parts() {
    let facts = few(&[Cause::Throttle]);
    let diagnosis = diagnose(&facts);
    let object = object(&facts, &diagnosis);
    for (key, value) in [
        ("type", "diagnosis"),
        ("outcome", "cause"),
        ("headline", &diagnosis.headline),
        ("file", "x.nvd"),
        ("kernel", "6.12.90+deb13-amd64"),
    ] {
        assert_eq!(object[key], value, "{key}");
    }
    let cause = &object["verdicts"][0];
    for (key, value) in [
        ("rule", json!("cgroup-throttle")),
        ("subject", json!("nvme0n1")),
        ("status", json!("found")),
        ("where", json!([])),
    ] {
        assert_eq!(cause[key], value, "{key}");
    }
    let share = said(&diagnosis, "cgroup-throttle").share.unwrap();
    assert_eq!(cause["share"]["least"], share.least);
    assert!(cause["share"]["low"].as_f64().unwrap() <= share.least);
    assert!(cause["evidence"][0]["value"].as_str().unwrap().contains("commands waited"));
    assert!(cause["risk"].is_string() && cause["advice"].is_string());
    assert_eq!(cause["who"][0]["by"], "caller");
    let all = object["verdicts"].as_array().unwrap();
    assert_eq!(all.len(), diagnosis.verdicts.len());
    let status = |rule: &str| &all.iter().find(|v| v["rule"] == rule).unwrap()["status"];
    assert_eq!(status("not-polling"), "not_present");
    assert_eq!(status("device"), "not_observed");
    assert_eq!(status("scheduler"), "not_present");
    assert_eq!(object["machine"]["controllers"][0]["io_queues"], 4);
    for (outcome, name) in [(Outcome::Nothing, "no_cause"), (Outcome::Unknown, "not_known")] {
        let found = Diagnosis { outcome, ..diagnosis.clone() };
        assert_eq!(self::object(&facts, &found)["outcome"], name);
    }
    assert!(diagnosis.of(Status::NotPresent).count() > 5);
}

#[test]
fn the_docs_have_every_key_of_the_json() {
    let facts = few(&[]);
    let object = object(&facts, &diagnose(&facts));
    let docs = include_str!("../../docs/reference/json.md");
    let (_, section) = docs.split_once("## `diagnose`").unwrap();
    let section = section.split("\n## ").next().unwrap();
    let in_every_object = ["type", "schema_version"];
    let keys = object.as_object().unwrap().keys();
    let verdict = object["verdicts"][0].as_object().unwrap().keys();
    for key in keys.chain(verdict).filter(|k| !in_every_object.contains(&k.as_str())) {
        assert!(section.contains(&format!("`{key}`")), "{key}");
    }
}
