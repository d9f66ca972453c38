// SPDX-License-Identifier: MIT OR Apache-2.0
//! The commands in flight, as text and as JSON.

use std::io;
use std::io::Write;
use std::time::Duration;

use serde::Serialize;
use serde_json::Map;
use serde_json::Value;

use super::json::SCHEMA_VERSION;
use super::json::line as json_line;
use super::theme::Theme;
use crate::inflight::Place;
use crate::inflight::Verdict;
use crate::nvme::decode::CommandSet;
use crate::nvme::decode::describe;
use crate::nvme::decode::fields;
use crate::nvme::decode::name as command_name;
use crate::nvme::opcode::Opcode;
use crate::nvme::opcode::QueueKind;
use crate::nvme::sqe::Sqe;
use crate::report::inflight::CommandLine;
use crate::report::inflight::InFlight;

/// Disk and command set of a namespace, by controller and namespace id.
pub type NameOf<'a> = &'a dyn Fn(u32, u32) -> Option<(String, CommandSet)>;

/// What a verdict means, in a few words.
pub const fn verdict(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Answered => "answered, but no interrupt was seen",
        Verdict::NotFetched => "never fetched by the device",
        Verdict::Held => "held by the device",
        Verdict::NotProvable => "at the device, fetch not provable",
        Verdict::NotRung => "doorbell not written",
        Verdict::NotPolled => "answered, waits for a poll",
        Verdict::NotInSq => "not in the SQ: most likely fetched",
        Verdict::Unknown => "not known: changed meanwhile",
    }
}

const fn place(place: Place) -> &'static str {
    match place {
        Place::Started => "started",
        Place::Sq => "sq",
        Place::Doorbell => "doorbell",
        Place::Cqe => "cqe",
        Place::Complete => "complete",
    }
}

/// An age of at least a jiffy.
fn age(age: Option<Duration>) -> String {
    age.map_or_else(|| "?".into(), |age| format!("{:.3}", age.as_secs_f64()))
}

const fn kind(qid: u32) -> QueueKind {
    if qid == 0 {
        QueueKind::Admin
    } else {
        QueueKind::Io
    }
}

/// The disk of a command, or its controller, and its command set.
fn disk(line: &CommandLine, names: NameOf<'_>) -> (String, CommandSet) {
    let (ctrl, qid) = line.queue;
    let sqe = line.sqe.filter(|_| qid != 0);
    let named = sqe.and_then(|sqe| names(ctrl, sqe.nsid()));
    named.unwrap_or_else(|| (format!("nvme{ctrl}"), CommandSet::Nvm))
}

fn opcode(kind: QueueKind, set: CommandSet, sqe: &Sqe) -> String {
    let code = sqe.opcode();
    let opcode = Opcode { queue: kind, code };
    command_name(kind, set, sqe).map_or_else(|| opcode.to_string(), str::to_owned)
}

/// Writes a table of commands and one of queues.
///
/// # Errors
/// Errors of the writer.
pub fn text(
    found: &InFlight,
    names: NameOf<'_>,
    theme: Theme,
    out: &mut dyn Write,
) -> io::Result<()> {
    if found.commands.is_empty() {
        let any = found.queues.iter().any(|q| q.in_flight > 0);
        let such = if any { "such " } else { "" };
        writeln!(out, "no {such}command is in flight")?;
    } else {
        let head = format!(
            "{:>9} {:<12} {:>4} {:>6} {:<8} {}",
            "AGE(s)", "DISK", "QID", "CID", "POINT", "VERDICT"
        );
        writeln!(out, "{}", theme.dim(&head))?;
    }
    for line in &found.commands {
        command(line, names, theme, out)?;
    }
    if !found.queues.is_empty() {
        let head = format!(
            "{:<10} {:>4} {:>9} {:>11} {:>9}  {}",
            "CTRL", "QID", "IN_FLIGHT", "TAGS_USED", "OLDEST(s)", "DOORBELLS"
        );
        writeln!(out, "\n{}", theme.dim(&head))?;
    }
    for queue in &found.queues {
        let doorbells = match queue.shadow {
            None => "",
            Some(true) => "  shadow",
            Some(false) => "  mmio",
        };
        let tags = format!("{}/{}", queue.tags_used, queue.tags);
        let oldest = queue.oldest.map_or_else(|| "-".into(), |o| age(Some(o)));
        let ctrl = format!("nvme{}", queue.queue.0);
        writeln!(
            out,
            "{ctrl:<10} {:>4} {:>9} {tags:>11} {oldest:>9}{doorbells}",
            queue.queue.1, queue.in_flight
        )?;
    }
    for (ctrl, qid) in &found.unreadable {
        writeln!(out, "nvme{ctrl} queue {qid}: its tags could not be read")?;
    }
    Ok(())
}

fn command(
    line: &CommandLine,
    names: NameOf<'_>,
    theme: Theme,
    out: &mut dyn Write,
) -> io::Result<()> {
    let qid = line.queue.1;
    let (disk, set) = disk(line, names);
    let cid = line
        .sqe
        .map_or_else(|| "?".into(), |sqe| format!("{:#06x}", sqe.cid()));
    let words = match line.verdict {
        None => theme.dim("-"),
        Some(found @ (Verdict::Unknown | Verdict::NotProvable)) => verdict(found).to_owned(),
        Some(found) => theme.warn(verdict(found)),
    };
    writeln!(
        out,
        "{:>9} {disk:<12} {qid:>4} {cid:>6} {:<8} {words}",
        age(line.age),
        place(line.place)
    )?;
    let what = line.sqe.map_or_else(
        || format!("tag {}: its SQE was not found", line.tag),
        |sqe| {
            let mut what = opcode(kind(qid), set, &sqe);
            let mut details = String::new();
            // a String takes all text
            let _ = describe(kind(qid), set, &sqe, &mut details);
            if !details.is_empty() {
                what += " ";
                what += &details;
            }
            what
        },
    );
    writeln!(out, "{:>9} {what}", "")
}

#[derive(Serialize)]
struct InFlightLine {
    r#type: &'static str,
    schema_version: u32,
    time_ns: u64,
    commands: Vec<Value>,
    queues: Vec<Value>,
    unreadable: Vec<String>,
}

#[derive(Serialize)]
struct CommandObject {
    ctrl: String,
    disk: Option<String>,
    nsid: Option<u32>,
    qid: u32,
    tag: u32,
    cid: Option<u16>,
    opcode: Option<String>,
    opcode_value: Option<u8>,
    fields: Map<String, Value>,
    age_ms: Option<u64>,
    point: Place,
    verdict: Option<Verdict>,
}

#[derive(Serialize)]
struct QueueObject {
    ctrl: String,
    qid: u32,
    in_flight: u32,
    tags_used: u32,
    tags: u32,
    oldest_ms: Option<u64>,
    shadow_doorbells: Option<bool>,
}

fn millis(age: Option<Duration>) -> Option<u64> {
    u64::try_from(age?.as_millis()).ok()
}

fn object(line: &CommandLine, names: NameOf<'_>) -> CommandObject {
    let (ctrl, qid) = line.queue;
    let (disk, set) = disk(line, names);
    let kind = kind(qid);
    let fields = line.sqe.iter().flat_map(|sqe| fields(kind, set, sqe));
    CommandObject {
        ctrl: format!("nvme{ctrl}"),
        disk: (qid != 0 && line.sqe.is_some()).then_some(disk),
        nsid: line.sqe.map(|sqe| sqe.nsid()),
        qid,
        tag: line.tag,
        cid: line.sqe.map(|sqe| sqe.cid()),
        opcode: line.sqe.map(|sqe| opcode(kind, set, &sqe)),
        opcode_value: line.sqe.map(|sqe| sqe.opcode()),
        fields: fields
            .filter_map(|f| Some((f.key.to_owned(), serde_json::to_value(f.value).ok()?)))
            .collect(),
        age_ms: millis(line.age),
        point: line.place,
        verdict: line.verdict,
    }
}

/// Writes one object. `time_ns`: CLOCK_MONOTONIC of the second reading.
///
/// # Errors
/// Errors of the writer.
pub fn json(
    found: &InFlight,
    names: NameOf<'_>,
    time_ns: u64,
    out: &mut dyn Write,
) -> io::Result<()> {
    let commands = found.commands.iter();
    let commands: Result<_, _> = commands
        .map(|line| serde_json::to_value(object(line, names)))
        .collect();
    let queues = found.queues.iter().map(|queue| {
        serde_json::to_value(QueueObject {
            ctrl: format!("nvme{}", queue.queue.0),
            qid: queue.queue.1,
            in_flight: queue.in_flight,
            tags_used: queue.tags_used,
            tags: queue.tags,
            oldest_ms: millis(queue.oldest),
            shadow_doorbells: queue.shadow,
        })
    });
    let unreadable = found.unreadable.iter();
    json_line(
        &InFlightLine {
            r#type: "inflight",
            schema_version: SCHEMA_VERSION,
            time_ns,
            commands: commands?,
            queues: queues.collect::<Result<_, _>>()?,
            unreadable: unreadable
                .map(|(ctrl, qid)| format!("nvme{ctrl} queue {qid}"))
                .collect(),
        },
        out,
    )
}
