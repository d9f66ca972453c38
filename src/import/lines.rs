// SPDX-License-Identifier: MIT OR Apache-2.0
//! The lines of all texts: events in the layouts of several programs, and the lines that nothing was
//! read from.

use jiff::Timestamp;
use serde::Serialize;

use crate::model::event::Submission;
use crate::model::text::Text;
use crate::nvme::sqe::Sqe;
use crate::target::Skip;

/// Kinds of unread lines that are told apart. A text may have any number of them.
const MOST_KINDS: usize = 40;
/// The kind of all others.
const MORE: &str = "other kinds";
/// Characters that are shown of a kind and of a line.
const SHOWN: (usize, usize) = (40, 160);
/// Nanoseconds of a second.
const SECOND: u64 = 1_000_000_000;
/// What the events of QEMU's controller begin with.
pub const QEMU: &str = "pci_nvme_";

/// Lines of a kind that nothing was read from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Unread {
    pub kind: Text,
    /// How many.
    pub count: u64,
    /// Number of the first one, from 1.
    pub line: u64,
    /// The first one.
    pub first: Text,
}

/// The lines that give nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Skipped {
    /// Events about something else.
    pub other: u64,
    /// Lines that nothing was read from, by kind.
    pub unread: Vec<Unread>,
    /// Of these, events that are needed.
    #[serde(skip)]
    pub malformed: u64,
}

fn cut(text: &str, most: usize) -> Text {
    let end = text.char_indices().nth(most).map_or(text.len(), |(at, _)| at);
    text[..end].trim().into()
}

impl Skipped {
    /// Counts a line.
    fn add(&mut self, kind: &str, line: u64, text: &str) {
        let mut kind = cut(kind, SHOWN.0);
        if self.unread.len() >= MOST_KINDS && self.unread.iter().all(|known| known.kind != kind) {
            kind = MORE.into();
        }
        match self.unread.iter_mut().find(|known| known.kind == kind) {
            Some(known) => known.count += 1,
            None => self.unread.push(Unread { kind, count: 1, line, first: cut(text, SHOWN.1) }),
        }
    }
}

/// Who prints lines of this form.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Layout {
    /// ftrace, trace-cmd and `perf script`.
    #[default]
    Text,
    /// `perf trace`, which prints no field that is zero.
    PerfTrace,
    Qemu,
    Blkparse,
    /// The text of spdk_trace.
    Spdk,
}

/// An event. What its layout does not have is empty, zero or `None`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Line<'t> {
    pub layout: Layout,
    /// Nanoseconds of the text's clock.
    pub at_ns: u64,
    /// The digits of the time allow for this error; zero: the line has no time.
    pub resolution_ns: u64,
    /// The task's name.
    pub comm: &'t str,
    /// Its thread id.
    pub tid: u32,
    /// Its process.
    pub tgid: Option<u32>,
    pub cpu: Option<u16>,
    /// The device number, where it is a column: `259,1`.
    pub device: &'t str,
    /// The event: `nvme_setup_cmd`, `TCP_REQ_NEW`; of blkparse its action, `D`.
    pub name: &'t str,
    /// Its fields.
    pub text: &'t str,
}

impl Line<'_> {
    /// The submission of a command that this task submits here.
    pub fn submission(&self, task: &str, sqe: Sqe) -> Submission {
        let mut comm = [0; 16];
        // as far as the kernel keeps it
        let kept = task.len().min(15);
        comm[..kept].copy_from_slice(&task.as_bytes()[..kept]);
        let (pid, cpu) = (self.tgid.unwrap_or(self.tid), self.cpu.unwrap_or(0));
        let knows_submitter = !task.is_empty();
        Submission { knows_submitter, pid, tid: self.tid, comm, cpu, ..Submission::of(sqe) }
    }
}

/// A longer line is no event: to look for a time in it would take minutes.
const LONGEST: usize = 4096;

/// What a line is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found<'t> {
    /// An event.
    Event(Line<'t>),
    /// A part of the header, or an empty line.
    Header(&'t str),
    /// The kernel or the tool has lost this many events; at least, where it gives no number.
    Lost(u64),
}

/// A decimal fraction in units of `unit` nanoseconds, and the weight of its last digit.
fn time(text: &str, unit: u64) -> Option<(u64, u64)> {
    let (whole, part) = text.split_once('.')?;
    if whole.is_empty()
        || part.is_empty()
        || !(whole.bytes().chain(part.bytes())).all(|b| b.is_ascii_digit())
    {
        return None;
    }
    let weight = unit / 10_u64.checked_pow(u32::try_from(part.len()).ok()?)?;
    let whole = whole.parse::<u64>().ok()?.checked_mul(unit)?;
    let ns = whole.checked_add(part.parse::<u64>().ok()?.checked_mul(weight)?)?;
    (weight > 0).then_some((ns, weight))
}

/// `7` in `CPU:1 [LOST 7 EVENTS]` (ftrace), `CPU:1 [7 EVENTS DROPPED]` (trace-cmd) and `LOST 7 events!`
/// (perf).
fn lost(line: &str) -> Option<u64> {
    let inside =
        line.strip_prefix("CPU:").and_then(|rest| rest.split_once('[')).map(|(_, inside)| inside);
    let text = inside.unwrap_or(line).trim_end_matches([']', '!']).to_ascii_uppercase();
    let words: Vec<&str> = text.split_whitespace().collect();
    match words[..] {
        ["LOST", n, "EVENTS"] | [n, "EVENTS", "DROPPED"] => n.parse().ok(),
        ["LOST", "EVENTS"] | ["EVENTS", "DROPPED"] => Some(1),
        _ => None,
    }
}

/// Name, thread and process: `fio-3218`, `fio-3218 (3200)`, `fio 3218`, `fio 3200/3218`, `fio/3218`.
fn task(text: &str) -> Option<(&str, u32, Option<u32>)> {
    let mut text = text.trim();
    let mut tgid = None;
    if let Some((before, inside)) = text.strip_suffix(')').and_then(|text| text.rsplit_once('(')) {
        (text, tgid) = (before.trim(), inside.trim().parse().ok());
    }
    if let Some((comm, ids)) = text.rsplit_once(char::is_whitespace) {
        let (group, thread) = ids.split_once('/').map_or((None, ids), |(g, t)| (Some(g), t));
        let group = group.map(str::parse).transpose();
        if let (Ok(group), Ok(tid)) = (group, thread.parse()) {
            return Some((comm.trim(), tid, group.or(tgid)));
        }
    }
    let (comm, tid) = text.rsplit_once(['-', '/'])?;
    Some((comm, tid.parse().ok()?, tgid))
}

/// A line of `perf trace`: `0.289 fio/3218 nvme:nvme_complete_rq(disk: "nvme0n1", qid: 3)`.
fn of_perf_trace(line: &str) -> Option<Line<'_>> {
    let (stamp, rest) = line.split_once(char::is_whitespace)?;
    let (at_ns, resolution_ns) = time(stamp, 1_000_000)?;
    // its times are relative to the first event, and a time of zero is none
    let at_ns = at_ns.checked_add(SECOND)?;
    let end = rest.match_indices('(').map(|(at, _)| at);
    let (at, from) = end.into_iter().find_map(|at| {
        let from = rest[..at].rfind([' ', '\t'])? + 1;
        rest[from..at].contains(':').then_some((at, from))
    })?;
    let (_, name) = rest[from..at].split_once(':')?;
    // the duration of a system call, which an event has not, may be between: `(         ):`
    let who = rest[..from].rsplit_once("):").map_or(&rest[..from], |(_, who)| who);
    let (comm, tid, tgid) = task(who)?;
    let comm = comm.trim_start_matches(':');
    let comm = if tid == 0 { "swapper" } else { comm };
    let text = rest[at + 1..].trim_end().trim_end_matches(')');
    let layout = Layout::PerfTrace;
    Some(Line { layout, at_ns, resolution_ns, comm, tid, tgid, name, text, ..Line::default() })
}

/// A line of the others: `fio-3218 [003] d..1. 4021.100001: nvme_setup_cmd: nvme0: qid=3, ...`.
fn of_text(line: &str) -> Option<Line<'_>> {
    let mut stamps = line.match_indices(':').filter_map(|(at, _)| {
        let from = line[..at].rfind([' ', '\t'])? + 1;
        Some((from, at, time(&line[from..at], SECOND)?))
    });
    let (from, at, (at_ns, resolution_ns)) = stamps.next()?;
    let (head, mut rest) = (&line[..from], line[at + 1..].trim_start());
    // the period of a sample of perf
    if let Some((number, after)) = rest.split_once(char::is_whitespace)
        && number.bytes().all(|b| b.is_ascii_digit())
    {
        rest = after.trim_start();
    }
    let end = rest.find(char::is_whitespace).unwrap_or(rest.len());
    let name = rest[..end].strip_suffix(':')?;
    let name = name.rsplit_once(':').map_or(name, |(_, name)| name);
    let cpu = head.rsplit_once('[').and_then(|(who, cpu)| {
        let cpu = cpu.split_once(']')?.0;
        Some((who, cpu.trim().parse().ok()?))
    });
    let (who, cpu) = cpu.map_or((head, None), |(who, cpu)| (who, Some(cpu)));
    let (comm, tid, tgid) = task(who).unwrap_or_default();
    let text = rest[end..].trim();
    Some(Line { at_ns, resolution_ns, comm, tid, tgid, cpu, name, text, ..Line::default() })
}

/// The first words of a line, and what follows them.
fn columns<const N: usize>(mut rest: &str) -> Option<([&str; N], &str)> {
    let mut words = [""; N];
    for word in &mut words {
        rest = rest.trim_start();
        (*word, rest) = rest.split_at(rest.find(char::is_whitespace).unwrap_or(rest.len()));
    }
    words.iter().all(|word| !word.is_empty()).then(|| (words, rest.trim()))
}

/// A line of QEMU's log. Before the event there is, with `-msg timestamp=on`, `TID@SECONDS.MICROS:` up to
/// QEMU 10, and a time in ISO 8601 later.
fn of_qemu(line: &str) -> Option<Line<'_>> {
    let (at_ns, resolution_ns, event) = if line.starts_with(QEMU) {
        (0, 0, line)
    } else {
        let iso = line.split_once(' ').filter(|(stamp, _)| stamp.ends_with('Z'));
        let old = || line.split_once(':').filter(|(stamp, _)| stamp.contains('@'));
        let (stamp, event) = iso.or_else(old)?;
        let ns = match stamp.split_once('@') {
            Some((_, seconds)) => time(seconds, SECOND)?.0,
            None => stamp.parse::<Timestamp>().ok()?.as_nanosecond().try_into().ok()?,
        };
        (ns, 1000, event)
    };
    let (name, text) = event.split_once(' ').unwrap_or((event, ""));
    Some(Line { layout: Layout::Qemu, at_ns, resolution_ns, name, text, ..Line::default() })
}

/// A line of blkparse: `259,1 2 5 0.000241000 211 D WFSM 8388872 + 32 [kworker/2:1H]`.
fn of_blkparse(line: &str) -> Option<Line<'_>> {
    let ([device, cpu, sequence, stamp, tid, name], text) = columns(line)?;
    let (major, minor) = device.split_once(',')?;
    let _: (u32, u32, u64) = (major.parse().ok()?, minor.parse().ok()?, sequence.parse().ok()?);
    let (ns, resolution_ns) = time(stamp, SECOND)?;
    // its first time is zero, which would be none
    let at_ns = ns.checked_add(SECOND)?;
    let (tid, cpu) = (tid.parse().ok()?, Some(cpu.parse().ok()?));
    let layout = Layout::Blkparse;
    Some(Line { layout, at_ns, resolution_ns, tid, cpu, device, name, text, ..Line::default() })
}

/// A line of spdk_trace: `28:   6026.658 ( 12656064)     RDMA_REQ_NEW    id:    r3622    time:  0.036`.
fn of_spdk(line: &str) -> Option<Line<'_>> {
    let (core, rest) = line.split_once(':')?;
    let ([stamp], mut rest) = columns(rest)?;
    let (at_ns, resolution_ns) = time(stamp, 1000)?;
    if let Some(after) = rest.strip_prefix('(') {
        rest = after.split_once(')')?.1;
    }
    // the name of a thread may be before the tracepoint
    let name = rest.split_whitespace().find(|word| {
        let fits = |b: u8| b.is_ascii_uppercase() || b.is_ascii_digit() || b == b'_';
        word.contains('_') && word.bytes().all(fits)
    })?;
    let (cpu, text) = (Some(core.trim().parse().ok()?), rest.split_once(name)?.1);
    Some(Line { layout: Layout::Spdk, at_ns, resolution_ns, cpu, name, text, ..Line::default() })
}

/// The layouts, tried in this order.
const LAYOUTS: [fn(&str) -> Option<Line<'_>>; 5] =
    [of_text, of_perf_trace, of_qemu, of_blkparse, of_spdk];

/// Reads a line, also a quoted one of a mail. `None`: it is something else.
pub fn read(line: &str) -> Option<Found<'_>> {
    if line.len() > LONGEST {
        return None;
    }
    let line = line.trim_start_matches(['>', ' ', '\t']).trim_end();
    if line.is_empty() || line.starts_with('#') || line.starts_with("cpus=") {
        return Some(Found::Header(line));
    }
    if let Some(lost) = lost(line) {
        return Some(Found::Lost(lost));
    }
    LAYOUTS.iter().find_map(|layout| layout(line)).map(Found::Event)
}

/// Passes on the lines of a text, with their numbers from 1, and counts those that `take` skips.
pub fn each<'t>(
    text: &'t str,
    mut take: impl FnMut(u64, Found<'t>) -> Result<(), Skip>,
) -> Skipped {
    let mut skipped = Skipped::default();
    for (number, line) in (1..).zip(text.lines()) {
        let found = read(line);
        let name = match &found {
            Some(Found::Event(event)) => event.name,
            _ => "something else",
        };
        let skip = match found.map_or(Err(Skip::Unknown), |found| take(number, found)) {
            Ok(()) => continue,
            Err(skip) => skip,
        };
        skipped.malformed += u64::from(matches!(skip, Skip::Malformed | Skip::Lacks(_)));
        match skip {
            Skip::Other | Skip::Second => skipped.other += 1,
            Skip::Unknown => skipped.add(name, number, line),
            Skip::Malformed => skipped.add(&format!("{name}, in another form"), number, line),
            Skip::Lacks(what) => skipped.add(what, number, line),
        }
    }
    skipped
}

/// What the first words and ` + ` say of a request: `259,0`, first sector and number of sectors in
/// `259,0 WFS 498192384 + 8`.
pub fn sectors(text: &str) -> Option<(&str, u64, u64)> {
    let (before, after) = text.split_once(" + ")?;
    let sector = before.rsplit(' ').next()?.parse().ok()?;
    Some((text.split(' ').next()?, sector, after.split(' ').next()?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::target::{value, word};

    fn event(line: &str) -> Line<'_> {
        match read(line) {
            Some(Found::Event(event)) => event,
            other => panic!("{line}: {other:?}"),
        }
    }

    #[test]
    fn every_layout_of_columns_is_read() {
        for (line, comm, tid, tgid, cpu, ns) in [
            (
                "a b-7 [003] ..... 1.000002: nvme_sq: nvme0: x",
                "a b",
                7,
                None,
                Some(3),
                1_000_002_000,
            ),
            (
                "k/0:1H-7 (  9) [003] d..2. 1.000002: nvme_sq: x",
                "k/0:1H",
                7,
                Some(9),
                Some(3),
                1_000_002_000,
            ),
            (
                "<idle>-0 (-----) [000] 1.000002003: nvme_sq: x",
                "<idle>",
                0,
                None,
                Some(0),
                1_000_002_003,
            ),
            ("> a 7 [003] 1.000002:   nvme:nvme_sq: x", "a", 7, None, Some(3), 1_000_002_000),
            (
                "a b 9/7 [003] 1.000002:     1 nvme:nvme_sq: x",
                "a b",
                7,
                Some(9),
                Some(3),
                1_000_002_000,
            ),
            (" 1.002 a b/7 nvme:nvme_sq(x)", "a b", 7, None, None, 1_001_002_000),
            (" 1.002 (         ): a/7 nvme:nvme_sq(x)", "a", 7, None, None, 1_001_002_000),
            (" 1.002 :0/0 nvme:nvme_sq(x)", "swapper", 0, None, None, 1_001_002_000),
        ] {
            let found = event(line);
            assert_eq!((found.comm, found.tid, found.tgid), (comm, tid, tgid), "{line}");
            assert_eq!((found.cpu, found.at_ns, found.name), (cpu, ns, "nvme_sq"), "{line}");
            assert!(found.text.ends_with('x'), "{line}: {}", found.text);
        }
        let ns = event("a-7 [003] 1.000002003: nvme_sq: x").resolution_ns;
        assert_eq!((ns, event(" 1.002 a/7 nvme:nvme_sq(x)").resolution_ns), (1, 1000));
    }

    #[test]
    fn lost_events_headers_and_other_lines_are_told_apart() {
        for (line, lost) in [
            ("CPU:1 [LOST 7 EVENTS]", 7),
            ("CPU:1 [7 EVENTS DROPPED]", 7),
            ("CPU:1 [LOST EVENTS]", 1),
            ("LOST 3 events!", 3),
        ] {
            assert_eq!(read(line), Some(Found::Lost(lost)), "{line}");
        }
        for header in ["# tracer: nop", "  "] {
            assert_eq!(read(header), Some(Found::Header(header.trim())));
        }
        for line in [
            "hello",
            "a-7 [003] 1.2.3: x",
            "99999999999999999999.1: a: b",
            "1.000000000001: a:",
            "\u{85}:",
            "pid 1\u{a0}kvm_mmio: x",
        ] {
            assert_eq!(read(line), None, "{line}");
        }
    }

    #[test]
    fn kinds_are_bounded() {
        let mut all = Skipped::default();
        (0..1000).for_each(|n| all.add(&format!("k{n}"), n, &"x".repeat(1 << 20)));
        let more = &all.unread[MOST_KINDS];
        assert_eq!((all.unread.len(), more.kind.as_str()), (MOST_KINDS + 1, MORE));
        assert_eq!(more.count, 1000 - 40);
        assert!(all.unread.iter().all(|unread| unread.first.len() <= SHOWN.1));
    }

    #[test]
    fn a_field_is_a_whole_word() {
        let text = "nvme0: disk=nvme0n1, sqid=9, qid=4, x: 0x1f, d: \"a b\"";
        assert_eq!(
            (value(text, "qid"), value(text, "x"), value(text, "id")),
            (Some(4), Some(31), None)
        );
        assert_eq!((word(text, "disk"), word(text, "d")), (Some("nvme0n1"), Some("a b")));
    }
}
