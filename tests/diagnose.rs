// SPDX-License-Identifier: MIT OR Apache-2.0
//! `diagnose --from` of the built binary, on recordings of synthetic runs: verdicts, exit codes,
//! expectations, and what a recording may lack.

use std::fs;
use std::fs::File;
use std::path::PathBuf;

use nvme_deep::StageSet;
use nvme_deep::model::event::Event;
use nvme_deep::model::point::Point;
use nvme_deep::recording::{ClockOffset, Content, LedgerInfo, RunInfo, Writer};
use serde_json::Value;
use tempfile::TempDir;

use crate::binary::{Ran, run};
use crate::causes::Cause;
use crate::load::{BEGIN, Load, Run};
use crate::plants::{PLANTS, Plant};
use crate::{planted, testing};

/// Recordings of a test.
struct Files(TempDir);

/// What is recorded besides the commands.
#[derive(Clone, Copy, PartialEq)]
enum Kind {
    Context,
    NoContext,
    NoStages,
    /// Commands were lost.
    Lossy,
}

fn ledger(at_ns: u64, commands: u64, lost: u64) -> LedgerInfo {
    let mut info = testing::recording::ledger(at_ns, 0, commands);
    info.ledger.as_mut().unwrap().no_row = lost;
    info
}

/// As the driver's completion is recorded: an event has the time of the completion, not of the end.
fn at_completion(event: &Event) -> Event {
    let outcome = event.what.outcome();
    let line = outcome.and_then(|outcome| outcome.timeline);
    let at_ns = line.map_or(event.at_ns, |line| line.ns(Point::Complete));
    Event { at_ns, ..*event }
}

impl Files {
    fn new() -> Self {
        Self(TempDir::new().unwrap())
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// Records a load with these causes. Returns the path.
    fn record(&self, name: &str, load: &Load, causes: &[Cause], kind: Kind) -> String {
        self.write(name, load, causes, kind, RunInfo::default())
    }

    /// The same, with only the commands that these options selected.
    fn selected(
        &self,
        name: &str,
        load: &Load,
        causes: &[Cause],
        filter: &str,
        slow_ns: Option<u64>,
    ) -> String {
        let info = RunInfo { filter: filter.into(), slow_ns, ..RunInfo::default() };
        self.write(name, load, causes, Kind::Context, info)
    }

    fn write(
        &self,
        name: &str,
        load: &Load,
        causes: &[Cause],
        kind: Kind,
        info: RunInfo,
    ) -> String {
        let path = self.path(name);
        let made = load.run(causes);
        let commands = made.events.len() as u64;
        let context = matches!(kind, Kind::Context | Kind::Lossy);
        let info = RunInfo {
            begin_ns: BEGIN,
            wall_ns: Some(0),
            pairs: true,
            sample_period: 1,
            kernel: Some("6.12".into()),
            stage_set: match kind {
                Kind::NoStages => StageSet::Total,
                _ => StageSet::Fine,
            },
            ..info
        };
        let mut recorder = Writer::create(File::create(&path).unwrap(), None).unwrap();
        recorder.block(Content::Run, BEGIN, &info);
        recorder.block(Content::Clock, BEGIN, &ClockOffset { wall_ns: 0 });
        recorder.block(Content::Controllers, BEGIN, &Run::controllers());
        if context {
            recorder.block(Content::Machine, BEGIN, &made.machine);
            recorder.block(Content::Activity, BEGIN, &made.first_activity());
        }
        recorder.block(Content::Ledger, BEGIN, &ledger(0, 0, 0));
        let mut events: Vec<Event> = made.events.iter().map(at_completion).collect();
        events.sort_by_key(|event| event.at_ns);
        for event in &events {
            recorder.push(event);
        }
        recorder.flush();
        let passed = made.covers.as_nanos() as u64;
        if context {
            recorder.block(Content::Activity, BEGIN + passed, &made.activity);
        }
        let lost = if kind == Kind::Lossy { 7 } else { 0 };
        let end = ledger(passed, commands, lost);
        recorder.block(Content::End, BEGIN + passed, &end);
        recorder.finish();
        path.display().to_string()
    }
}

/// A short load.
fn load() -> Load {
    Load { seconds: 4.0, ..Load::default() }
}

/// Cuts a file within its last block.
fn damage(file: &str) {
    let whole = fs::read(file).unwrap();
    fs::write(file, &whole[..whole.len() - 40]).unwrap();
}

fn ends(ran: &Ran, code: i32, first: &str) {
    assert_eq!(ran.code, Some(code), "{}: {}", ran.words, ran.err);
    let line = ran.out.lines().next().unwrap_or_default();
    assert!(line.starts_with(first), "{}: {}", ran.words, ran.out);
}

#[test]
fn check_ends_with_3_for_a_cause_and_with_1_if_nothing_is_known() {
    let files = Files::new();
    let few = Load { seconds: 0.2, ..load() };
    let cause = files.record("cause", &load(), &[Cause::Scheduler], Kind::Context);
    let control = files.record("control", &load(), &[], Kind::Context);
    let few = files.record("few", &few, &[Cause::Scheduler], Kind::Context);
    let lossy = files.record("lossy", &load(), &[Cause::Scheduler], Kind::Lossy);
    for (file, first, check, says) in [
        (
            &cause,
            "Requests of nvme0n1 wait in the I/O scheduler mq-deadline",
            3,
            "nvme-deep: found: scheduler (--check)\n",
        ),
        (&control, "No cause found", 0, ""),
        (&few, "No verdict: only ", 1, "no rule could be judged (--check)"),
        (
            &lossy,
            "No verdict: the recording is not exact (7 commands without a row)",
            1,
            "no rule could be judged (--check)",
        ),
    ] {
        let ran = run(&format!("diagnose --from {file}"));
        ends(&ran, 0, first);
        assert_eq!(ran.err, "", "{file}");
        let checked = run(&format!("diagnose --check --from {file}"));
        ends(&checked, check, first);
        assert_eq!(checked.out, ran.out, "{file}");
        assert!(checked.err.contains(says), "{file}: {}", checked.err);
        assert_eq!(checked.err.is_empty(), check == 0, "{file}");
    }
}

#[test]
fn a_recording_without_stages_is_refused() {
    let files = Files::new();
    let file = files.record("none", &load(), &[], Kind::NoStages);
    let says = "has no stages, which `diagnose` needs: record without --stages=none";
    run(&format!("diagnose --from {file}")).refuses(2, says);
    let other = files.record("other", &load(), &[], Kind::Context);
    run(&format!("diagnose --from {other} --baseline {file}")).refuses(2, says);
}

/// Without conditions, rules that need it are not judged, and the others are.
#[test]
fn without_context_fewer_rules_are_judged() {
    let files = Files::new();
    let file = files.record("x", &load().without_bios(), &[Cause::OneIrqCpu], Kind::NoContext);
    let ran = run(&format!("diagnose --json --from {file}"));
    let object: Value = serde_json::from_str(&ran.out).unwrap();
    assert_eq!(object["verdicts"][0]["rule"], "one-irq-cpu");
    let names = planted::with_status(&object, "not_observed");
    for rule in ["vcpu-stolen", "tag-wait", "scheduler", "split", "bounce", "iommu"] {
        assert!(names.contains(&rule), "{names:?}");
    }
    assert_eq!(object["machine"], Value::Null);
}

#[test]
fn what_is_slow_depends_on_what_was_expected() {
    let files = Files::new();
    let slow = files.record("slow", &load(), &[Cause::Device], Kind::Context);
    let usual = files.record("usual", &load(), &[], Kind::Context);
    let large = Load { sizes: &[65536], ..load() };
    let large = files.record("large", &large, &[], Kind::Context);
    let device = "nvme0 is slower than expected: 1.08ms, expected";
    for (expect, first) in [
        (String::new(), "No cause found"),
        ("--expect 300us".into(), device),
        ("--expect 10ms".into(), "No cause found"),
        (format!("--baseline {usual}"), device),
        (format!("--baseline {slow}"), "No cause found"),
        (format!("--baseline {large}"), "No cause found"),
    ] {
        ends(&run(&format!("diagnose {expect} --from {slow}")), 0, first);
    }
    let ran = run(&format!("diagnose --baseline {large} --from {slow}"));
    let says = "the baseline has no commands like read 4K nvme0n1";
    let words: Vec<&str> = ran.out.split_whitespace().collect();
    assert!(words.join(" ").contains(says), "{}", ran.out);
}

#[test]
fn a_filter_leaves_out_commands() {
    let files = Files::new();
    let file = files.record("x", &load(), &[Cause::Scheduler], Kind::Context);
    let none = run(&format!("diagnose --ctrl nvme7 --from {file}"));
    assert_eq!(none.code, Some(6), "{}", none.out);
    assert!(none.err.contains("no controller nvme7"), "{}", none.err);
    let reads = run(&format!("diagnose --opcode read --from {file}"));
    assert!(!reads.out.contains("write 4K"), "{}", reads.out);
}

/// Rules whose verdict needs all commands.
const NEED_ALL: &str = "scheduler request-wait split not-polling one-irq-cpu flush-cost few-queues rate-cap doorbell-unseen";

/// The filter selects all of these commands. That others may have been left out is what counts.
#[test]
fn with_a_filter_no_rule_that_needs_all_commands_names_a_cause() {
    let files = Files::new();
    let needs_all = |plant: &&Plant| NEED_ALL.split(' ').any(|rule| plant.rule == rule);
    // the log of the volume needs no commands, and these recordings have no waits before the request
    let others = [Cause::LoggedCap, Cause::OtherWait];
    let plants = PLANTS.iter().filter(needs_all).filter(|plant| !others.contains(&plant.cause));
    for Plant { rule, cause, load: adapt } in plants {
        let mut load = load();
        adapt(&mut load);
        let file = files.record(rule, &load, &[*cause], Kind::Context);
        let said = |options: &str| -> Value {
            let ran = run(&format!("diagnose --json {options} --from {file}"));
            serde_json::from_str(&ran.out).unwrap()
        };
        let verdict = |found: &Value| {
            let mut all = found["verdicts"].as_array().unwrap().iter();
            all.find(|v| v["rule"] == *rule).unwrap().clone()
        };
        let all = said("");
        let is_named = ["found", "noted"].map(Value::from).contains(&verdict(&all)["status"]);
        assert!(is_named, "{rule}: {all}");
        let some = said("--process 7");
        assert_eq!(some["commands"], all["commands"]);
        let open = verdict(&some);
        assert_eq!(open["status"], "inconclusive", "{rule}: {some}");
        let why = open["text"].as_str().unwrap();
        assert!(why.ends_with("needs all commands, and --process left some out"), "{why}");
    }
}

/// What was left out while recording counts as much.
#[test]
fn a_recording_with_a_filter_shows_no_limit() {
    let files = Files::new();
    let load = Load { seconds: 5.0, ..load() };
    let file = files.selected("x", &load, &[Cause::OneIrqCpu], "--opcode io:read", None);
    let ran = run(&format!("diagnose -v --from {file}"));
    ends(&ran, 0, "No cause found");
    let says = "needs all commands, and --opcode left some out";
    let words: Vec<&str> = ran.out.split_whitespace().collect();
    assert!(words.join(" ").contains(says), "{}", ran.out);
    let ctrl = files.selected("y", &load, &[Cause::OneIrqCpu], "--ctrl nvme0", None);
    let ran = run(&format!("diagnose --from {ctrl}"));
    ends(&ran, 0, "CPU 0 completes the commands");
}

/// Slow commands are slower than expected, whatever the device does.
#[test]
fn commands_that_were_chosen_because_they_are_slow_show_no_times() {
    let files = Files::new();
    let file = files.selected("x", &load(), &[], "", Some(1000));
    let ran = run(&format!("diagnose --expect 1us --from {file}"));
    ends(&ran, 0, "No verdict: the recording has only commands that --slow chose");
}

/// A cause in one of several recordings is no error of reading.
#[test]
fn check_of_several_recordings_ends_with_the_gravest_verdict() {
    let files = Files::new();
    let short = Load { seconds: 0.2, ..load() };
    let cause = files.record("cause", &load(), &[Cause::Scheduler], Kind::Context);
    let control = files.record("control", &load(), &[], Kind::Context);
    let few = files.record("few", &short, &[], Kind::Context);
    let cut = files.record("cut", &load(), &[Cause::Scheduler], Kind::Context);
    damage(&cut);
    let [found, unknown] = ["found: scheduler", "no rule could be judged"];
    for (a, b, code, said, last) in [
        (&control, &cause, 3, found, "1 of 2 recordings did not pass"),
        (&few, &control, 1, unknown, "1 of 2 recordings did not pass"),
        (&few, &cause, 3, found, "2 of 2 recordings did not pass"),
        (&cut, &cause, 1, found, "1 of 2 recordings could not be read"),
    ] {
        let ran = run(&format!("diagnose --check --from {a} {b}"));
        assert_eq!(ran.code, Some(code), "{a} {b}: {}", ran.err);
        for text in [said, last] {
            assert!(ran.err.contains(text), "{text}: {}", ran.err);
        }
        assert_eq!(ran.err.contains("not be read"), a == &cut, "{}", ran.err);
    }
}

/// What is whole is diagnosed; the exit code says that the rest is missing, also with `--check`.
#[test]
fn of_a_damaged_recording_the_first_part_is_diagnosed() {
    let files = Files::new();
    let file = files.record("x", &load(), &[Cause::Scheduler], Kind::Context);
    damage(&file);
    for check in ["", "--check"] {
        let ran = run(&format!("diagnose {check} --from {file}"));
        assert_eq!(ran.code, Some(1), "{}", ran.err);
        assert!(ran.out.contains("COMMANDS "), "{}", ran.out);
        assert!(ran.err.contains("is damaged"), "{}", ran.err);
    }
}

#[test]
fn colour_and_detail_are_options() {
    let files = Files::new();
    let file = files.record("x", &load(), &[Cause::Scheduler], Kind::Context);
    let plain = run(&format!("diagnose --from {file}"));
    assert!(!plain.out.contains('\u{1b}'));
    let colored = run(&format!("diagnose --color always --from {file}"));
    assert!(colored.out.contains("\u{1b}["));
    for line in plain.out.lines() {
        assert!(line.chars().count() <= 80, "{line}");
    }
}

/// The report names what other rules need, and says if the file has no end. A filter that selects
/// nothing is named.
#[test]
fn the_first_line_is_true_of_what_was_recorded() {
    let first = |words: &str| run(&format!("diagnose --json {words}"));
    let verdict = |ran: &Ran| -> Value { serde_json::from_str(&ran.out).unwrap() };
    for (file, needs) in [
        ("qemu-guest", "and 14 more (record --stages=full)."),
        ("nested-guest", "(record --stages=full)"),
    ] {
        let from = format!("--from tests/host/{file}.nvd");
        let text =
            run(&format!("diagnose {from}")).out.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(text.contains(needs), "{text}");
        assert_eq!(verdict(&first(&from))["whole"], true);
    }
    let whole = "tests/recordings/diagnose/bounce.nvd";
    let nothing = verdict(&first(&format!("--opcode flush --from {whole}")));
    let text = "No verdict: no I/O command finished (selected by --opcode).";
    assert_eq!(nothing["headline"], text);
    let dir = tempfile::tempdir().unwrap();
    let cut = dir.path().join("cut.nvd");
    let bytes = fs::read(whole).unwrap();
    fs::write(&cut, &bytes[..bytes.len() / 2]).unwrap();
    let found = verdict(&first(&format!("--from {}", cut.display())));
    assert_eq!(found["whole"], false, "{found}");
}
