// SPDX-License-Identifier: MIT OR Apache-2.0
//! The commands in flight, as text and as JSON.

use std::array::from_fn;
use std::io;
use std::io::Write;
use std::time::Duration;

use serde::Serialize;
use serde_json::{Map, Value};

use crate::machine::inflight::report::{AgeLimit, CommandLine, InFlight, QueueLine, Seen, Usual};
use crate::machine::inflight::{StuckAt, StuckState, Timeout};
use crate::model::event::StackId;
use crate::model::ids::QueueId;
use crate::model::stack::Frame;
use crate::model::text::{Text, word};
use crate::nvme::decode::{CommandSet, blocks, describe, fields, name as command_name};
use crate::nvme::opcode::{Opcode, QueueKind};
use crate::nvme::sqe::Sqe;
use crate::units::{counted, nanos};
use crate::view::header::hang;
use crate::view::json::typed_line;
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

/// How text is written.
#[derive(Clone, Copy)]
pub struct Look {
    pub theme: Theme,
    /// Columns of the output.
    pub width: usize,
    /// The age from which on a command gets a verdict.
    pub limit: AgeLimit,
    /// Also show the fields of commands, and the queues.
    pub detail: bool,
}

/// Where an old command is, and what to do about it.
const fn verdict(verdict: StuckState) -> (&'static str, &'static str) {
    match verdict {
        StuckState::Answered => (
            "DONE, but no interrupt came",
            "grep nvme{ctrl}q{qid} /proc/interrupts, twice: if the count stays the same, the interrupt is \
             lost; the driver looks for itself at the timeout",
        ),
        StuckState::NotFetched => (
            "NEVER FETCHED by the device",
            "the device missed the doorbell: see dmesg for nvme{ctrl}; it stays until the timeout, or until \
             `nvme reset /dev/nvme{ctrl}`",
        ),
        StuckState::Held => (
            "in the device",
            "look at the device, or at what is behind it (hypervisor, array, provider): its log \
             (`nvme smart-log /dev/nvme{ctrl}`), its load, dmesg",
        ),
        StuckState::CqSeemsFull => (
            "in the device: NO ROOM for its answer",
            "the device has not noticed that the driver emptied the completion queue: update the virtual machine monitor, \
             or switch shadow doorbells off there",
        ),
        StuckState::NotProvable => (
            "in the device, or not fetched",
            "look again when another command on queue {qid} of nvme{ctrl} has completed: it shows which",
        ),
        StuckState::NotRung => (
            "doorbell NOT RUNG yet",
            "look again: if it stays, the driver of nvme{ctrl} is stuck (see dmesg)",
        ),
        StuckState::NotPolled => (
            "DONE, but nobody polls",
            "queue {qid} of nvme{ctrl} has no interrupt: the program must reap its completions \
             (io_uring with IOPOLL, preadv2 with RWF_HIPRI)",
        ),
        StuckState::NotInSq => (
            "most likely in the device",
            "look at the device first: nvme{ctrl} has probably fetched it",
        ),
        StuckState::Unknown => ("changed during the look", "look again"),
    }
}

/// Where a command is that has no verdict.
const fn place(place: StuckAt) -> &'static str {
    match place {
        StuckAt::Started => "in the driver",
        StuckAt::Sq => "in the queue",
        StuckAt::Doorbell => "at the device",
        StuckAt::Cqe => "done, not handled yet",
        StuckAt::Complete => "handled by the driver",
    }
}

fn seconds(time: Duration) -> String {
    nanos(time.as_nanos() as f64)
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
        return "setup not observed: p99 and submitter not known".into();
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

/// The cells of a command: age, disk, opcode, LBA, queue, command id, where it is.
type Cells = [String; 7];

fn cells(line: &CommandLine, lookup: Lookup<'_>) -> Cells {
    let kind = kind(line.queue);
    let (disk, set) = disk(line, lookup.names);
    let known = |of: &dyn Fn(&Sqe) -> Option<String>| line.sqe.as_ref().and_then(of);
    let where_it_is = line.verdict.map_or_else(|| place(line.place), |found| verdict(found).0);
    [
        line.age.map_or_else(|| "?".into(), seconds),
        word(&disk).into_owned(),
        known(&|sqe| Some(opcode(kind, set, sqe))).unwrap_or_else(|| "?".into()),
        known(&|sqe| Some(blocks(kind, set, sqe)?.slba.to_string())).unwrap_or_else(|| "-".into()),
        line.queue.qid.to_string(),
        known(&|sqe| Some(sqe.cid().to_string())).unwrap_or_else(|| "?".into()),
        where_it_is.into(),
    ]
}

/// Writes the commands, how many of them are old, and what to do about these.
///
/// # Errors
/// Errors of the writer.
pub fn text(
    found: &InFlight,
    lookup: Lookup<'_>,
    look: Look,
    out: &mut dyn Write,
) -> io::Result<()> {
    let Look { theme, width, limit, detail } = look;
    if found.commands.is_empty() {
        let any = found.queues.iter().any(|q| q.in_flight > 0);
        writeln!(out, "no {}command is in flight", if any { "such " } else { "" })?;
    } else {
        let head = ["AGE", "DISK", "OP", "LBA", "QID", "CID", "WHERE IT IS"].map(str::to_owned);
        let rows: Vec<Cells> = found.commands.iter().map(|line| cells(line, lookup)).collect();
        let widths: [usize; 7] = from_fn(|n| {
            let cells = rows.iter().chain([&head]).map(|cells| cells[n].chars().count());
            cells.max().unwrap_or(0)
        });
        let before = |cells: &Cells| {
            let [age, disk, op, lba, qid, cid, _] = cells;
            let [a, d, o, l, q, c, _] = widths;
            format!("{age:>a$}  {disk:<d$}  {op:<o$}  {lba:>l$}  {qid:>q$}  {cid:>c$}  ")
        };
        writeln!(out, "{}", theme.dim(&format!("{}{}", before(&head), head[6])))?;
        for (line, cells) in found.commands.iter().zip(&rows) {
            let paint = |text: &str| match line.verdict {
                None => theme.dim(text),
                Some(StuckState::Unknown | StuckState::NotProvable) => text.to_owned(),
                Some(_) => theme.warn(text),
            };
            hang(width, &before(cells), &cells[6], paint, out)?;
            details(line, lookup, look, out)?;
        }
        summary(found, limit, width, out)?;
        if !lookup.traced {
            let more = "for processes and stacks, give an INTERVAL: nvme-deep inflight 1 --kstack";
            writeln!(out, "{}", theme.dim(more))?;
        }
    }
    if detail {
        queues(found, theme, out)?;
    }
    for queue in &found.unreadable {
        writeln!(out, "{queue}: its tags could not be read")?;
    }
    Ok(())
}

/// How many commands are old, when the first one times out, and what to do about each kind.
fn summary(found: &InFlight, limit: AgeLimit, width: usize, out: &mut dyn Write) -> io::Result<()> {
    let old: Vec<&CommandLine> = found.commands.iter().filter(|line| line.is_old).collect();
    let limit = match limit {
        AgeLimit::Time(time) => seconds(time),
        AgeLimit::TimesP99(times) => format!("{times}x the p99"),
    };
    let count = counted(old.len() as u64, "command");
    let mut text = format!("{count} older than {limit} (of {}).", found.commands.len());
    let first = old.iter().filter_map(|line| Some((line.timeout?, line.queue.is_admin())));
    if let Some((Timeout { after, left }, is_admin)) = first.min_by_key(|(t, _)| t.left) {
        let (name, after) =
            (if is_admin { "admin_timeout" } else { "io_timeout" }, after.as_secs());
        text.push_str(&format!(" Timeout in {}s ({name} {after}s).", left.as_secs()));
    }
    hang(width, "\n", &text, str::to_owned, out)?;
    let mut said = Vec::new();
    for line in old {
        let Some(found) = line.verdict.filter(|verdict| !said.contains(verdict)) else { continue };
        said.push(found);
        let (state, advice) = verdict(found);
        let QueueId { ctrl, qid } = line.queue;
        let advice = advice.replace("{ctrl}", &ctrl.to_string()).replace("{qid}", &qid.to_string());
        hang(width, "Next: ", &format!("{state} -> {advice}"), str::to_owned, out)?;
    }
    Ok(())
}

/// The fields of a command, what a run has observed of it, and its stack.
fn details(
    line: &CommandLine,
    lookup: Lookup<'_>,
    Look { theme, width, detail, .. }: Look,
    out: &mut dyn Write,
) -> io::Result<()> {
    const INDENT: &str = "        ";
    if detail {
        let mut fields = String::new();
        if let Some(sqe) = &line.sqe {
            // a String takes all text
            let _ = describe(kind(line.queue), disk(line, lookup.names).1, sqe, &mut fields);
        } else {
            fields = format!("tag {}: its SQE was not found", line.tag);
        }
        hang(width, INDENT, &fields, str::to_owned, out)?;
    }
    if lookup.traced && (detail || lookup.stacks.is_some()) {
        hang(width, INDENT, &observed(line), str::to_owned, out)?;
    }
    let Some(stacks) = lookup.stacks else {
        return Ok(());
    };
    let Some(frames) = stack_of(line, stacks) else {
        return writeln!(out, "{INDENT}stack not known");
    };
    let mut frames = frames.iter();
    frames.try_for_each(|frame| writeln!(out, "{INDENT}  {}", theme.dim(&frame.to_string())))
}

fn queues(found: &InFlight, theme: Theme, out: &mut dyn Write) -> io::Result<()> {
    let row = |cells: [&str; 6]| {
        let [ctrl, qid, in_flight, tags, oldest, doorbells] = cells;
        let row = format!("{ctrl:<8} {qid:>4} {in_flight:>9} {tags:>11} {oldest:>7}  {doorbells}");
        row.trim_end().to_owned()
    };
    if !found.queues.is_empty() {
        let head = row(["CTRL", "QID", "IN FLIGHT", "TAGS", "OLDEST", "DOORBELLS"]);
        writeln!(out, "\n{}", theme.dim(&head))?;
    }
    for queue in &found.queues {
        let QueueLine { queue: QueueId { ctrl, qid }, in_flight, tags_used, tags, oldest, shadow } =
            *queue;
        let doorbells = match shadow {
            None => "",
            Some(true) => "shadow",
            Some(false) => "mmio",
        };
        let line = row([
            &format!("nvme{ctrl}"),
            &qid.to_string(),
            &in_flight.to_string(),
            &format!("{tags_used}/{tags}"),
            &oldest.map_or_else(|| "-".into(), seconds),
            doorbells,
        ]);
        writeln!(out, "{line}")?;
    }
    Ok(())
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
    time_ns: u64,
    commands: Vec<CommandObject>,
    queues: Vec<QueueObject>,
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
    timeout_ms: Option<u64>,
    point: StuckAt,
    verdict: Option<StuckState>,
    observed: Option<ObservedObject>,
}

/// `age_ns` is since the setup. `p99_ns` and `times_p99` are null with too few commands.
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
        timeout_ms: millis(line.timeout.map(|timeout| timeout.left)),
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
    let queues = found.queues.iter().map(|queue| QueueObject {
        ctrl: format!("nvme{}", queue.queue.ctrl),
        qid: queue.queue.qid,
        in_flight: queue.in_flight,
        tags_used: queue.tags_used,
        tags: queue.tags,
        oldest_ms: millis(queue.oldest),
        shadow_doorbells: queue.shadow,
    });
    let object = InFlightLine {
        time_ns,
        commands: found.commands.iter().map(|line| object(line, lookup)).collect(),
        queues: queues.collect(),
        unreadable: found.unreadable.iter().map(ToString::to_string).collect(),
    };
    typed_line("inflight", &object, out)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A read of block 1600, as the controller has it.
    fn line(qid: u16, tag: u32, age: u64, verdict: Option<StuckState>) -> CommandLine {
        let mut sqe = [0; 64];
        (sqe[0], sqe[2], sqe[4], sqe[41]) = (2, tag as u8, 1, 6);
        let [after, left] = [30_000, 30_000 - age].map(Duration::from_millis);
        CommandLine {
            queue: QueueId::new(1, qid),
            tag,
            sqe: (tag != 9).then(|| Sqe::from(&sqe)),
            age: Some(Duration::from_millis(age)),
            is_old: age >= 100,
            seen: None,
            place: StuckAt::Doorbell,
            timeout: Some(Timeout { after, left }),
            verdict,
        }
    }

    #[test]
    fn old_commands_have_a_place_and_each_kind_has_a_next_step() {
        let states = [
            (1, 12, 3300, Some(StuckState::Held)),
            (1, 64, 3200, Some(StuckState::Held)),
            (2, 33, 3100, Some(StuckState::Answered)),
            (2, 34, 3000, Some(StuckState::NotFetched)),
            (2, 35, 200, Some(StuckState::NotProvable)),
            (2, 9, 180, None),
            (2, 36, 3, None),
        ];
        let commands = states.map(|(qid, tag, age, state)| line(qid, tag, age, state)).to_vec();
        let queues = vec![QueueLine {
            queue: QueueId::new(1, 1),
            in_flight: 2,
            tags_used: 2,
            tags: 1023,
            oldest: Some(Duration::from_millis(3300)),
            shadow: Some(true),
        }];
        let found = InFlight { commands, queues, unreadable: vec![] };
        let names = |ctrl, nsid| Some((format!("nvme{ctrl}n{nsid}").into(), CommandSet::Nvm));
        let lookup = Lookup { names: &names, stacks: None, traced: false };
        let written = |width, detail| {
            let (mut out, theme) = (Vec::new(), Theme { color: false });
            let limit = AgeLimit::Time(Duration::from_millis(100));
            text(&found, lookup, Look { theme, width, limit, detail }, &mut out).unwrap();
            let text = String::from_utf8(out).unwrap();
            assert!(text.lines().all(|line| line.chars().count() <= width), "{text}");
            text
        };
        insta::assert_snapshot!("inflight_80", written(80, false));
        insta::assert_snapshot!("inflight_120", written(120, true));
    }
}
