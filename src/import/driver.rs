// SPDX-License-Identifier: MIT OR Apache-2.0
//! The commands in texts of the driver's own tracepoints: nvme_setup_cmd, nvme_complete_rq and
//! nvme_sq, and with them block_getrq and block_rq_issue where the text has them.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use super::lines::{Found, Layout, Line, each, read, sectors};
use super::report::Report;
use crate::model::collect::{Collector, PartialCommand};
use crate::model::event::{CommandId, CompletionStatus, Event, EventKind};
use crate::model::ledger::TraceLedger;
use crate::model::machine::Pairing;
use crate::model::point::Point;
use crate::model::stage::StageSet;
use crate::nvme::decode::{CommandSet, blocks, dwords};
use crate::nvme::opcode::{Opcode, QueueKind, parse};
use crate::nvme::sqe::{Parts, Sqe};
use crate::nvme::status::Status;
use crate::target::{Skip, value, word};
use crate::units::counted;

/// Sectors of 512 bytes in a block, of the sizes that Linux supports.
const SECTORS: [u64; 2] = [1, 8];
/// Most sectors of requests and commands that are compared, and allocated requests that are kept.
const MOST_OPEN: usize = 1 << 20;

/// The kernel's names of commands (drivers/nvme/host/trace.h) that [`parse`] does not know.
const NAMES: [(&str, &str); 6] = [
    ("activate_fw", "firmware-commit"),
    ("download_fw", "firmware-download"),
    ("dev_self_test", "self-test"),
    ("virtual_mgmt", "virtualization-mgmt"),
    ("zone_mgmt_send", "zone-mgmt-send"),
    ("zone_mgmt_recv", "zone-mgmt-recv"),
];

/// CDW10 to CDW15, from 24 bytes in hexadecimal. `None`: the text does not have them.
fn raw_dwords(fields: &str) -> Option<[u32; 6]> {
    let hex = fields.strip_prefix("cdw10=").unwrap_or(fields);
    let mut found = hex.split_whitespace().map(|byte| u8::from_str_radix(byte, 16).ok());
    let mut dwords = [0; 6];
    for dword in &mut dwords {
        *dword =
            u32::from_le_bytes([found.next()??, found.next()??, found.next()??, found.next()??]);
    }
    Some(dwords)
}

/// `nvme_cmd_write` on an I/O queue, `nvme_admin_identify`, `nvme_fabrics_type_connect`, `0x84`.
fn opcode(name: &str, queue: QueueKind) -> Option<Opcode> {
    if name.starts_with("nvme_fabrics_") {
        return Some(Opcode { queue, code: 0x7f });
    }
    let known = name.strip_prefix("nvme_cmd_").or(name.strip_prefix("nvme_admin_")).unwrap_or(name);
    let alias = NAMES.iter().find(|(kernel, _)| *kernel == known);
    let found = parse(&format!("{}:{}", queue.name(), alias.map_or(known, |(_, name)| name)));
    found.ok()?.first().copied()
}

/// The CQEs of a queue whose commands have not completed yet.
#[derive(Default)]
struct Cqes {
    waiting: u32,
    /// Time and CPU, if there is one and no other since the queue had none.
    only: Option<(u64, Option<u16>)>,
}

/// Controller and namespace.
type Disk = (u32, u32);
/// Who runs: thread and CPU.
type Runs = (u32, Option<u16>);
/// Controller, queue, tag: what a completion and its setup share.
type Key = (u32, u16, u16);
/// The tag of a command id. Above it are generations, which nvme_complete_rq of 5.10 does not print.
const TAG: u16 = 0xfff;

/// Status of commands that the driver ends itself, without a CQE: host path error, host aborted.
const BY_DRIVER: [u16; 2] = [0x370, 0x371];

/// What some commands lack: the event that gives it, what is counted, and the sentence.
const MISSING: [(&str, &str, &str); 5] = [
    ("nvme_sq", "command", "the CQE of {}: no nvme_sq, or several, fit"),
    ("block_getrq", "command", "the allocation of {}: no block_getrq, or several, fit"),
    ("nvme_setup_cmd", "command", "the blocks and sizes of {}: CDW10 to CDW15 are not printed"),
    (
        "nvme_setup_cmd",
        "command",
        "some fields of {}: the kernel does not print them, they read as zero",
    ),
    ("", "event", "{} at its start, which ftrace's ring had overwritten"),
];
const CQE: usize = 0;
const ALLOCATION: usize = 1;
const BLOCKS: usize = 2;
const FIELDS: usize = 3;
const OVERWRITTEN: usize = 4;

/// What must be known of the whole text before its commands are read.
pub struct Known<'t> {
    /// Which disk each device number of block events is, and the sectors of its blocks.
    disks: HashMap<&'t str, (Disk, u64)>,
    /// Whether completions have the generation of a command id.
    has_generations: bool,
}

impl<'t> Known<'t> {
    /// The text does not map device numbers to disks. A device is the disk whose commands start at the
    /// sectors of most of its requests, in blocks of one size. If two fit equally well, it is unknown.
    pub fn of(text: &'t str) -> Self {
        let mut requests: HashMap<&str, HashSet<u64>> = HashMap::new();
        let mut commands: HashMap<u64, HashSet<Disk>> = HashMap::new();
        let (mut has_generations, mut kept) = (false, 0);
        for line in text.lines() {
            let Some(Found::Event(event)) = read(line) else { continue };
            match event.name {
                "block_getrq" | "block_rq_issue" if kept < MOST_OPEN => {
                    let Some((device, sector, length)) = sectors(event.text) else { continue };
                    // the commands of flushes and discards have no slba
                    let rwbs = event.text.split(' ').nth(1).unwrap_or_default();
                    if length > 0 && !rwbs.contains('D') {
                        kept += usize::from(requests.entry(device).or_default().insert(sector));
                    }
                }
                "nvme_setup_cmd" if kept < MOST_OPEN => {
                    let Some(((ctrl, _), _, fields)) = head(&event) else { continue };
                    let nsid = number(&event, fields, "nsid").and_then(|n| n.try_into().ok());
                    let Some((nsid, slba)) = nsid.zip(value(event.text, "slba")) else { continue };
                    kept += usize::from(commands.entry(slba).or_default().insert((ctrl, nsid)));
                }
                "nvme_complete_rq" => {
                    let is_one = |key| value(event.text, key).is_some_and(|cid| cid > TAG.into());
                    has_generations |= is_one("cmdid") || is_one("cid");
                }
                _ => {}
            }
        }
        let of_device = |(device, sectors): (_, HashSet<u64>)| {
            let mut fits: BTreeMap<(Disk, u64), usize> = BTreeMap::new();
            for (sector, size) in sectors.iter().flat_map(|s| SECTORS.map(|size| (s, size))) {
                let at = sector.is_multiple_of(size).then(|| commands.get(&(sector / size)));
                let disks = at.flatten().into_iter().flatten();
                disks.for_each(|disk| *fits.entry((*disk, size)).or_default() += 1);
            }
            let (disk, most) = fits.iter().max_by_key(|(_, count)| **count)?;
            let is_only = fits.values().filter(|count| *count == most).count() == 1;
            (is_only && 2 * most >= sectors.len()).then_some((device, *disk))
        };
        Self { disks: requests.into_iter().filter_map(of_device).collect(), has_generations }
    }
}

/// Reads a text.
struct Reader<'t> {
    known: &'t Known<'t>,
    report: Report,
    commands: Collector<Key>,
    /// The tracepoints whose events were read.
    seen: BTreeSet<&'t str>,
    /// Counts of [`MISSING`].
    missing: [u64; MISSING.len()],
    /// The command that was set up last, by who runs: block_rq_issue follows at once.
    last: HashMap<Runs, Key>,
    /// Time and blocks of allocated requests without a command, by disk and first block; `None`: several.
    allocated: HashMap<(Disk, u64), Option<(u64, u64)>>,
    cqes: HashMap<(u32, u16), Cqes>,
}

/// Reads the whole text, and passes on its events in their order. A second call gives the same.
pub fn import<'t>(text: &'t str, known: &'t Known<'t>, to: &mut dyn FnMut(&Event)) -> Report {
    let mut reader = Reader {
        known,
        report: Report { stage_set: StageSet::Basic, ..Report::default() },
        commands: Collector::new(true),
        seen: BTreeSet::new(),
        missing: Default::default(),
        last: HashMap::new(),
        allocated: HashMap::new(),
        cqes: HashMap::new(),
    };
    let skipped = each(text, |_, found| {
        match found {
            Found::Header(line) => reader.header(line),
            Found::Lost(lost) => reader.lost(lost),
            Found::Event(event) => reader.event(&event)?,
        }
        reader.commands.events.drain(..).for_each(|event| to(&event));
        Ok(())
    });
    let Reader { mut commands, report, seen, missing, .. } = reader;
    commands.finish();
    commands.events.iter().for_each(to);
    let mut ledger = commands.ledger;
    (ledger.pairing, ledger.span) = (Pairing::Tag, (Point::SetupOut, Point::Complete));
    let has_sq = seen.contains("nvme_sq");
    let stages = match has_sq {
        true => "doorbells and interrupts: `submit+device` is one stage",
        false => "doorbells, interrupts and CQEs (nvme_sq): `submit+device+complete` is one stage",
    };
    let mut lacks = vec![stages.to_owned()];
    let without = [
        ("nvme_setup_cmd", "nvme_setup_cmd: no command has a start"),
        ("nvme_complete_rq", "nvme_complete_rq: no command has an end"),
        ("block_getrq", "block_getrq: no `queue`"),
    ];
    let without = without.into_iter().filter(|(name, _)| !seen.contains(name));
    lacks.extend(without.map(|(_, text)| text.to_owned()));
    for ((name, what, text), n) in MISSING.into_iter().zip(missing) {
        if n > 0 && (name.is_empty() || seen.contains(name)) {
            lacks.push(text.replace("{}", &counted(n, what)));
        }
    }
    Report {
        resolution_ns: report.resolution_ns,
        lacks,
        span: commands.span,
        stage_set: report.stage_set,
        has_sq,
        disks: report.disks,
        ..Report::new("tracepoints of the driver", "command", ledger, skipped)
    }
}

impl<'t> Reader<'t> {
    /// `# entries-in-buffer/entries-written: 9/12   #P:8`
    fn header(&mut self, line: &str) {
        let counts = line.split_once("entries-written:").map(|(_, counts)| counts.trim());
        let counts = counts.and_then(|c| c.split_whitespace().next()?.split_once('/'));
        let counts = counts.and_then(|(kept, all)| Some((kept.parse().ok()?, all.parse().ok()?)));
        let (kept, all): (u64, u64) = counts.unwrap_or_default();
        self.missing[OVERWRITTEN] += all.saturating_sub(kept);
    }

    fn trace(&mut self) -> &mut TraceLedger {
        self.commands.ledger.trace.get_or_insert_default()
    }

    /// The setups, completions and CQEs before the gap may not be those after it.
    fn lost(&mut self, events: u64) {
        let trace = self.trace();
        trace.lost_events = trace.lost_events.saturating_add(events);
        self.cqes.clear();
        self.allocated.clear();
        self.last.clear();
    }

    /// Takes an event in.
    fn event(&mut self, event: &Line<'t>) -> Result<(), Skip> {
        let read = match event.name {
            "nvme_setup_cmd" => self.setup(event),
            "nvme_complete_rq" => self.complete(event),
            "nvme_sq" => self.cqe(event),
            "block_getrq" => self.allocate(event),
            "block_rq_issue" => self.issue(event),
            _ => return Err(Skip::Unknown),
        };
        if read.is_none() {
            // it may have ended the command of a CQE
            self.cqes.clear();
            return Err(Skip::Malformed);
        }
        self.seen.insert(event.name);
        if self.commands.at(event.at_ns) {
            self.trace().out_of_order += 1;
        }
        self.report.resolution_ns = self.report.resolution_ns.max(event.resolution_ns);
        Ok(())
    }

    fn head<'e>(&mut self, event: &Line<'e>) -> Option<((u32, u16), &'e str, &'e str)> {
        let found = head(event)?;
        self.report.disks.entry(found.0.0).or_default();
        Some(found)
    }

    fn setup(&mut self, event: &Line<'_>) -> Option<()> {
        let ((ctrl, qid), disk, fields) = self.head(event)?;
        let cid = cid(event, fields)?;
        // also if the rest is not understood: the tag has a new command
        let key = (ctrl, qid, cid & TAG);
        if self.commands.open.remove(&key).is_some() {
            self.commands.ledger.overwritten += 1;
        }
        let nsid = number(event, fields, "nsid")?.try_into().ok()?;
        let flags = number(event, fields, "flags")? as u8;
        let metadata =
            value(fields, "meta").or_else(|| value(fields, "metadata")).unwrap_or(0) != 0;
        let queue = if qid == 0 { QueueKind::Admin } else { QueueKind::Io };
        let (opcode, fields) = match event.text.split_once("cmd=(") {
            Some((_, cmd)) => {
                let (name, rest) = cmd.trim_end_matches(')').split_once(' ').unwrap_or((cmd, ""));
                (opcode(name.trim_end_matches(')'), queue)?, rest)
            }
            None => {
                let code = number(event, fields, "opcode")?.try_into().ok()?;
                (Opcode { queue, code }, "")
            }
        };
        let id = CommandId { ctrl, qid, cid, nsid, opcode };
        let parts = Parts { opcode: opcode.code, flags, cid, nsid, metadata, cdw: [0; 6] };
        let raw = raw_dwords(fields);
        let known = raw.or_else(|| dwords(queue, &parts.into(), |key| value(fields, key)));
        let sqe = match known {
            Some(cdw) => Sqe::from(Parts { cdw, ..parts }),
            None => Sqe::from(parts).without_dwords(),
        };
        self.missing[BLOCKS] += u64::from(known.is_none());
        let is_partial = known.is_some() && raw.is_none();
        let is_partial = is_partial && blocks(queue, CommandSet::Nvm, &sqe).is_none();
        self.missing[FIELDS] += u64::from(is_partial);
        let submission = event.submission(event.comm, sqe);
        let known = self.known.disks.values().find(|(disk, _)| *disk == (ctrl, nsid));
        let block = known.map(|(_, sectors)| 512 * *sectors as u32);
        if !disk.is_empty() {
            let disks = self.report.disks.entry(ctrl).or_default();
            disks.entry(nsid).or_insert_with(|| (disk.to_owned(), block.unwrap_or(0)));
        }
        let mut open = PartialCommand::of_driver(id, submission, event.at_ns);
        if let Some(found) = blocks(queue, CommandSet::Nvm, &sqe) {
            open.submission.bytes = block.and_then(|size| size.checked_mul(found.nlb));
            // later bios may have been merged into the request
            let start = self.allocated.remove(&((ctrl, nsid), found.slba)).flatten();
            let fits = |(ns, nlb): &(u64, u64)| *nlb <= found.nlb.into() && *ns <= event.at_ns;
            if let Some((start_ns, _)) = start.filter(fits) {
                open.times.add(Point::Start, start_ns);
            }
        }
        self.commands.begin(key, open);
        self.last.insert((event.tid, event.cpu), key);
        Some(())
    }

    /// The disk and the blocks of a request: `259,0 WFS 498192384 + 8 [logwriter]`.
    fn request(&self, event: &Line<'_>) -> Option<Option<(Disk, u64, u64)>> {
        let (device, sector, length) = sectors(event.text)?;
        let known = self.known.disks.get(device);
        Some(known.map(|(disk, size)| (*disk, sector / size, length / size)))
    }

    fn allocate(&mut self, event: &Line<'_>) -> Option<()> {
        if let Some((disk, slba, nlb)) = self.request(event)? {
            if self.allocated.len() >= MOST_OPEN {
                self.allocated.clear();
            }
            let entry = self.allocated.entry((disk, slba));
            entry.and_modify(|known| *known = None).or_insert(Some((event.at_ns, nlb)));
        }
        Some(())
    }

    fn issue(&mut self, event: &Line<'_>) -> Option<()> {
        let request = self.request(event)?;
        let runs = (event.tid, event.cpu);
        let open = self.last.get(&runs).and_then(|key| self.commands.open.get_mut(key));
        let Some(open) = open else { return Some(()) };
        let PartialCommand { id, submission, times, .. } = open;
        let found = blocks(id.opcode.queue, CommandSet::Nvm, &submission.sqe);
        let own = found.map(|b| ((id.ctrl, id.nsid), b.slba, u64::from(b.nlb)));
        if own.is_some() && own == request && times.ns(Point::SetupOut) <= event.at_ns {
            times.add(Point::Issue, event.at_ns);
            self.report.stage_set = StageSet::Fine;
            self.last.remove(&runs);
        }
        Some(())
    }

    fn cqe(&mut self, event: &Line<'_>) -> Option<()> {
        let ((ctrl, qid), _, fields) = self.head(event)?;
        let half = |key| u16::try_from(number(event, fields, key)?).ok();
        let (head, tail) = half("head").zip(half("tail"))?;
        let cqes = self.cqes.entry((ctrl, qid)).or_default();
        cqes.only = (cqes.waiting == 0).then_some((event.at_ns, event.cpu));
        cqes.waiting += 1;
        let what = EventKind::Sq { ctrl, qid, id: None, head, tail };
        self.commands.push(Event { at_ns: event.at_ns, what });
        Some(())
    }

    /// The CQE of the completion that runs here: the only one of its queue that waits, on the same CPU.
    /// Of several, the text does not say whose each is.
    fn cqe_of(&mut self, queue: (u32, u16), cpu: Option<u16>) -> Option<u64> {
        let cqes = self.cqes.get_mut(&queue)?;
        cqes.waiting = cqes.waiting.saturating_sub(1);
        cqes.only.take().filter(|(_, on)| *on == cpu).map(|(ns, _)| ns)
    }

    fn complete(&mut self, event: &Line<'_>) -> Option<()> {
        let ((ctrl, qid), _, fields) = self.head(event)?;
        let cid = cid(event, fields)?;
        let key = (ctrl, qid, cid & TAG);
        let status: u16 = number(event, fields, "status")?.try_into().ok()?;
        let result = value(fields, "res").or_else(|| value(fields, "result")).unwrap_or(0);
        let small = |key| number(event, fields, key).unwrap_or(0) as u8;
        let (retries, flags) = (small("retries"), small("flags"));
        let verdict = CompletionStatus { result, status: Status(status), retries, flags };
        let has_cqe = !BY_DRIVER.contains(&(status & 0x7ff));
        let cqe_ns = if has_cqe { self.cqe_of((ctrl, qid), event.cpu) } else { None };
        let by_tag = !self.known.has_generations;
        let is_it = self.commands.open.get(&key).is_some_and(|open| open.id.cid == cid || by_tag);
        let Some(mut open) = self.commands.end(is_it.then_some(&key)) else { return Some(()) };
        let since = open.times.ns(Point::SetupOut)..=event.at_ns;
        match cqe_ns.filter(|ns| since.contains(ns)) {
            Some(ns) => open.times.add(Point::Cqe, ns),
            None => self.missing[CQE] += 1,
        }
        self.missing[ALLOCATION] += u64::from(open.times.at(Point::Start).is_none());
        open.verdict = Some(verdict);
        open.complete(event.at_ns, event.cpu);
        self.commands.push(open.finished());
        Some(())
    }
}

fn hides_zeros(event: &Line<'_>) -> bool {
    event.layout == Layout::PerfTrace
}

/// A number of the text. One that `perf trace` does not print is zero.
fn number(event: &Line<'_>, fields: &str, key: &str) -> Option<u64> {
    let is_there = word(fields, key).is_some();
    value(fields, key).or_else(|| (hides_zeros(event) && !is_there).then_some(0))
}

/// The command id: `cmdid` of ftrace, `cid` of `perf trace`.
fn cid(event: &Line<'_>, fields: &str) -> Option<u16> {
    let key = if hides_zeros(event) { "cid" } else { "cmdid" };
    number(event, fields, key)?.try_into().ok()
}

/// `nvme0: disk=nvme0n1, qid=4, ` of ftrace, `disk: "nvme0n1", ctrl_id: 0, qid: 4` of `perf trace`:
/// controller and queue, the disk, and the fields before the command's.
fn head<'e>(event: &Line<'e>) -> Option<((u32, u16), &'e str, &'e str)> {
    let fields = event.text.split_once("cmd=(").map_or(event.text, |(before, _)| before);
    let ctrl = match hides_zeros(event) {
        true => number(event, fields, "ctrl_id")?,
        false => fields.strip_prefix("nvme")?.split_once(':')?.0.parse().ok()?,
    };
    // records have 16 bits for it
    let ctrl = u16::try_from(ctrl).ok()?.into();
    let queue = (ctrl, number(event, fields, "qid")?.try_into().ok()?);
    let disk = word(fields, "disk").filter(|name| name.len() <= 32).unwrap_or_default();
    Some((queue, disk, fields))
}
