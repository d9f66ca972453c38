// SPDX-License-Identifier: MIT OR Apache-2.0
//! Filters are exact, alone and together; clocks; how a trace ends.

use std::collections::BTreeSet;

use jiff::Timestamp;
use serde_json::Value;

use super::guest::{Outcome, Suite};
use super::json::{number, text};
use super::trace_known::assert_stages;
use super::trace_read::{Line, TraceRun, at, key, lines, opcode, status};

const MS: u64 = 1_000_000;

const WORDS: Suite = Suite::of(
    "tracewords",
    &[
        "nvme_null nvme0 0 namespaces=2",
        "nvme_null nvme1 20000000",
        "nvme_blkdebug nvme2 0 read,sector=2048",
        "nvme_null nvme3 5000000000",
    ],
);

/// The part of an event that two runs of the tool must agree on.
fn identity(e: &Value) -> String {
    let (ctrl, qid, cid) = key(e);
    let rest = ["nsid", "opcode_value", "fields", "bytes", "pid"].map(|f| e[f].to_string());
    format!("{ctrl} {qid} {cid} {}", rest.join(" "))
}

fn identities<'e>(events: impl Iterator<Item = &'e Value>) -> Vec<String> {
    let mut all: Vec<String> = events.map(identity).collect();
    all.sort();
    all
}

fn slba(e: &Value) -> Option<u64> {
    e["fields"]["slba"].as_u64()
}

fn filters_hold_exactly(outcome: &Outcome) {
    let all = TraceRun::whole(outcome, "filters", "all");
    let pairs = all.pairs();
    let pid: u64 = outcome.text("filters", "pid").trim().parse().unwrap();
    let on = |e: &Value, ctrl: &str| text(e, "ctrl") == ctrl;
    let io = |e: &Value| text(e, "queue") == "io";
    // a kernel thread calls the driver again for a read that failed
    let dd = |e: &Value| e["submitter_comm"] == "dd";
    let first = |e: &Value| on(e, "nvme0") && io(e) && e["nsid"] == 1;
    type Holds<'f> = &'f dyn Fn(&Value) -> bool;
    let filters: [(&str, Option<usize>, Holds<'_>); 14] = [
        ("ctrl", Some(20), &|e| on(e, "nvme1")),
        ("nsid", Some(30), &|e| e["nsid"] == 2),
        // the number depends on the CPUs that the load ran on
        ("qid", None, &|e| on(e, "nvme0") && e["qid"] == 2),
        ("qid0", Some(5), &|e| e["qid"] == 0),
        ("opcode", Some(30), &|e| opcode(e) == "io:0x01"),
        ("opcodes", Some(35), &|e| ["admin:0x02", "io:0x01"].contains(&opcode(e).as_str())),
        ("no-admin", Some(92), &|e| on(e, "nvme0") && io(e)),
        ("no-io", Some(5), &|e| !io(e)),
        ("pid", Some(15), &|e| e["submitter_pid"] == pid),
        ("comm", None, &dd),
        ("cgroup", Some(7), &|e| first(e) && dd(e) && slba(e) < Some(56)),
        ("no-one", Some(0), &|_| false),
        ("lba", Some(4), &|e| {
            let range = slba(e).map(|n| n..=n + number(&e["fields"], "len"));
            first(e) && range.is_some_and(|r| *r.start() <= 530 && *r.end() >= 522)
        }),
        ("and", Some(12), &|e| {
            first(e) && opcode(e) == "io:0x02" && e["submitter_pid"] == pid && slba(e) <= Some(600)
        }),
    ];
    for (name, count, holds) in filters {
        let run = TraceRun::whole(outcome, "filters", name);
        let want = identities(pairs.iter().map(|p| p.0).filter(|e| holds(e)));
        assert_eq!(identities(run.of("submit")), want, "{name}");
        let ours = run.pairs();
        assert_eq!(identities(ours.iter().map(|p| p.0)), want, "{name}");
        assert!(count.is_none_or(|n| n == want.len()), "{name}: {}", want.len());
        let turned = run.entry("filtered");
        assert_eq!(run.entry("seen") + turned, pairs.len() as u64, "{name}");
    }
}

fn slow_and_failed_ones_only(outcome: &Outcome) {
    let all = TraceRun::read(outcome, "filters", "all");
    let pairs = all.pairs();
    let slow = TraceRun::whole(outcome, "filters", "slow");
    assert_eq!(slow.count("submit") + slow.count("complete"), 0, "one line a command");
    for command in slow.of("command") {
        assert!(number(command, "total_ns") >= 3 * MS, "{command}");
    }
    // nvme1 takes 20 ms; some commands of the others may have waited
    let late = |e: &&Value| text(e, "ctrl") == "nvme1";
    let want = identities(pairs.iter().map(|p| p.0).filter(late));
    assert_eq!(identities(slow.of("command").filter(late)), want);
    assert_eq!(slow.entry("not_shown") + slow.count("command"), pairs.len() as u64);

    let errors = TraceRun::whole(outcome, "filters", "errors");
    let failed = pairs.iter().filter(|(_, end)| status(end) != 0);
    let want = identities(failed.map(|p| p.0));
    assert_eq!(identities(errors.of("command")), want);
    assert_eq!(want.len(), 6, "a read and its five retries");
    for command in errors.of("command") {
        assert_eq!(status(command) & 0x7ff, 0x281, "{command}");
        assert_eq!(command["status"]["name"], "Unrecovered Read Error", "{command}");
        assert_stages(command);
    }
    assert_eq!(errors.entry("not_shown") + errors.count("command"), pairs.len() as u64);
}

/// Nanoseconds since 1970 of `2026-11-21T19:11:21.123456789+01:00`.
fn wall_ns(stamp: &str) -> i128 {
    assert_eq!(stamp.len(), 35, "{stamp}");
    stamp.parse::<Timestamp>().unwrap().as_nanosecond()
}

/// A `mark` of the guest: CLOCK_MONOTONIC and the time of day.
fn mark(outcome: &Outcome, case: &str, when: &str) -> [i128; 2] {
    let text = outcome.text(case, &format!("mark.{when}"));
    let mut words = text.split_whitespace().map(|w| w.parse().unwrap());
    [(); 2].map(|()| words.next().unwrap())
}

fn clocks_are_true(outcome: &Outcome) {
    const SECOND: i128 = 1_000_000_000;
    let [begin, load, end] = ["begin", "load", "end"].map(|w| mark(outcome, "clocks", w));
    let text_of = |name| lines(outcome, "clocks", name);
    let (mono, rel, wall) = (text_of("mono"), text_of("rel"), text_of("wall"));
    assert!(mono.len() >= 20, "ten reads: {mono:?}");
    let within = |ns: i128, n: usize, slack: i128| {
        assert!((load[n] - slack..=end[n] + slack).contains(&ns), "{ns}: {load:?} {end:?}");
    };
    for line in &mono {
        within(line.time.parse().unwrap(), 0, 0);
    }
    let run = TraceRun::read(outcome, "clocks", "wall-json");
    let time = text(&run.events[0], "time");
    let (date, zone) = (&time[..11], &time[29..]);
    for line in &wall {
        within(wall_ns(&format!("{date}{}000{zone}", line.time)), 1, SECOND);
    }
    let mut before = 0;
    for line in &rel {
        let (seconds, nanos) = line.time.split_once('.').unwrap();
        assert_eq!(nanos.len(), 9, "{line:?}");
        let ns = seconds.parse::<i128>().unwrap() * SECOND + nanos.parse::<i128>().unwrap();
        // the trace began after the first mark, and before the load
        assert!(ns >= before && ns <= end[0] - begin[0], "{line:?}");
        before = ns;
    }
    let run = TraceRun::read(outcome, "clocks", "rel-json");
    let begins: BTreeSet<i128> = run
        .events
        .iter()
        .map(|e| i128::from(at(e)) - i128::from(e["time_rel_ns"].as_i64().unwrap()))
        .collect();
    assert_eq!(begins.len(), 1, "{begins:?}");
    assert!((begin[0]..load[0]).contains(begins.first().unwrap()), "{begins:?}");
    let run = TraceRun::read(outcome, "clocks", "wall-json");
    for event in &run.events {
        let apart = wall_ns(text(event, "time")) - i128::from(at(event));
        assert!((apart - (load[1] - load[0])).abs() < SECOND, "{event}");
    }
}

fn counts_and_durations_end_it(outcome: &Outcome) {
    let run = TraceRun::read(outcome, "ends", "count");
    assert_eq!(run.count("complete"), 5);
    let ended: Vec<_> = run.of("complete").map(identity_of_end).collect();
    let asked: Vec<_> = run.of("submit").map(identity_of_end).collect();
    assert!(ended.iter().all(|e| asked.contains(e)), "{ended:?} {asked:?}");
    let last = run.events.last().unwrap();
    assert_eq!(text(last, "type"), "complete", "nothing comes after it: {last}");
    let text_lines = lines(outcome, "ends", "count-text");
    let commands = text_lines.iter().filter(|l: &&Line| l.event == "Command");
    assert_eq!((commands.count(), text_lines.len()), (3, 3));
    for name in ["duration", "count-text"] {
        assert_eq!(outcome.code("ends", name), 0, "{name}");
    }
}

fn identity_of_end(e: &Value) -> String {
    format!("{:?} {}", key(e), e["opcode_value"])
}

/// The trace shows commands that wait for the device when it ends, with their age.
fn unfinished_commands_are_reported(outcome: &Outcome) {
    let [asked, end] = ["asked", "end"].map(|when| mark(outcome, "unfinished", when)[0]);
    for name in ["events", "pairs"] {
        let run = TraceRun::read(outcome, "unfinished", name);
        run.assert_in_order();
        let open: Vec<_> = run.of("unfinished").collect();
        let ended = if name == "events" { "complete" } else { "command" };
        assert_eq!((open.len(), run.count(ended)), (8, 4), "{name}");
        assert_eq!(run.entry("in_flight"), 8, "{name}");
        for event in &open {
            assert_eq!(text(event, "ctrl"), "nvme3", "{event}");
            let (now, age) = (i128::from(at(event)), number(event, "age_ns"));
            assert!(age > 0 && now <= end, "{asked} {end} {event}");
            assert!(now - i128::from(age) >= asked, "{asked} {end} {event}");
        }
        if name == "pairs" {
            let places: BTreeSet<_> = open.iter().map(|e| slba(e)).collect();
            assert_eq!(places, (0..8).map(|n| Some(n * 8)).collect());
            continue;
        }
        assert_eq!(run.count("submit"), 12);
        for event in &open {
            let submit = run.of("submit").rfind(|s| key(s) == key(event));
            let submit = submit.unwrap_or_else(|| panic!("of what? {event}"));
            let age = at(event) - at(submit);
            // the points lie close together, unless the host deschedules the vCPU between them
            assert!(age.abs_diff(number(event, "age_ns")) < 50 * MS, "{submit} {event}");
        }
    }
    let text_lines = lines(outcome, "unfinished", "text");
    let open: Vec<_> = text_lines.iter().filter(|l| l.event == "Unfinished").collect();
    assert_eq!(open.len(), 8, "{open:?}");
    assert!(open.iter().all(|l| l.rest.contains(", age=")), "{open:?}");
}

super::on_kernels! {
    filters WORDS [filters_hold_exactly slow_and_failed_ones_only] {
        | only_in_test_all on_6_12 "6.12" on_5_10 "5.10" on_6_1 "6.1" on_7_x "7.x"
    }
    words WORDS [clocks_are_true counts_and_durations_end_it unfinished_commands_are_reported] {
        | only_in_test_all on_6_12 "6.12" on_6_1 "6.1" on_7_x "7.x"
    }
}
