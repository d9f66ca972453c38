// SPDX-License-Identifier: MIT OR Apache-2.0
//! The commands in flight, as text and as JSON.

use std::io;
use std::io::Write;
use std::time::Duration;

use serde::Serialize;
use serde_json::{Map, Value};

use crate::machine::inflight::report::{CommandLine, InFlight, Seen, Usual};
use crate::machine::inflight::{StuckAt, StuckState};
use crate::model::event::StackId;
use crate::model::ids::QueueId;
use crate::model::stack::Frame;
use crate::model::text::{Text, word};
use crate::nvme::decode::{CommandSet, describe, fields, name as command_name};
use crate::nvme::opcode::{Opcode, QueueKind};
use crate::nvme::sqe::Sqe;
use crate::units::nanos;
use crate::view::json::{SCHEMA_VERSION, line as json_line};
use crate::view::theme::Theme;

/// Disk and command set of a namespace, by controller and namespace id.
pub type NameOf<'a> = &'a dyn Fn(u32, u32) -> Option<(Text, CommandSet)>;

/// Where names and stacks come from.
#[derive(Clone, Copy)]
pub struct Lookup<'a> {
    /// Names of disks.
    pub names: NameOf<'a>,
    /// Frames of stacks, innermost first; `None` without `--kstack`.
    pub stacks: Option<&'a dyn Fn(StackId) -> Option<Vec<Frame>>>,
    /// Whether a run observes submissions.
    pub traced: bool,
}

/// What a verdict means, in a few words.
pub const fn verdict(verdict: StuckState) -> &'static str {
    match verdict {
        StuckState::Answered => "answered, but no interrupt was seen",
        StuckState::NotFetched => "never fetched by the device",
        StuckState::Held => "held by the device",
        StuckState::NotProvable => "at the device, fetch not provable",
        StuckState::NotRung => "doorbell not written",
        StuckState::NotPolled => "answered, waits for a poll",
        StuckState::NotInSq => "not in the SQ: most likely fetched",
        StuckState::Unknown => "not known: changed meanwhile",
    }
}

const fn place(place: StuckAt) -> &'static str {
    match place {
        StuckAt::Started => "started",
        StuckAt::Sq => "sq",
        StuckAt::Doorbell => "doorbell",
        StuckAt::Cqe => "cqe",
        StuckAt::Complete => "complete",
    }
}

/// An age of at least a jiffy.
fn age(age: Option<Duration>) -> String {
    age.map_or_else(|| "?".into(), |age| format!("{:.3}", age.as_secs_f64()))
}

const fn kind(queue: QueueId) -> QueueKind {
    if queue.is_admin() { QueueKind::Admin } else { QueueKind::Io }
}

/// The disk of a command, or its controller, and its command set.
fn disk(line: &CommandLine, names: NameOf<'_>) -> (Text, CommandSet) {
    let QueueId { ctrl, qid } = line.queue;
    let sqe = line.sqe.filter(|_| qid != 0);
    let named = sqe.and_then(|sqe| names(ctrl, sqe.nsid()));
    named.unwrap_or_else(|| (format!("nvme{ctrl}").into(), CommandSet::Nvm))
}

fn opcode(kind: QueueKind, set: CommandSet, sqe: &Sqe) -> String {
    let code = sqe.opcode();
    let opcode = Opcode { queue: kind, code };
    command_name(kind, set, sqe).map_or_else(|| opcode.to_string(), str::to_owned)
}

/// How many times the p99 of its kind the age of a command is.
fn times_p99(line: &CommandLine) -> Option<f64> {
    let p99 = line.seen?.usual.p99()?.as_secs_f64();
    Some(line.age?.as_secs_f64() / p99)
}

/// What a run has observed of a command, in one line.
fn observed(line: &CommandLine) -> String {
    let Some(seen) = line.seen else {
        return "set-up not observed: p99 and submitter not known".into();
    };
    let Usual { commands, p99_ns } = seen.usual;
    let ratio = times_p99(line).map_or_else(
        || format!("p99 not known: {commands} commands of its kind so far"),
        |times| format!("{times:.1} x p99 ({})", nanos(p99_ns as f64)),
    );
    let submission = &seen.submission;
    if !submission.knows_submitter {
        return format!("{ratio}; submitter not known");
    }
    let comm = submission.comm();
    format!("{ratio}; {comm}, pid {}, CPU {}", submission.pid, submission.cpu)
}

/// Writes a table of commands and one of queues.
///
/// # Errors
/// Errors of the writer.
pub fn text(
    found: &InFlight,
    lookup: Lookup<'_>,
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
        command(line, lookup, theme, out)?;
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
        let ctrl = format!("nvme{}", queue.queue.ctrl);
        writeln!(
            out,
            "{ctrl:<10} {:>4} {:>9} {tags:>11} {oldest:>9}{doorbells}",
            queue.queue.qid, queue.in_flight
        )?;
    }
    for queue in &found.unreadable {
        writeln!(out, "{queue}: its tags could not be read")?;
    }
    Ok(())
}

fn command(
    line: &CommandLine,
    lookup: Lookup<'_>,
    theme: Theme,
    out: &mut dyn Write,
) -> io::Result<()> {
    let (kind, qid) = (kind(line.queue), line.queue.qid);
    let (disk, set) = disk(line, lookup.names);
    let cid = line.sqe.map_or_else(|| "?".into(), |sqe| format!("{:#06x}", sqe.cid()));
    let words = match line.verdict {
        None => theme.dim("-"),
        Some(found @ (StuckState::Unknown | StuckState::NotProvable)) => verdict(found).to_owned(),
        Some(found) => theme.warn(verdict(found)),
    };
    writeln!(
        out,
        "{:>9} {:<12} {qid:>4} {cid:>6} {:<8} {words}",
        age(line.age),
        word(&disk),
        place(line.place)
    )?;
    let what = line.sqe.map_or_else(
        || format!("tag {}: its SQE was not found", line.tag),
        |sqe| {
            let mut what = opcode(kind, set, &sqe);
            let mut details = String::new();
            // a String takes all text
            let _ = describe(kind, set, &sqe, &mut details);
            if !details.is_empty() {
                what += " ";
                what += &details;
            }
            what
        },
    );
    writeln!(out, "{:>9} {what}", "")?;
    if lookup.traced {
        writeln!(out, "{:>9} {}", "", observed(line))?;
    }
    let Some(stacks) = lookup.stacks else {
        return Ok(());
    };
    match stack_of(line, stacks) {
        None => writeln!(out, "{:>9} stack not known", ""),
        Some(frames) => {
            let mut frames = frames.iter();
            frames.try_for_each(|frame| {
                let frame = theme.dim(&frame.to_string());
                writeln!(out, "{:>13} {frame}", "")
            })
        }
    }
}

/// The stack at the submission of a command.
fn stack_of(
    line: &CommandLine,
    stacks: &dyn Fn(StackId) -> Option<Vec<Frame>>,
) -> Option<Vec<Frame>> {
    let submission = line.seen?.submission;
    let id = submission.knows_submitter.then_some(submission.stack)?;
    stacks(id).filter(|frames| !frames.is_empty())
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
    disk: Option<Text>,
    nsid: Option<u32>,
    qid: u16,
    tag: u32,
    cid: Option<u16>,
    opcode: Option<String>,
    opcode_value: Option<u8>,
    fields: Map<String, Value>,
    age_ms: Option<u64>,
    point: StuckAt,
    verdict: Option<StuckState>,
    observed: Option<ObservedObject>,
}

/// `age_ns` is since the set-up. `p99_ns` and `times_p99` are null with too few commands.
#[derive(Serialize)]
struct ObservedObject {
    age_ns: Option<u64>,
    commands: u64,
    p99_ns: Option<u64>,
    times_p99: Option<f64>,
    #[serde(flatten)]
    submitter: Option<Submitter>,
    #[serde(skip_serializing_if = "Option::is_none")]
    kstack: Option<Vec<String>>,
}

#[derive(Serialize)]
struct Submitter {
    pid: u32,
    tid: u32,
    comm: String,
    cpu: u16,
}

#[derive(Serialize)]
struct QueueObject {
    ctrl: String,
    qid: u16,
    in_flight: u32,
    tags_used: u32,
    tags: u32,
    oldest_ms: Option<u64>,
    shadow_doorbells: Option<bool>,
}

fn millis(age: Option<Duration>) -> Option<u64> {
    u64::try_from(age?.as_millis()).ok()
}

fn observed_object(line: &CommandLine, lookup: Lookup<'_>) -> Option<ObservedObject> {
    let Seen { submission, usual } = line.seen?;
    let stack = lookup.stacks.and_then(|stacks| stack_of(line, stacks));
    Some(ObservedObject {
        age_ns: line.age.and_then(|age| age.as_nanos().try_into().ok()),
        commands: usual.commands,
        p99_ns: usual.p99().map(|_| usual.p99_ns),
        times_p99: times_p99(line),
        submitter: submission.knows_submitter.then(|| Submitter {
            pid: submission.pid,
            tid: submission.tid,
            comm: submission.comm().into_owned(),
            cpu: submission.cpu,
        }),
        kstack: stack.map(|frames| frames.iter().map(ToString::to_string).collect()),
    })
}

fn object(line: &CommandLine, lookup: Lookup<'_>) -> CommandObject {
    let QueueId { ctrl, qid } = line.queue;
    let (disk, set) = disk(line, lookup.names);
    let kind = kind(line.queue);
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
        observed: observed_object(line, lookup),
    }
}

/// Writes one object. `time_ns`: CLOCK_MONOTONIC of the second reading.
///
/// # Errors
/// Errors of the writer.
pub fn json(
    found: &InFlight,
    lookup: Lookup<'_>,
    time_ns: u64,
    out: &mut dyn Write,
) -> io::Result<()> {
    let commands = found.commands.iter();
    let commands: Result<_, _> =
        commands.map(|line| serde_json::to_value(object(line, lookup))).collect();
    let queues = found.queues.iter().map(|queue| {
        serde_json::to_value(QueueObject {
            ctrl: format!("nvme{}", queue.queue.ctrl),
            qid: queue.queue.qid,
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
            unreadable: unreadable.map(ToString::to_string).collect(),
        },
        out,
    )
}
