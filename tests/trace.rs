// SPDX-License-Identifier: MIT OR Apache-2.0
//! `trace` of recordings: which commands are slow, the slowest, retries, and the time.

use nvme_deep::model::event::{Event, EventKind};
use serde_json::Value;
use tempfile::TempDir;

use crate::binary::{nanos, objects, run, shown};
use crate::testing::EventBuilder;
use crate::testing::recording::{SECOND, info, made};

const WBT: &str = "tests/recordings/diagnose/wbt.nvd";
const SCHEDULER: &str = "tests/recordings/diagnose/scheduler.nvd";
/// With stacks.
const MIXED: &str = "tests/exports/mixed.nvd";
/// With retries.
const RETRIES: &str = "tests/recordings/6.12.nvd";

/// The JSON objects of commands.
fn commands(words: &str) -> Vec<Value> {
    let mut all = objects(&format!("trace --json {words}"));
    all.retain(|object| object["type"] == "command");
    all
}

fn id(command: &Value) -> (u64, u64) {
    (command["time_ns"].as_u64().unwrap(), command["cid"].as_u64().unwrap())
}

/// From the first to the last point.
fn took(command: &Value) -> u64 {
    let points = command["points_ns"].as_object().unwrap().values();
    let points: Vec<u64> = points.map(|ns| ns.as_u64().unwrap()).collect();
    points.iter().max().unwrap() - points.iter().min().unwrap()
}

#[test]
fn slow_commands_are_slow_from_their_first_to_their_last_point() {
    for (file, slow, millis) in [(WBT, 20_000_000, "20ms"), (SCHEDULER, 15_000_000, "15ms")] {
        let all = commands(&format!("--from {file}"));
        let want: Vec<_> = all.iter().filter(|c| took(c) >= slow).map(id).collect();
        let by_driver = all.iter().filter(|c| c["driver_ns"].as_u64().unwrap() >= slow).count();
        assert!(want.len() > 100 && by_driver < want.len() / 2, "{} {by_driver}", want.len());
        // whatever is shown of them
        for stages in ["", "--stages=none", "--stages=basic"] {
            let found = commands(&format!("{stages} --slow {millis} --from {file}"));
            assert_eq!(found.iter().map(id).collect::<Vec<_>>(), want, "{file} {stages}");
        }
        let csv = shown(&format!("export {file} --format csv --slow {millis} -o -"));
        assert_eq!(csv.lines().count(), want.len() + 1, "{file}");
    }
}

#[test]
fn the_slowest_come_first_with_their_stages_and_their_callers() {
    for file in [WBT, MIXED] {
        let mut all = commands(&format!("--from {file}"));
        // the start of the others was not observed
        all.retain(|c| {
            ["start", "setup_in", "setup_out"].iter().any(|at| !c["points_ns"][at].is_null())
        });
        all.sort_by_key(|command| std::cmp::Reverse(took(command)));
        for n in [1, 7, 10_000] {
            let slowest = commands(&format!("--slowest {n} --from {file}"));
            let totals: Vec<u64> =
                slowest.iter().map(|c| c["total_ns"].as_u64().unwrap()).collect();
            let want: Vec<u64> = all.iter().map(took).take(n).collect();
            assert_eq!(totals, want, "{file} {n}");
        }
    }
    let reads = commands(&format!("--slowest 4 --opcode read --from {WBT}"));
    assert_eq!(reads.len(), 4);
    assert!(reads.iter().all(|read| read["opcode"] == "read"));

    let text = shown(&format!("trace --slowest 5 --kstack --from {MIXED}"));
    let (before, table) = text.split_once(" commands, by total\n").unwrap();
    // resets, and what is in flight at the end, are never left out
    let count = |what: &str| before.lines().filter(|line| line.contains(what)).count();
    assert_eq!([count(" -- "), count("! unfinished")], [3, 2], "{text}");
    let lines: Vec<&str> = table.lines().skip(1).collect();
    assert_eq!(lines.len(), 15, "{text}");
    let totals: Vec<u64> = lines.chunks(3).map(|three| time(column(three[0], 8))).collect();
    let largest: Vec<u64> = lines.chunks(3).map(|three| time(column(three[1], 1))).collect();
    assert!(totals.is_sorted_by(|a, b| a >= b), "{text}");
    for (three, (total, largest)) in lines.chunks(3).zip(totals.iter().zip(&largest)) {
        assert!(largest <= total && *largest > total / 8, "{three:?}");
        let path = three[2].strip_prefix("    ").unwrap();
        assert!(!path.ends_with("nvme_setup_cmd") && path.contains(" > "), "{path}");
    }
}

fn time(text: &str) -> u64 {
    nanos(text) as u64
}

/// A word of a line.
fn column(line: &str, n: usize) -> &str {
    line.split_whitespace().nth(n).unwrap().trim_end_matches([',', '+'])
}

/// What text has of each command is what JSON has, and KERNEL and DEVICE make up TOTAL.
#[test]
fn columns_say_what_json_says() {
    for file in [WBT, SCHEDULER, MIXED] {
        let all = commands(&format!("--from {file}"));
        let names = "disk,op,qid,cid,lba,process,kernel,device,total";
        let text = shown(&format!("trace --columns {names} --from {file}"));
        let rows: Vec<Vec<&str>> = text
            .lines()
            .map(|line| line.split_whitespace().collect::<Vec<_>>())
            .filter(|words| words.len() == 9 && words[2].parse::<u16>().is_ok())
            .filter(|words| words[8] != "-")
            .collect();
        assert_eq!(rows.len(), all.len(), "{file}");
        for (row, command) in rows.iter().zip(&all) {
            let disk = command["disk"].as_str().or(command["ctrl"].as_str()).unwrap();
            let comm = command["comm"].as_str().filter(|comm| !comm.is_empty());
            let who = format!("{}[{}]", comm.unwrap_or("redacted"), command["pid"]);
            let lba = command["fields"]["slba"].as_u64().map_or("-".into(), |lba| lba.to_string());
            assert_eq!(row[..2], [disk, command["opcode"].as_str().unwrap()], "{command}");
            assert_eq!(row[2..4].join(" "), format!("{} {}", command["qid"], command["cid"]));
            assert_eq!(row[4], lba, "{command}");
            if !command["pid"].is_null() && row[5] != "?" && comm.is_none_or(|c| !c.contains(' ')) {
                assert!(row[5] == who || row[5].contains('…'), "{row:?} {command}");
            }
            let total = command["total_ns"].as_u64().unwrap();
            assert!(time(row[8]).abs_diff(total) <= total / 199, "{row:?} {total}");
            if row[6] != "?" {
                let sum = time(row[6]) + time(row[7].trim_end_matches('+'));
                assert!(sum.abs_diff(total) <= total / 99, "{row:?} {total}");
            }
        }
    }
}

#[test]
fn the_ledger_counts_what_slowest_leaves_out() {
    let end = objects(&format!("trace --json --slowest 7 --from {MIXED}")).pop().unwrap();
    let events = shown(&format!("trace --json --events --from {MIXED}"));
    let is_over = |line: &&str| {
        ["command", "missed"].iter().any(|kind| line.starts_with(&format!("{{\"type\":\"{kind}\"")))
    };
    let all = events.lines().filter(is_over).count() as u64;
    assert!(all > commands(&format!("--from {MIXED}")).len() as u64, "none was missed");
    let number = |name: &str| end["ledger"][name].as_u64().unwrap();
    assert_eq!((number("commands_shown"), number("events_shown")), (7, 5));
    assert_eq!(number("not_shown"), all - 7);
}

#[test]
fn the_wait_that_is_most_of_the_time_before_the_request_is_named() {
    let slowest = shown(&format!("trace --long --slowest 20 --from {WBT}"));
    let named = slowest.lines().filter(|line| line.contains("ms (wbt), queue="));
    assert!(named.count() > 10, "{slowest}");
    let none = shown(&format!("trace --long --slowest 20 --stages=full --from {WBT}"));
    assert!(none.contains(", wbt=") && !none.contains("(wbt)"), "{none}");
    let columns = shown(&format!("trace --columns total,mostly --slowest 20 --from {WBT}"));
    let of_rows = columns.lines().filter(|line| line.contains(" wbt ") && line.ends_with('%'));
    assert!(of_rows.count() > 10, "{columns}");
}

#[test]
fn a_retry_is_below_its_command_and_other_events_are_apart() {
    let is_below = |line: &&str| line.ends_with("will be tried again") || line.contains(": retry ");
    for form in ["", "--long"] {
        let text = shown(&format!("trace {form} --from {RETRIES}"));
        let lines: Vec<&str> = text.lines().collect();
        let retries: Vec<usize> = (0..lines.len()).filter(|&n| is_below(&lines[n])).collect();
        assert_eq!(retries.len(), 5, "{text}");
        for (n, at) in (1..).zip(retries) {
            assert_eq!(lines[at].trim_start(), format!("will be tried again: retry {n}"));
            assert!(lines[at - 1].contains("(Media/Unrecovered Read Error)"), "{text}");
            assert!(form == "--long" || lines[at - 1].ends_with(&format!(", attempt {n}")));
        }
    }
    let slow = shown(&format!("trace --long --slow 400us --errors --from {RETRIES}"));
    let slow: Vec<&str> = slow.lines().collect();
    assert!(
        matches!(slow[..], [first, second] if first.contains("retries=0") && second.contains("retry 1")),
        "{slow:?}"
    );
    let events = shown(&format!("trace --events --from {RETRIES}"));
    assert_eq!(events.lines().filter(|line| line.contains(" Retry nvme1: ")).count(), 5);
    let late = shown(&format!("trace --long --from {MIXED}"));
    let apart: Vec<&str> = late.lines().filter(|line| line.starts_with("-- ")).collect();
    for event in ["State", "Timeout"] {
        let all = late.lines().filter(|line| line.contains(&format!(" {event} nvme"))).count();
        let those = apart.iter().filter(|line| line.contains(&format!(" {event} nvme")));
        assert_eq!(those.count(), all, "{event}");
    }
    assert!(!apart.is_empty() && apart.iter().all(|line| !line.contains(" Command ")), "{apart:?}");
    let columns = shown(&format!("trace --from {MIXED}"));
    assert_eq!(columns.lines().filter(|line| line.contains(" -- ")).count(), apart.len());
}

#[test]
fn a_retry_after_its_command_was_written_has_a_line_of_its_own() {
    let dir = TempDir::new().unwrap();
    let file = dir.path().join("a.nvd");
    let read = |cid: u16| EventBuilder::read().cid(cid).at(2 * SECOND).status(0x281);
    made(&file, &info(), SECOND, |writer| {
        // more than is rendered before it is written
        (1..1000).for_each(|cid| writer.push(&read(cid).command()));
        let what = EventKind::Retry { id: read(1).id, retries: Some(1) };
        writer.push(&Event { at_ns: 2 * SECOND + 1, what });
        999
    });
    let text = shown(&format!("trace --long --from {}", file.display()));
    let retry = text.lines().find(|line| line.contains(" Retry nvme0: ")).unwrap();
    assert!(retry.contains("qid=1, cid=1,"), "{retry}");
}

#[test]
fn text_has_the_time_of_day_and_json_the_clock_of_the_kernel() {
    let first = |words: &str| {
        let out = shown(&format!("trace --long -n 1 {words} --from {RETRIES}"));
        out.lines().next().unwrap().to_owned()
    };
    let json: Value = serde_json::from_str(&first("--json --time wall")).unwrap();
    let rfc3339 = json["time"].as_str().unwrap();
    let [default, wall] = ["", "--time wall"].map(first);
    assert_eq!(default, wall);
    assert_eq!(default.split(' ').next().unwrap(), &rfc3339[11..26]);
    let mono = first("--time mono");
    assert_eq!(mono.split(' ').next().unwrap(), json["time_ns"].to_string());
    let json: Value = serde_json::from_str(&first("--json")).unwrap();
    assert!(json["time"].is_null() && json["time_rel_ns"].is_null());
    // a redacted recording has no wall clock
    for (words, said) in [("", 1), ("--time rel", 0), ("--time mono", 0)] {
        let ran = run(&format!("trace --long -n 3 {words} --from {WBT}"));
        assert_eq!(ran.err.matches("has no wall clock").count(), said, "{words}: {}", ran.err);
        let time = ran.out.split(' ').next().unwrap();
        let is_short = time.parse::<f64>().unwrap() < 1000.0;
        assert_eq!(is_short, words != "--time mono", "{words}: {time}");
    }
}
