// SPDX-License-Identifier: MIT OR Apache-2.0
//! Replays the recordings of planted causes (`make matrix`): each cause is named, alone; its control and
//! the clean runs have none. docs/dev/diagnose.md has the table of the results.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use nvme_deep::diagnose::RULES;
use serde_json::Value;

use crate::binary::{docs_have, shown_once};
use crate::planted::{causes, findings, leaves_a_limit_open, planted, says_which_limit};

/// Rules that only note: what they see has no measured part of the time.
const NOTES: [&str; 2] = ["split", "not-polling"];

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The recordings, by name.
fn recordings() -> Vec<String> {
    let files = fs::read_dir(root().join("tests/recordings/diagnose")).unwrap();
    let names = files.map(|e| e.unwrap().file_name().into_string().unwrap());
    let names = names.filter_map(|n| Some(n.strip_suffix(".nvd")?.to_owned()));
    let mut all: Vec<String> = names.collect();
    all.sort();
    assert!(!all.is_empty());
    all
}

fn diagnosis(name: &str, options: &[&str]) -> Value {
    let file = format!("tests/recordings/diagnose/{name}.nvd");
    let words = [&["diagnose --json --from", &file], options].concat().join(" ");
    serde_json::from_str(&shown_once(&words)).unwrap()
}

/// Over TCP nothing separates the device from the network: its part is between two bounds, and no rule
/// that needs it is ruled out. The median is 25 times what is expected.
#[test]
fn a_slow_device_behind_a_network_is_left_open() {
    let options = ["--lba", "3000-9999999", "--expect", "200us"];
    let found = diagnosis("path-failover", &options);
    assert!(causes(&found).is_empty(), "{found}");
    let headline = found["headline"].as_str().unwrap();
    let open = "is slower than expected (4.87ms, expected 200us): up to 99% of the time is spent in the driver, the network, the \
                target and its storage.";
    assert!(headline.contains(open), "{headline}");
    let all = found["verdicts"].as_array().unwrap().iter();
    let device: Vec<&Value> = all.filter(|v| v["rule"] == "device").collect();
    assert!(device.iter().all(|v| v["status"] == "inconclusive"), "{device:?}");
    let contains = device[0]["text"].as_str().unwrap();
    assert!(contains.contains("contains the network, the target and its storage"), "{contains}");
}

/// Recordings without a doorbell, or without an interrupt, keep the device's part open, too.
#[test]
fn joined_stages_give_bounds() {
    for (file, bounds) in
        [("tests/exports/complete.nvd", "78 to 89%"), ("tests/host/nvmet-guest.nvd", "35 to 99%")]
    {
        let program = Path::new(env!("CARGO_BIN_EXE_nvme-deep"));
        let found = crate::planted::diagnosis(program, &root().join(file), &[]);
        let headline = found["headline"].as_str().unwrap();
        assert!(headline.contains(&format!(": {bounds} of the time")), "{headline}");
    }
}

/// Advice about a cause that is none would be followed.
#[test]
fn what_was_not_found_has_no_advice() {
    let mut others = 0;
    for name in ["vcpu-stolen", "tag-wait", "scheduler", "flush-cost", "clean-7.x"] {
        let found = diagnosis(name, &[]);
        for verdict in found["verdicts"].as_array().unwrap() {
            if ["found", "noted"].iter().all(|status| verdict["status"] != *status) {
                others += 1;
                assert_eq!(
                    (&verdict["advice"], &verdict["who"]),
                    (&"".into(), &serde_json::json!([])),
                    "{verdict}"
                );
                assert!(verdict["risk"].is_null(), "{verdict}");
            }
        }
    }
    assert!(others > 50, "{others}");
}

/// What a cause says of single commands, of waits and of a CPU has a referent: times since the start,
/// because these recordings are redacted, blocks, ids.
#[test]
fn each_cause_says_when_which_and_who() {
    for (name, advice, evidence) in [
        // in four of nine stalls the device held all commands of a queue, and none was overtaken
        ("held-by-device", "", "impact: 21 of 4730 commands waited; mean 706ms, longest 708ms"),
        (
            "vcpu-stolen",
            "",
            "impact: the times of all stages, above all DEVICE, include the time when the CPUs did not run",
        ),
        ("held-by-device", "", "when: 2.0-2.8 s, 2.9-3.7 s, 4.2-5.0 s and 6 more"),
        ("errors-timeout", "restore the data of the blocks nvme3n1 64-71", "when: 1.6-1.7 s"),
        ("lost-interrupt", "N is the queue id: here 1 ", ""),
        ("path-failover", "", "blocks: nvme2c2n1 2616-2623"),
        ("cgroup-throttle", "", "when: 2.2-8.3 s"),
        ("wbt", "", "when: 1.7-10.1 s"),
        ("queue-freeze", "", "when: 1.1-7.2 s"),
    ] {
        let found = diagnosis(name, &[]);
        let cause = &found["verdicts"][0];
        let says = cause["advice"].as_str().unwrap();
        assert!(says.contains(advice), "{name}: {says}");
        let all = cause["evidence"].as_array().unwrap().iter();
        let text = |e: &Value| {
            format!("{}: {}", e["name"].as_str().unwrap(), e["value"].as_str().unwrap())
        };
        let all: Vec<String> = all.map(text).collect();
        assert!(evidence.is_empty() || all.contains(&evidence.to_owned()), "{name}: {all:?}");
    }
    let held = &diagnosis("held-by-device", &[])["verdicts"][0];
    let all = held["where"].as_array().unwrap();
    assert_eq!(all.len(), 21);
    let time_ns = |at: &Value| at["end_ns"].as_u64().unwrap() - at["begin_ns"].as_u64().unwrap();
    assert!(all.iter().all(|at| (250_000_000..710_000_000).contains(&time_ns(at))), "{all:?}");
    let first = &all[0];
    assert_eq!([&first["nsid"], &first["qid"]], [1, 1]);
    assert!(all.iter().any(|at| at["cid"] == 8515), "{all:?}");
    let blocks = [&first["blocks"][0], &first["blocks"][1]].map(|at| at.as_u64().unwrap());
    assert_eq!(blocks[1] - blocks[0], 7);
}

/// This part begins 1.7 s before its first command. The CPUs were away for 32% of it, mostly before that command.
#[test]
fn gaps_before_the_first_command_are_no_cause() {
    let found = diagnosis("wbt", &["--until", "3s"]);
    assert!(findings(&found).is_empty(), "{found}");
}

#[test]
fn no_text_points_at_something_that_it_does_not_name() {
    for name in recordings() {
        let found = diagnosis(&name, &[]);
        let all = found["verdicts"].as_array().unwrap().iter();
        for cause in all.filter(|v| v["status"] == "found") {
            let text = format!("{} {} {}", cause["text"], cause["advice"], cause["evidence"]);
            assert!(!text.contains("these"), "{name}: {text}");
            let who = cause["who"].as_array().unwrap();
            assert!((1..=3).contains(&who.len()), "{name}: {cause}");
            let shares: f64 = who.iter().map(|part| part["share"].as_f64().unwrap()).sum();
            assert!(shares > 0.5 && shares < 1.0001, "{name}: {who:?}");
            let by = who[0]["by"].as_str().unwrap();
            assert!(["caller", "submitter"].contains(&by), "{name}: {by}");
        }
    }
}

/// A clean run of a device of 4 ms, from which 1 ms is expected.
fn slow_device() -> Value {
    diagnosis("clean-6.12", &["--expect", "1ms"])
}

#[test]
fn a_device_slower_than_expected_is_named_alone() {
    let found = slow_device();
    assert_eq!(causes(&found), ["device"], "{found}");
    let found = diagnosis("clean-6.12", &["--expect", "8ms"]);
    assert!(causes(&found).is_empty(), "{found}");
}

#[test]
fn each_planted_cause_is_named_alone_and_controls_are_clean() {
    for name in recordings() {
        let found = diagnosis(&name, &[]);
        let expected = planted(&name);
        let (mut named, mut all) = (findings(&found), expected.clone());
        named.sort_unstable();
        all.sort_unstable();
        assert_eq!(named, all, "{name}: {found}");
        assert!(!name.contains("capped") || leaves_a_limit_open(&found), "{name}: {found}");
        assert!(says_which_limit(&name, &found), "{name}: {found}");
        let verdict = found["headline"].as_str().unwrap();
        let clean = verdict.starts_with("No cause found");
        let is_cause = expected.iter().any(|rule| !NOTES.contains(rule));
        assert_eq!(clean, !is_cause, "{name}: {verdict}");
    }
}

/// A row per rule: planted in guests or only on made data, and what the verdict was.
fn table() -> String {
    let names: BTreeSet<String> = recordings().into_iter().collect();
    let mut text = "| rule | planted in a guest | verdict on the plant | on its control |\n|---|---|---|---|\n".to_owned();
    let verdict = |found: &Value| found["headline"].as_str().unwrap().to_owned();
    let of = |name: &str| names.contains(name).then(|| verdict(&diagnosis(name, &[])));
    let or_none = |verdict: Option<String>| verdict.unwrap_or_else(|| "-".into());
    for rule in RULES.iter() {
        let (plant, control) = match rule.id {
            "device" => (Some(verdict(&slow_device())), of("clean-6.12")),
            name => (of(name), of(&format!("{name}-control"))),
        };
        let planted = match plant {
            Some(_) if NOTES.contains(&rule.id) => "yes: a note",
            Some(_) => "yes",
            None => "no: made data only",
        };
        let [plant, control] = [plant, control].map(or_none);
        text += &format!("| {} | {planted} | {plant} | {control} |\n", rule.id);
        let others = names.iter().filter(|n| n.starts_with(&format!("{}@", rule.id)));
        let others: BTreeSet<&str> = others.map(|n| n.trim_end_matches("-control")).collect();
        for name in others {
            let [plant, control] = [of(name), of(&format!("{name}-control"))].map(or_none);
            text += &format!("| {name} | yes | {plant} | {control} |\n");
        }
    }
    let mut clean: BTreeMap<(&str, String), Vec<&str>> = BTreeMap::new();
    for name in names.iter().filter(|n| n.starts_with("clean")) {
        let (load, kernel) = name.rsplit_once('-').unwrap();
        let headline = verdict(&diagnosis(name, &[]));
        // how much of the time is where differs
        let said = headline.split(':').next().unwrap().to_owned();
        clean.entry((load, said)).or_default().push(kernel);
    }
    for ((load, said), kernels) in clean {
        text += &format!("| none: {load} | {} | {said} | |\n", kernels.join(", "));
    }
    text
}

#[test]
fn the_table_in_the_docs_is_that_of_the_recordings() {
    docs_have("dev/diagnose.md", "<!-- make matrix writes this table -->\n", &table());
}
