// SPDX-License-Identifier: MIT OR Apache-2.0
//! A fixed list of commands (tests/vm/guest/commands.py). The trace has exactly these and the
//! kernel's own commands, and agrees with the kernel's record. Events and pairs agree with each other.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use nvme_deep::nvme::decode::{CommandSet, fields};
use nvme_deep::nvme::opcode::QueueKind;
use nvme_deep::nvme::sqe::{Parts, Sqe};
use serde_json::{Value, json};

use super::guest::{Outcome, Suite};
use super::json::{list, number, printed, text};
use super::trace_kernel::{assert_as_the_kernel, value_of};
use super::trace_read::{EVENTS, TraceRun, at, key, lines, opcode, status};

const TRACE: Suite = Suite::of(
    "trace",
    &[
        "nvme_null nvme0 0 namespaces=2",
        "nvme_null nvme1 0 size=67108864 ns:zoned=on ns:zoned.zone_size=1048576 \
         ns:zoned.zone_capacity=1048576",
        "nvme_blkdebug nvme2 0 read,sector=2048 read,sector=4096,once=on write,sector=8192",
        "nvme_null nvme3 0 ns:ms=8 ns:pi=1",
    ],
);

/// Status codes that the list must cause, with their names in the specification.
const STATUSES: [(u64, &str, &str); 11] = [
    (0x000, "generic", "Success"),
    (0x001, "generic", "Invalid Command Opcode"),
    (0x002, "generic", "Invalid Field in Command"),
    (0x080, "generic", "LBA Out of Range"),
    (0x101, "command_specific", "Invalid Queue Identifier"),
    (0x10a, "command_specific", "Invalid Format"),
    (0x10d, "command_specific", "Feature Identifier Not Saveable"),
    (0x1b9, "command_specific", "Zone Is Full"),
    (0x280, "media", "Write Fault"),
    (0x281, "media", "Unrecovered Read Error"),
    (0x285, "media", "Compare Failure"),
];

fn steps(outcome: &Outcome) -> Vec<Value> {
    outcome.lines("known", "steps")
}

/// Whether the kernel sent the command by itself after a Format: its workers scan the namespaces
/// again.
fn is_the_kernels(submit: &Value) -> bool {
    let worker = text(submit, "comm").starts_with("kworker/");
    worker && ["admin:0x06", "admin:0x02", "io:0x02"].contains(&opcode(submit).as_str())
}

fn is_wanted(want: &Value, submit: &Value) -> bool {
    let same = |name| want[name] == submit[name];
    same("queue") && want["opcode"] == submit["opcode_value"] && {
        let fields = want["fields"].as_object().unwrap();
        let start = fields.get("slba").and_then(Value::as_u64);
        start.is_none_or(|slba| value_of(&submit["fields"]["slba"]) == Some(slba))
    }
}

/// Whether `all` contains `some`, which may omit fields such as the names of codes.
fn has(all: &Value, some: &Value) -> bool {
    match some.as_object() {
        Some(some) => some.iter().all(|(name, value)| has(&all[name], value)),
        None => all == some,
    }
}

/// Compares a command with its entry in the list, in all that the entry states.
fn assert_wanted(name: &str, want: &Value, (submit, complete): (&Value, &Value), qid: u64) {
    let both = format!("{name}:\n{want}\n{submit}\n{complete}");
    let same = |field: &str, ours: &Value| {
        let stated = &want[field];
        assert!(stated.is_null() || stated == ours, "{field}: {both}");
    };
    for field in ["nsid", "flags", "metadata", "bytes", "pid", "cpu"] {
        same(field, &submit[field]);
    }
    assert_eq!(want["disk"], submit["disk"], "{both}");
    assert!(want["cpu"].is_null() || number(submit, "qid") == qid, "{both}");
    assert!(has(&submit["fields"], &want["fields"]), "{both}");
    if let Some(cdw) = want["cdw"].as_array() {
        // what was sent, decoded by our own tables: the trace must have all of it
        let queue = match text(want, "queue") {
            "io" => QueueKind::Io,
            _ => QueueKind::Admin,
        };
        let mut parts = Parts::default();
        for (to, from) in parts.cdw.iter_mut().zip(cdw) {
            *to = u32::try_from(from.as_u64().unwrap()).unwrap();
        }
        parts.opcode = u8::try_from(number(want, "opcode")).unwrap();
        let sqe = Sqe::from(parts);
        let sent = fields(queue, CommandSet::Nvm, &sqe);
        let sent: BTreeMap<_, _> = sent.map(|f| (f.key, json!(f.value))).collect();
        assert_eq!(json!(sent), submit["fields"], "{both}");
    }
    let mask = want["status_mask"].as_u64().unwrap_or(0x7fff);
    assert_eq!(status(complete) & mask, number(want, "status") & mask, "{both}");
    same("retries", &complete["retries"]);
    same("result", &complete["result"]);
}

fn queue_of(outcome: &Outcome, want: &Value) -> u64 {
    let (Some(cpu), Some(disk)) = (want["cpu"].as_u64(), want["disk"].as_str()) else {
        return 0;
    };
    if text(want, "queue") == "admin" {
        return 0;
    }
    // /sys/block/nvme0n1/mq/1/cpu_list:1
    let queues = outcome.text("known", "queues");
    let line = format!("/sys/block/{disk}/mq/");
    let of_cpu = |l: &&str| l.split_once("cpu_list:").is_some_and(|(_, c)| c == cpu.to_string());
    let mut lines = queues.lines().filter(|l| l.starts_with(&line));
    let line = lines.find(of_cpu);
    let line = line.unwrap_or_else(|| panic!("no queue of CPU {cpu}: {queues}"));
    let hctx: u64 = line.split('/').nth(5).unwrap().parse().unwrap();
    hctx + 1
}

/// The trace has exactly the listed commands, and only permitted others.
fn the_known_list_is_traced_exactly(outcome: &Outcome) {
    let run = TraceRun::whole(outcome, "known", "events");
    run.assert_in_order();
    let pairs = run.pairs();
    let mut left: Vec<(&Value, &Value)> = pairs.clone();
    let mut after_format = u64::MAX;
    for step in steps(outcome) {
        let name = text(&step, "name");
        let (t0, t1) = (number(&step, "t0"), number(&step, "t1"));
        let here =
            |submit: &Value| submit["ctrl"] == step["ctrl"] && (t0..=t1).contains(&at(submit));
        let (mine, others) = left.into_iter().partition(|(submit, _)| here(submit));
        left = others;
        let mut mine: Vec<(&Value, &Value)> = mine;
        for want in list(&step, "commands") {
            let found = mine.iter().position(|(submit, _)| is_wanted(want, submit));
            let found = found.unwrap_or_else(|| panic!("{name}: missing {want} in {mine:#?}"));
            if step["ordered"] == true {
                // only permitted other commands may come before
                for (submit, _) in mine.drain(..found) {
                    assert_other(&step, submit, after_format);
                }
                assert_wanted(name, want, mine.remove(0), queue_of(outcome, want));
            } else {
                assert_wanted(name, want, mine.remove(found), queue_of(outcome, want));
            }
        }
        if opcode_of_first(&step) == "admin:0x80" {
            after_format = after_format.min(t0);
        }
        for (submit, _) in mine {
            assert_other(&step, submit, after_format);
        }
    }
    for (submit, _) in left {
        let late = at(submit) >= after_format && is_the_kernels(submit);
        assert!(late, "nobody asked for {submit}");
    }
    let seen: Vec<(u64, String)> = pairs.iter().map(|(_, c)| verdict(c)).collect();
    for (code, kind, name) in STATUSES {
        let ours: Vec<_> = seen.iter().filter(|(c, _)| *c == code).collect();
        assert!(!ours.is_empty(), "{name}: no command ended so");
        let want = format!("{kind}: {name}");
        assert!(ours.iter().all(|(_, n)| *n == want), "{want}: {:?}", ours[0]);
    }
}

fn opcode_of_first(step: &Value) -> String {
    let first = &step["commands"][0];
    format!("{}:{:#04x}", text(first, "queue"), number(first, "opcode"))
}

fn verdict(complete: &Value) -> (u64, String) {
    let status = &complete["status"];
    let words = format!("{}: {}", text(status, "type"), status["name"].as_str().unwrap_or("-"));
    let bits = number(status, "value");
    assert_eq!(status["dnr"], bits & 0x4000 != 0, "{complete}");
    assert_eq!(status["more"], bits & 0x2000 != 0, "{complete}");
    assert_eq!(number(status, "crd"), bits >> 11 & 3, "{complete}");
    assert_eq!(number(status, "code"), bits & 0xff, "{complete}");
    (bits & 0x7ff, words)
}

fn assert_other(step: &Value, submit: &Value, after_format: u64) {
    let may = list(step, "others").iter().any(|o| *o == opcode(submit));
    let kernels = at(submit) >= after_format && is_the_kernels(submit);
    assert!(may || kernels, "{}: nobody asked for {submit}", text(step, "name"));
}

fn the_trace_says_what_the_kernel_says(outcome: &Outcome) {
    let run = TraceRun::read(outcome, "known", "events");
    assert!(run.count("async_event") == 1, "one event was brought about");
    assert_as_the_kernel(outcome, "known", &run);
}

/// `import` of the kernel's own text gives the commands of the trace of the same period.
fn an_import_of_the_kernels_text_has_the_commands_of_the_trace(outcome: &Outcome) {
    let file = outcome.path("known", "imported.nvd");
    let tool = |words: &str| printed(Path::new(env!("CARGO_BIN_EXE_nvme-deep")), words);
    let (kernel, file) = (outcome.path("known", "kernel"), file.display());
    let report = tool(&format!("import {} --json --force -o {file}", kernel.display()));
    let unread = list(&report[0], "unread").iter();
    let others: Vec<&Value> = unread.filter(|u| u["kind"] != "nvme_async_event").collect();
    assert!(others.is_empty(), "{others:?}");
    for none in ["orphan_completions", "overwritten", "in_flight", "lost_events"] {
        assert_eq!(number(&report[0]["ledger"], none), 0, "{}", report[0]);
    }
    let imported = tool(&format!("trace --json --from {file}"));
    let run = TraceRun::read(outcome, "known", "pair");
    let lane = |c: &&Value| (text(c, "ctrl").to_owned(), number(c, "qid"));
    let theirs = imported.iter().filter(|event| event["type"] == "command");
    let (theirs, ours) = (by_lane(theirs, lane), by_lane(run.of("command"), lane));
    assert_eq!(theirs.keys().collect::<Vec<_>>(), ours.keys().collect::<Vec<_>>());
    let mut apart = Vec::new();
    for (lane, theirs) in &theirs {
        let ours = &ours[lane];
        assert_eq!(theirs.len(), ours.len(), "{lane:?}");
        for (their, our) in theirs.iter().zip(ours) {
            for key in ["disk", "cid", "nsid", "opcode", "flags", "status", "retries", "result"] {
                assert_eq!(their[key], our[key], "{key}: {their} {our}");
            }
            for key in ["slba", "len", "nr"] {
                // the kernel does not decode all that we do
                let known = !their["fields"][key].is_null();
                assert!(!known || their["fields"][key] == our["fields"][key], "{their} {our}");
            }
            apart.push(number(their, "driver_ns").abs_diff(number(our, "driver_ns")));
        }
    }
    apart.sort_unstable();
    let (median, most) = (apart[apart.len() / 2], apart[apart.len() - 1]);
    let text = format!("median {median} ns apart, at most {most} ns, {} commands\n", apart.len());
    fs::write(outcome.path("known", "imported.apart"), text).unwrap();
    // microseconds in the text, and two probes at each end
    assert!(median < 2_000_000, "{apart:?}");
}

/// Each retry counts as a command. Its Retry event comes between the failure and the next attempt.
fn retries_are_reported(outcome: &Outcome) {
    let run = TraceRun::read(outcome, "known", "events");
    let mut attempts = BTreeMap::<u64, Vec<(u64, u64)>>::new();
    for (submit, complete) in run.pairs() {
        if text(submit, "ctrl") == "nvme2" && number(&submit["fields"], "len") == 7 {
            let slba = number(&submit["fields"], "slba");
            let ended = (status(complete) & 0x7ff, number(complete, "retries"));
            attempts.entry(slba).or_default().push(ended);
        }
    }
    let failing = |status| (0..6).map(|n| (status, n)).collect::<Vec<_>>();
    assert_eq!(attempts[&2048], failing(0x281));
    assert_eq!(attempts[&8192], failing(0x280));
    assert_eq!(attempts[&4096], [(0x281, 0), (0, 1)]);
    let told: Vec<&Value> = run.of("retry").collect();
    assert_eq!(told.len(), 5 + 5 + 1, "{told:?}");
    for retry in told {
        let mut before = run.of("complete").filter(|e| at(e) <= at(retry));
        let failed = before.rfind(|e| key(e) == key(retry));
        let failed = failed.unwrap_or_else(|| panic!("what has failed? {retry}"));
        assert_ne!(status(failed), 0, "{retry}");
        // the driver increments the count before it requeues the command
        if let Some(n) = retry["retries"].as_u64() {
            assert_eq!(n, number(failed, "retries") + 1, "{retry} {failed}");
        }
    }
}

/// Groups events by lane, and keeps their order within each.
fn by_lane<'e, T>(
    events: impl Iterator<Item = T>,
    lane: impl Fn(&T) -> (String, u64),
) -> BTreeMap<(String, u64), Vec<T>>
where
    T: 'e,
{
    let mut lanes = BTreeMap::<_, Vec<T>>::new();
    for event in events {
        lanes.entry(lane(&event)).or_default().push(event);
    }
    lanes
}

/// tests/trace.rs compares the fields of commands; tests/trace_view.rs has the other events.
fn text_has_the_events_of_json(outcome: &Outcome) {
    let text_lines = lines(outcome, "known", "text");
    for (name, events) in [("events", &text_lines), ("pair", &lines(outcome, "known", "pairtext"))]
    {
        let run = TraceRun::read(outcome, "known", name);
        let count = |word: &str| events.iter().filter(|l| l.event == word).count() as u64;
        let again = events.iter().filter(|line| line.is_tried_again);
        let again = again.inspect(|line| assert!(!line.rest.contains("status=0x0 "), "{line:?}"));
        let retries = again.count() as u64 + count("Retry");
        assert_eq!(retries, run.count("retry"), "{name}");
        for (json, word) in EVENTS.iter().filter(|(json, _)| *json != "retry") {
            assert_eq!(count(word), run.count(json), "{name}: {word}");
        }
    }
    let times: Vec<u64> = text_lines.iter().map(|l| l.time.parse().unwrap()).collect();
    assert!(times.is_sorted(), "TIME goes back");
    let said = outcome.text("known", "text.err");
    assert!(said.contains("accuracy") && said.contains("exact"), "{said}");
}

/// Without --events the trace has the same commands, each in one line, and their stages add up.
fn pairs_are_submit_and_complete(outcome: &Outcome) {
    let events = TraceRun::read(outcome, "known", "events");
    let run = TraceRun::whole(outcome, "known", "pair");
    run.assert_in_order();
    assert_eq!(run.count("submit") + run.count("complete"), 0);
    let lane = |e: &&Value| (text(e, "ctrl").to_owned(), number(e, "qid"));
    let ends = by_lane(events.of("complete"), lane);
    let submits: BTreeMap<_, _> = {
        let pairs = events.pairs();
        pairs.into_iter().map(|(s, c)| ((lane(&c), at(c), number(c, "cid")), s)).collect()
    };
    let commands = by_lane(run.of("command"), lane);
    assert!(ends.keys().eq(commands.keys()));
    for (of, ends) in &ends {
        let commands = &commands[of];
        assert_eq!(ends.len(), commands.len(), "{of:?}");
        for (end, command) in ends.iter().zip(commands) {
            let submit = submits[&(of.clone(), at(end), number(end, "cid"))];
            for (whole, fields) in [
                (
                    submit,
                    "disk qid cid nsid queue opcode opcode_value flags metadata fields bytes pid tid comm",
                ),
                (*end, "result status retries request_flags"),
            ] {
                for field in fields.split(' ') {
                    assert_eq!(whole[field], command[field], "{field}: {whole}\n{command}");
                }
            }
            assert_eq!(submit["cpu"], command["cpu"], "{submit}\n{command}");
            assert_stages(command);
        }
    }
}

/// The stages of a command add up to its total, to the nanosecond.
pub fn assert_stages(command: &Value) {
    let stages = list(command, "stages");
    assert!(!stages.is_empty(), "{command}");
    let sum: u64 = stages.iter().map(|s| number(s, "ns")).sum();
    assert_eq!(sum, number(command, "total_ns"), "{command}");
    let points = &command["points_ns"];
    let between = number(points, "complete") - number(points, "setup_out");
    assert_eq!(between, number(command, "driver_ns"), "{command}");
}

super::on_kernels! {
    list TRACE [the_known_list_is_traced_exactly the_trace_says_what_the_kernel_says] {
        on_6_12 "6.12" | only_in_test_all on_5_10 "5.10" on_6_1 "6.1" on_6_1_rt "6.1-rt"
        on_6_12_cloud "6.12-cloud" on_7_x "7.x"
    }
    trace TRACE [
        an_import_of_the_kernels_text_has_the_commands_of_the_trace text_has_the_events_of_json
        retries_are_reported pairs_are_submit_and_complete
    ] {
        on_6_12 "6.12" | only_in_test_all on_5_10 "5.10" on_6_1 "6.1" on_7_x "7.x"
    }
}
