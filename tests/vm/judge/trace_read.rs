// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reads the output of `trace`, as JSON and as text.

use std::collections::BTreeMap;

use serde_json::Value;

use super::guest::Outcome;
use super::json::{number, text};

/// All events, by the `type` in JSON and by the word in the text.
pub const EVENTS: [(&str, &str); 12] = [
    ("submit", "Submit"),
    ("complete", "Complete"),
    ("command", "Command"),
    ("unfinished", "Unfinished"),
    ("missed", "Missed"),
    ("sq", "Sq"),
    ("async_event", "AsyncEvent"),
    ("timeout", "Timeout"),
    ("cancel", "Cancel"),
    ("state", "State"),
    ("requeue", "Requeue"),
    ("retry", "Retry"),
];

/// Controller, queue and command id: unique while the command is in flight.
pub type Key = (String, u64, u64);

/// The output of one run with `--json`.
pub struct TraceRun {
    /// The events, in the order of the file.
    pub events: Vec<Value>,
    /// The ledger at the end.
    pub ledger: Value,
    /// The text on stderr.
    pub talk: String,
    what: String,
}

/// The time of an event.
pub fn at(event: &Value) -> u64 {
    number(event, "time_ns")
}

/// The command of an event.
pub fn key(event: &Value) -> Key {
    let ctrl = text(event, "ctrl").to_owned();
    (ctrl, number(event, "qid"), number(event, "cid"))
}

/// Queue and opcode, such as `io:0x02`.
pub fn opcode(event: &Value) -> String {
    let code = number(event, "opcode_value");
    format!("{}:{code:#04x}", text(event, "queue"))
}

/// The complete status of a completion.
pub fn status(event: &Value) -> u64 {
    number(&event["status"], "value")
}

/// The functions of an event's stack, innermost first, without offset and module.
pub fn functions<'e>(event: &'e Value, field: &str) -> Vec<&'e str> {
    let frames = event[field].as_array();
    let frames = frames.map(Vec::as_slice).unwrap_or_default();
    frames.iter().map(|f| function(f.as_str().unwrap())).collect()
}

/// The name in `func+0x1b2 [module]`.
pub fn function(frame: &str) -> &str {
    let end = frame.find(['+', ' ']);
    &frame[..end.unwrap_or(frame.len())]
}

impl TraceRun {
    /// Reads the run `name` of a case, which must have succeeded.
    pub fn read(outcome: &Outcome, case: &str, name: &str) -> Self {
        Self::ended(outcome, case, name, 0)
    }

    /// The same, with nothing lost.
    pub fn whole(outcome: &Outcome, case: &str, name: &str) -> Self {
        let run = Self::read(outcome, case, name);
        run.assert_nothing_lost();
        run
    }

    /// The same for a run that ended with this exit code.
    pub fn ended(outcome: &Outcome, case: &str, name: &str, code: i32) -> Self {
        let talk = outcome.text(case, &format!("{name}.err"));
        assert_eq!(outcome.code(case, name), code, "{case} {name}: {talk}");
        let file = outcome.text(case, &format!("{name}.out"));
        let what = format!("{} {case} {name}", outcome.kernel());
        assert!(file.ends_with('\n'), "{what}: the last line is cut");
        let mut events: Vec<Value> = file
            .lines()
            .map(|l| serde_json::from_str(l).unwrap_or_else(|e| panic!("{what}: {e}: {l}")))
            .collect();
        let end = events.pop().unwrap_or_else(|| panic!("{what}: nothing"));
        assert_eq!(text(&end, "type"), "end", "{what}: {end}");
        for event in &events {
            assert_eq!(number(event, "schema_version"), 2, "{what}");
            let name = text(event, "type");
            let known = EVENTS.iter().any(|(json, _)| *json == name);
            assert!(known, "{what}: {event}");
            assert!(text(event, "ctrl").starts_with("nvme"), "{what}: {event}");
        }
        Self { events, ledger: end["ledger"].clone(), talk, what }
    }

    /// Events of a type.
    pub fn of<'r>(&'r self, name: &str) -> impl DoubleEndedIterator<Item = &'r Value> + use<'r> {
        let name = name.to_owned();
        self.events.iter().filter(move |e| text(e, "type") == name)
    }

    /// The number of events of a type.
    pub fn count(&self, name: &str) -> u64 {
        self.of(name).count() as u64
    }

    /// A number of the ledger, from its part for traces or from the common part.
    pub fn entry(&self, field: &str) -> u64 {
        let of_trace = &self.ledger["trace"][field];
        let found = of_trace.as_u64().or_else(|| self.ledger[field].as_u64());
        found.unwrap_or_else(|| panic!("{}: no `{field}` in {}", self.what, self.ledger))
    }

    /// The number of lost events of all kinds.
    pub fn lost(&self) -> u64 {
        ["lost_submits", "lost_completions", "lost_events"].map(|f| self.entry(f)).iter().sum()
    }

    /// Nothing is missing, by the tool's own ledger.
    pub fn assert_nothing_lost(&self) {
        self.assert_nothing_lost_but(&[]);
    }

    /// The same, except for these entries.
    pub fn assert_nothing_lost_but(&self, but: &[&str]) {
        self.assert_balanced();
        let fields = "lost_submits lost_completions lost_events not_written out_of_order undecodable overwritten \
                      untracked negative_intervals unrecovered unattributed";
        let wanted = fields.split_whitespace().filter(|field| !but.contains(field));
        let found: Vec<(&str, u64)> = wanted
            .map(|field| (field, self.entry(field)))
            .filter(|(_, count)| *count > 0)
            .collect();
        assert!(found.is_empty(), "{}: {found:?}: {}", self.what, self.ledger);
    }

    /// The output has as many events as the ledger states, and the ledger balances.
    pub fn assert_balanced(&self) {
        let what = &self.what;
        let ledger = &self.ledger;
        assert_eq!(ledger["balance"]["balanced"], true, "{what}: {ledger}");
        let ended = self.count("complete") + self.count("command") + self.count("missed");
        assert_eq!(self.entry("submits_shown"), self.count("submit"), "{what}");
        assert_eq!(self.entry("commands_shown"), ended, "{what}");
        let others = self.events.len() as u64 - self.count("submit") - ended;
        assert_eq!(self.entry("events_shown"), others, "{what}");
    }

    /// Times never decrease.
    pub fn assert_in_order(&self) {
        for two in self.events.windows(2) {
            assert!(at(&two[0]) <= at(&two[1]), "{}: {} {}", self.what, two[0], two[1]);
        }
    }

    /// Submissions with their completions, in the order of submission. Each submission must have an
    /// end, and each completion a submission before it with the same key; `driver_ns` is the time
    /// between them.
    pub fn pairs(&self) -> Vec<(&Value, &Value)> {
        let (pairs, again) = self.pairs_and_repeats();
        assert_eq!(again, 0, "{}: submitted while in flight", self.what);
        pairs
    }

    /// The same, and the number of submissions that have no end, but are followed by another one of
    /// the same command: the driver rejected the first, and blk-mq issued it again at once.
    pub fn pairs_and_repeats(&self) -> (Vec<(&Value, &Value)>, u64) {
        let mut again = 0;
        let mut open = BTreeMap::<Key, usize>::new();
        let mut pairs: Vec<(&Value, Option<&Value>)> = Vec::new();
        for event in &self.events {
            match text(event, "type") {
                "submit" => {
                    if let Some(n) = open.insert(key(event), pairs.len()) {
                        let before: &Value = pairs[n].0;
                        for field in ["nsid", "opcode_value", "fields", "bytes"] {
                            assert_eq!(before[field], event[field], "{}: {event}", self.what);
                        }
                        pairs[n].1 = Some(before);
                        again += 1;
                    }
                    pairs.push((event, None));
                }
                "complete" => {
                    let n = open.remove(&key(event));
                    let n = n.unwrap_or_else(|| panic!("{}: no submit: {event}", self.what));
                    let submit = pairs[n].0;
                    pairs[n].1 = Some(event);
                    for field in ["nsid", "queue", "opcode", "opcode_value", "disk"] {
                        assert_eq!(submit[field], event[field], "{}: {event}", self.what);
                    }
                    let took = at(event) - at(submit);
                    assert_eq!(number(event, "driver_ns"), took, "{}: {event}", self.what);
                }
                // the submission ends without a completion
                "requeue" => {
                    if let Some(n) = open.remove(&key(event)) {
                        pairs[n].1 = Some(event);
                    }
                }
                _ => {}
            }
        }
        let ended = pairs.into_iter().map(|(submit, end)| {
            let end = end.unwrap_or_else(|| panic!("{}: no end: {submit}", self.what));
            (submit, end)
        });
        let pairs = ended.filter(|(_, end)| text(end, "type") == "complete");
        (pairs.collect(), again)
    }
}

/// A line of the text, and the stack below it.
#[derive(Debug)]
pub struct Line {
    /// The time, as text.
    pub time: String,
    /// The event, such as `Submit`.
    pub event: String,
    /// What follows.
    pub rest: String,
    /// Frames, innermost first.
    pub stack: Vec<String>,
    /// A second line says that the command will be tried again.
    pub is_tried_again: bool,
}

impl Line {
    fn parse(line: &str) -> Option<Self> {
        let mut words = line.strip_prefix("-- ").unwrap_or(line).splitn(4, ' ');
        let [time, _, event, rest] = [(); 4].map(|()| words.next().map(str::to_owned));
        let (event, rest) = (event?, rest?);
        let is_known = EVENTS.iter().any(|(_, name)| *name == event) && rest.starts_with("nvme");
        let is_apart = ["State", "AsyncEvent", "Timeout", "Cancel"].contains(&event.as_str());
        let is_known = is_known && line.starts_with("-- ") == is_apart;
        is_known.then_some(Self { time: time?, event, rest, stack: vec![], is_tried_again: false })
    }
}

/// The number at the start of `0x1f (..)`, `31:name` or `31`.
pub fn leading_number(value: &str) -> Option<u64> {
    match value.strip_prefix("0x") {
        Some(hex) => {
            let end = hex.find(|c: char| !c.is_ascii_hexdigit());
            u64::from_str_radix(&hex[..end.unwrap_or(hex.len())], 16).ok()
        }
        None => {
            let end = value.find(|c: char| !c.is_ascii_digit());
            value[..end.unwrap_or(value.len())].parse().ok()
        }
    }
}

/// The lines of a run's text. Each must name an event and a disk or a controller.
pub fn lines(outcome: &Outcome, case: &str, name: &str) -> Vec<Line> {
    let file = outcome.text(case, &format!("{name}.out"));
    assert!(file.is_empty() || file.ends_with('\n'), "{case} {name}: the last line is cut");
    let mut lines: Vec<Line> = Vec::new();
    for line in file.lines() {
        if let Some(frame) = line.strip_prefix("    ") {
            let below = lines.last_mut();
            let below = below.unwrap_or_else(|| panic!("{case} {name}: below what? {line}"));
            below.stack.push(frame.to_owned());
            continue;
        }
        if line.starts_with("  will be tried again") {
            let command = lines.last_mut().filter(|line| line.event == "Command");
            let command = command.unwrap_or_else(|| panic!("{case} {name}: below what? {line}"));
            command.is_tried_again = true;
            continue;
        }
        let parsed = Line::parse(line);
        lines.push(parsed.unwrap_or_else(|| panic!("{case} {name}: what is: {line}")));
    }
    lines
}
