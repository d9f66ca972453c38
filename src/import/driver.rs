// SPDX-License-Identifier: MIT OR Apache-2.0
//! The commands in texts of the driver's own tracepoints: nvme_setup_cmd, nvme_complete_rq and
//! nvme_sq, and with them block_getrq and block_rq_issue where the text has them.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::lines::{Found, Layout, Line, Unreads, each, read, sectors};
use crate::model::event::{CommandId, CompletionStatus, Event, EventKind, Outcome, Submission};
use crate::model::ledger::{Ledger, TraceLedger};
use crate::model::machine::{ControllerInfo, DiskInfo, Pairing};
use crate::model::point::{Pattern, Point};
use crate::model::stage::StageSet;
use crate::model::target::TargetInfo;
use crate::model::timeline::Timeline;
use crate::nvme::decode::{CommandSet, blocks};
use crate::nvme::opcode::{Opcode, QueueKind, parse};
use crate::nvme::sqe::{Parts, Sqe};
use crate::nvme::status::Status;
use crate::target::{MOST_OPEN, value, word};

/// Sectors of 512 bytes in a block, of the sizes that Linux supports.
const SECTORS: [u64; 2] = [1, 8];
/// Most device numbers with a request at one sector: more are no mirror of a disk.
const MOST_DEVICES: usize = 16;

/// The kernel's names of commands (drivers/nvme/host/trace.h) that [`parse`] does not know.
const NAMES: [(&str, &str); 6] = [
    ("activate_fw", "firmware-commit"),
    ("download_fw", "firmware-download"),
    ("dev_self_test", "self-test"),
    ("virtual_mgmt", "virtualization-mgmt"),
    ("zone_mgmt_send", "zone-mgmt-send"),
    ("zone_mgmt_recv", "zone-mgmt-recv"),
];

/// The place of a field in the 24 bytes of CDW10 to CDW15: its name, first byte, and size.
type Place = (&'static str, usize, usize);
const BLOCKS: &[Place] =
    &[("slba", 0, 8), ("len", 8, 2), ("ctrl", 10, 2), ("dsmgmt", 12, 4), ("reftag", 16, 4)];

/// The fields of the commands that the kernel decodes (drivers/nvme/host/trace.c).
const fn places(opcode: Opcode) -> &'static [Place] {
    match (opcode.queue, opcode.code) {
        (QueueKind::Io, 0x01 | 0x02 | 0x08 | 0x7d) => BLOCKS,
        (QueueKind::Io, 0x09) => &[("nr", 0, 4), ("attributes", 4, 4)],
        (QueueKind::Io, 0x79) => &[("slba", 0, 8), ("zsa", 12, 1), ("all", 13, 1)],
        (QueueKind::Admin, 0x00) => &[("sqid", 0, 2)],
        (QueueKind::Admin, 0x01) => {
            &[("sqid", 0, 2), ("qsize", 2, 2), ("sq_flags", 4, 2), ("cqid", 6, 2)]
        }
        (QueueKind::Admin, 0x04) => &[("cqid", 0, 2)],
        (QueueKind::Admin, 0x05) => {
            &[("cqid", 0, 2), ("qsize", 2, 2), ("cq_flags", 4, 2), ("irq_vector", 6, 2)]
        }
        (QueueKind::Admin, 0x06) => &[("cns", 0, 1), ("ctrlid", 2, 2)],
        (QueueKind::Admin, 0x0a) => &[("fid", 0, 1), ("sel", 1, 1), ("cdw11", 4, 4)],
        (QueueKind::Admin, 0x09) => &[("fid", 0, 1), ("sv", 3, 1), ("cdw11", 4, 4)],
        _ => &[],
    }
}

/// CDW10 to CDW15, from the fields or from 24 bytes in hexadecimal. `None`: the text does not have
/// them.
fn dwords(opcode: Opcode, fields: &str) -> Option<[u32; 6]> {
    let mut bytes = [0_u8; 24];
    let places = places(opcode);
    if places.is_empty() || word(fields, places[0].0).is_none() {
        let hex = fields.strip_prefix("cdw10=").unwrap_or(fields);
        let mut found = hex.split_whitespace().map(|byte| u8::from_str_radix(byte, 16));
        for byte in &mut bytes {
            *byte = found.next()?.ok()?;
        }
    } else {
        for &(key, from, size) in places {
            let field = value(fields, key)?.to_le_bytes();
            bytes[from..from + size].copy_from_slice(&field[..size]);
        }
    }
    let mut dwords = [0; 6];
    for (dword, four) in dwords.iter_mut().zip(bytes.as_chunks().0) {
        *dword = u32::from_le_bytes(*four);
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

/// The name of a thread, as far as the kernel keeps it.
pub fn comm(name: &str) -> [u8; 16] {
    let mut comm = [0; 16];
    let kept = name.len().min(15);
    comm[..kept].copy_from_slice(&name.as_bytes()[..kept]);
    comm
}

/// A command that was set up.
struct Open {
    id: CommandId,
    submission: Submission,
    at_ns: u64,
    start_ns: Option<u64>,
    issue_ns: Option<u64>,
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

/// What a text has, and what it lacks.
#[derive(Clone, Debug, Default)]
pub struct Census {
    /// Times of the first and the last event.
    pub span: Option<(u64, u64)>,
    /// Of the times.
    pub resolution_ns: u64,
    /// The tracepoints whose events were read.
    pub events: BTreeSet<&'static str>,
    /// The counts of the commands.
    pub ledger: Ledger,
    /// Commands without CDW10 to CDW15.
    pub bare: u64,
    /// Commands for which the kernel prints some fields only.
    pub partial: u64,
    /// Completions whose status the text does not have.
    pub without_status: u64,
    /// Commands whose CQE was seen, or whose allocation.
    pub with_cqe: u64,
    /// See `with_cqe`.
    pub with_start: u64,
    /// See `with_cqe`: the issue.
    pub with_issue: u64,
    /// Older events that were overwritten before the text was read.
    pub overwritten: u64,
    /// Lines about something else.
    pub other: u64,
    /// The target whose commands they are; `None`: the driver's.
    pub target: Option<TargetInfo>,
    /// The disks, by controller and namespace: name, bytes of a block or 0.
    disks: BTreeMap<(u32, u32), (String, u32)>,
    /// The controllers.
    controllers: BTreeSet<u32>,
    /// What the text lacks, for its report.
    pub lacks: Vec<String>,
    /// Lines that nothing was read from.
    pub unreads: Unreads,
}

impl Census {
    /// The stages that the points of the text make.
    pub fn stage_set(&self) -> StageSet {
        match self.target {
            Some(_) => StageSet::Host,
            None if self.with_issue > 0 => StageSet::Fine,
            None => StageSet::Basic,
        }
    }

    /// Adds a disk of blkparse, whose sectors are its blocks.
    pub fn disk(&mut self, ctrl: u32, name: String) {
        self.controllers.insert(ctrl);
        self.disks.insert((ctrl, 1), (name, 512));
    }

    /// The controllers and disks.
    pub fn controllers(&self) -> Vec<ControllerInfo> {
        let all = self.controllers.iter().map(|&instance| ControllerInfo {
            instance,
            disks: (self.disks.range((instance, 0)..=(instance, u32::MAX)))
                .map(|((_, nsid), (name, lba_bytes))| DiskInfo {
                    name: name.as_str().into(),
                    nsid: *nsid,
                    lba_bytes: *lba_bytes,
                    csi: 0,
                })
                .collect(),
            ..ControllerInfo::default()
        });
        all.collect()
    }
}

/// What must be known of the whole text before its commands are read.
pub struct Known<'t> {
    /// Which disk each device number of block events is.
    disks: HashMap<&'t str, Disk>,
    /// Whether completions have the generation of a command id.
    has_generations: bool,
}

impl<'t> Known<'t> {
    /// The text does not map device numbers to disks. A device is the disk whose commands start at the
    /// sectors of most of its requests. If two fit equally well, it is unknown.
    pub fn of(text: &'t str) -> Self {
        let mut allocated: HashMap<u64, Vec<&str>> = HashMap::new();
        let mut fits: HashMap<&str, (u64, BTreeMap<Disk, u64>)> = HashMap::new();
        let mut has_generations = false;
        for line in text.lines() {
            let Found::Event(event) = read(line) else { continue };
            match event.name {
                "block_getrq" => {
                    let Some((device, sector, length)) = sectors(event.text) else { continue };
                    // the commands of flushes and discards have no slba
                    if length == 0
                        || event.text.split(' ').nth(1).is_some_and(|rwbs| rwbs.contains('D'))
                    {
                        continue;
                    }
                    if allocated.len() >= MOST_OPEN {
                        allocated.clear();
                    }
                    let devices = allocated.entry(sector).or_default();
                    if !devices.contains(&device) && devices.len() < MOST_DEVICES {
                        devices.push(device);
                    }
                    fits.entry(device).or_default().0 += 1;
                }
                "nvme_setup_cmd" => {
                    let Some(((ctrl, _), _, fields)) = head(&event) else { continue };
                    let nsid = number(&event, fields, "nsid").and_then(|n| n.try_into().ok());
                    let Some((nsid, slba)) = nsid.zip(value(event.text, "slba")) else { continue };
                    let sectors = SECTORS.into_iter().filter_map(|size| slba.checked_mul(size));
                    for device in sectors.filter_map(|s| allocated.get(&s)).flatten() {
                        if let Some((_, disks)) = fits.get_mut(device) {
                            *disks.entry((ctrl, nsid)).or_default() += 1;
                        }
                    }
                }
                "nvme_complete_rq" => {
                    has_generations |= value(event.text, "cmdid").is_some_and(|c| c > TAG.into());
                    has_generations |= value(event.text, "cid").is_some_and(|c| c > TAG.into());
                }
                _ => {}
            }
        }
        let best = |(device, (requests, disks)): (_, (u64, BTreeMap<Disk, u64>))| {
            let (disk, most) = disks.iter().max_by_key(|(_, count)| **count)?;
            let is_only = disks.values().filter(|count| *count == most).count() == 1;
            (is_only && 2 * most >= requests).then_some((device, *disk))
        };
        Self { disks: fits.into_iter().filter_map(best).collect(), has_generations }
    }
}

/// Reads a text.
struct Reader<'s> {
    known: &'s Known<'s>,
    census: Census,
    open: HashMap<Key, Open>,
    /// The command that was set up last, by who runs: block_rq_issue follows at once.
    last: HashMap<Runs, Key>,
    /// Time and length of allocated requests without a command, by disk and sector; `None`: several.
    allocated: HashMap<(Disk, u64), Option<(u64, u64)>>,
    cqes: HashMap<(u32, u16), Cqes>,
    to: &'s mut dyn FnMut(&Event),
}

/// Reads an event of a tracepoint; `None`: it has another form.
type Read = fn(&mut Reader<'_>, &Line<'_>) -> Option<()>;

/// The tracepoints that are read.
const EVENTS: [(&str, Read); 5] = [
    ("nvme_setup_cmd", |reader, event| reader.setup(event)),
    ("nvme_complete_rq", |reader, event| reader.complete(event)),
    ("nvme_sq", |reader, event| reader.cqe(event)),
    ("block_getrq", |reader, event| reader.allocate(event)),
    ("block_rq_issue", |reader, event| reader.issue(event)),
];

/// Reads the whole text, and passes on its events in their order. A second call gives the same.
pub fn import(text: &str, known: &Known<'_>, to: &mut dyn FnMut(&Event)) -> Census {
    let mut reader = Reader {
        known,
        census: Census::default(),
        open: HashMap::new(),
        last: HashMap::new(),
        allocated: HashMap::new(),
        cqes: HashMap::new(),
        to,
    };
    let unreads = each(text, |_, found| {
        match found {
            Found::Header(line) => reader.header(line),
            Found::Lost(lost) => reader.lost(lost),
            Found::Event(event) if !reader.event(event) => return Err(event.name.into()),
            _ => {}
        }
        Ok(())
    });
    reader.census.unreads = unreads;
    reader.finish()
}

impl Reader<'_> {
    /// `# entries-in-buffer/entries-written: 9/12   #P:8`
    fn header(&mut self, line: &str) {
        let counts = line.split_once("entries-written:").map(|(_, counts)| counts.trim());
        let counts = counts.and_then(|c| c.split_whitespace().next()?.split_once('/'));
        let counts = counts.and_then(|(kept, all)| Some((kept.parse().ok()?, all.parse().ok()?)));
        let (kept, all): (u64, u64) = counts.unwrap_or_default();
        self.census.overwritten += all.saturating_sub(kept);
    }

    fn ledger(&mut self) -> &mut Ledger {
        &mut self.census.ledger
    }

    fn trace(&mut self) -> &mut TraceLedger {
        self.ledger().trace.get_or_insert_default()
    }

    /// The setups, completions and CQEs before the gap may not be those after it.
    fn lost(&mut self, events: u64) {
        let trace = self.trace();
        trace.lost_events = trace.lost_events.saturating_add(events);
        self.cqes.clear();
        self.allocated.clear();
        self.last.clear();
    }

    /// Takes an event in. Returns whether it was understood.
    fn event(&mut self, event: Line<'_>) -> bool {
        let Line { at_ns, resolution_ns, .. } = event;
        let known = EVENTS.iter().find(|(name, _)| *name == event.name);
        let Some((name, _)) = known.filter(|(_, read)| read(self, &event).is_some()) else {
            // it may have ended the command of a CQE
            if matches!(event.name, "nvme_sq" | "nvme_complete_rq") {
                self.cqes.clear();
            }
            return false;
        };
        let census = &mut self.census;
        census.events.insert(name);
        let (first, last) = census.span.unwrap_or((at_ns, at_ns));
        if at_ns < last {
            self.trace().out_of_order += 1;
        }
        let census = &mut self.census;
        census.span = Some((first.min(at_ns), last.max(at_ns)));
        census.resolution_ns = census.resolution_ns.max(resolution_ns);
        true
    }

    fn head<'e>(&mut self, event: &Line<'e>) -> Option<((u32, u16), &'e str, &'e str)> {
        let found = head(event)?;
        self.census.controllers.insert(found.0.0);
        Some(found)
    }

    fn setup(&mut self, event: &Line<'_>) -> Option<()> {
        let ((ctrl, qid), disk, fields) = self.head(event)?;
        let cid = cid(event, fields)?;
        // also if the rest is not understood: the tag has a new command
        if self.open.remove(&(ctrl, qid, cid & TAG)).is_some() {
            self.ledger().overwritten += 1;
        }
        let nsid = number(event, fields, "nsid")?.try_into().ok()?;
        let flags = number(event, fields, "flags")? as u8;
        let metadata =
            value(fields, "meta").or_else(|| value(fields, "metadata")).unwrap_or(0) != 0;
        let queue = if qid == 0 { QueueKind::Admin } else { QueueKind::Io };
        let (opcode, cdw) = match event.text.split_once("cmd=(") {
            Some((_, cmd)) => {
                let cmd = cmd.trim_end_matches(')');
                let (name, rest) = cmd.split_once(' ').unwrap_or((cmd, ""));
                let opcode = opcode(name, queue)?;
                (opcode, dwords(opcode, rest))
            }
            None => {
                let code = number(event, fields, "opcode")?.try_into().ok()?;
                (Opcode { queue, code }, None)
            }
        };
        let id = CommandId { ctrl, qid, cid, nsid, opcode };
        let parts =
            Parts { opcode: opcode.code, flags, cid, nsid, metadata, cdw: cdw.unwrap_or_default() };
        let sqe = match cdw {
            Some(_) => Sqe::from(parts),
            None => Sqe::from(parts).without_dwords(),
        };
        self.census.bare += u64::from(cdw.is_none());
        let is_whole = event.text.contains("cdw10=") || places(opcode) == BLOCKS;
        self.census.partial += u64::from(cdw.is_some() && !is_whole && opcode.code != 0);
        let knows = !event.comm.is_empty();
        let submission = Submission {
            knows_submitter: knows,
            pid: event.tgid.unwrap_or(event.tid),
            tid: event.tid,
            comm: comm(event.comm),
            cpu: event.cpu.unwrap_or(0),
            ..Submission::of(sqe)
        };
        let lba_bytes = self.disk(&id, disk);
        let mut open = Open { id, submission, at_ns: event.at_ns, start_ns: None, issue_ns: None };
        if let Some(found) = blocks(queue, CommandSet::Nvm, &sqe) {
            let (start_ns, size) =
                self.allocation((ctrl, nsid), found.slba, found.nlb, event.at_ns);
            open.start_ns = start_ns;
            self.learn_size(&id, size);
            let size = size.or(Some(lba_bytes).filter(|size| *size > 0));
            open.submission.bytes = size.and_then(|size| size.checked_mul(found.nlb));
        }
        self.ledger().seen += 1;
        if self.open.len() >= MOST_OPEN {
            self.ledger().untracked += 1;
            return Some(());
        }
        self.open.insert((ctrl, qid, cid & TAG), open);
        self.last.insert((event.tid, event.cpu), (ctrl, qid, cid & TAG));
        Some(())
    }

    /// Notes the disk of a command. Returns the bytes of its blocks, or 0.
    fn disk(&mut self, id: &CommandId, name: &str) -> u32 {
        let disks = &mut self.census.disks;
        let key = (id.ctrl, id.nsid);
        match name {
            "" => 0,
            name => disks.entry(key).or_insert_with(|| (name.to_owned(), 0)).1,
        }
    }

    fn learn_size(&mut self, id: &CommandId, size: Option<u32>) {
        let disk = self.census.disks.get_mut(&(id.ctrl, id.nsid));
        if let Some(((_, known), size)) = disk.zip(size) {
            *known = size;
        }
    }

    /// The allocation of the request with these blocks, and the size of a block, if only one fits.
    fn allocation(
        &mut self,
        disk: Disk,
        slba: u64,
        nlb: u32,
        now: u64,
    ) -> (Option<u64>, Option<u32>) {
        let found = SECTORS.into_iter().filter_map(|sectors| {
            let key = (disk, slba.checked_mul(sectors)?);
            let request = *self.allocated.get(&key)?;
            // later bios may have been merged into the request
            let fits =
                request.is_none_or(|(ns, length)| length <= sectors * u64::from(nlb) && ns <= now);
            fits.then_some((sectors, key, request))
        });
        let found: Vec<_> = found.collect();
        found.iter().for_each(|(_, key, _)| {
            self.allocated.remove(key);
        });
        let [(sectors, _, Some((ns, length)))] = found[..] else {
            return (None, None);
        };
        let is_sure = slba > 0 || length == sectors * u64::from(nlb);
        (Some(ns), is_sure.then_some(512 * sectors as u32))
    }

    /// `259,0 WFS 498192384 + 8 [logwriter]`
    fn allocate(&mut self, event: &Line<'_>) -> Option<()> {
        let (device, sector, length) = sectors(event.text)?;
        if let Some(disk) = self.known.disks.get(device) {
            if self.allocated.len() >= MOST_OPEN {
                self.allocated.clear();
            }
            let entry = self.allocated.entry((*disk, sector));
            entry.and_modify(|known| *known = None).or_insert(Some((event.at_ns, length)));
        }
        Some(())
    }

    /// `259,0 WFS 4096 () 498192384 + 8 none,0,0 [logwriter]`
    fn issue(&mut self, event: &Line<'_>) -> Option<()> {
        let (_, sector, length) = sectors(event.text)?;
        let runs = (event.tid, event.cpu);
        let open = self.last.get(&runs).and_then(|key| self.open.get_mut(key));
        let Some(open) = open.filter(|open| open.at_ns <= event.at_ns) else { return Some(()) };
        let found = blocks(open.id.opcode.queue, CommandSet::Nvm, &open.submission.sqe);
        let size = SECTORS.into_iter().find(|size| {
            found.is_some_and(|b| {
                b.slba.checked_mul(*size) == Some(sector) && u64::from(b.nlb) * size == length
            })
        });
        if let Some(size) = size {
            open.issue_ns = Some(event.at_ns);
            let id = open.id;
            self.last.remove(&runs);
            self.learn_size(&id, Some(512 * size as u32));
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
        (self.to)(&Event { at_ns: event.at_ns, what });
        self.trace().events_shown += 1;
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
        let status = number(event, fields, "status").and_then(|s| u16::try_from(s).ok());
        let result = value(fields, "res").or_else(|| value(fields, "result"));
        let verdict = status.map(|status| CompletionStatus {
            result: result.unwrap_or(0),
            status: Status(status),
            retries: number(event, fields, "retries").unwrap_or(0) as u8,
            flags: number(event, fields, "flags").unwrap_or(0) as u8,
        });
        self.ledger().completions += 1;
        self.census.without_status += u64::from(verdict.is_none());
        let has_cqe = status.is_none_or(|status| !BY_DRIVER.contains(&(status & 0x7ff)));
        let cqe_ns = if has_cqe { self.cqe_of((ctrl, qid), event.cpu) } else { None };
        let by_tag = !self.known.has_generations;
        let is_it = self.open.get(&key).is_some_and(|open| open.id.cid == cid || by_tag);
        let open = if is_it { self.open.remove(&key) } else { None };
        let Some(open) = open else {
            self.ledger().orphan_completions += 1;
            return Some(());
        };
        self.finished(&open, event, verdict, cqe_ns);
        Some(())
    }

    fn finished(
        &mut self,
        open: &Open,
        event: &Line<'_>,
        verdict: Option<CompletionStatus>,
        cqe_ns: Option<u64>,
    ) {
        let at_ns = event.at_ns;
        let latency_ns = at_ns.checked_sub(open.at_ns);
        self.ledger().matched += 1;
        self.ledger().negative_intervals += u64::from(latency_ns.is_none());
        let cqe_ns = cqe_ns.filter(|ns| (open.at_ns..=at_ns).contains(ns));
        let seen = [
            (Point::Start, open.start_ns),
            (Point::Issue, open.issue_ns),
            (Point::Cqe, cqe_ns),
            (Point::SetupOut, Some(open.at_ns)),
            (Point::Complete, Some(at_ns)),
        ];
        let census = &mut self.census;
        census.with_start += u64::from(open.start_ns.is_some());
        census.with_issue += u64::from(open.issue_ns.is_some());
        census.with_cqe += u64::from(cqe_ns.is_some());
        let known = seen.iter().filter(|(_, ns)| ns.is_some());
        let bits: Pattern = known.filter_map(|(point, _)| point.pattern_bit()).sum();
        let time = |point| seen.iter().find(|(p, _)| *p == point).and_then(|(_, ns)| *ns);
        let line = Timeline::from_fn(bits, |point| time(point).unwrap_or(0));
        let cpu = event.cpu.unwrap_or(0);
        let outcome = Outcome { verdict, cpu, ..Outcome::of(latency_ns, latency_ns.map(|_| line)) };
        self.trace().commands_shown += 1;
        (self.to)(&Event { at_ns, what: EventKind::Command(open.id, open.submission, outcome) });
    }

    fn finish(mut self) -> Census {
        let last_ns = self.census.span.map_or(0, |(_, last)| last);
        let mut left: Vec<Open> = self.open.drain().map(|(_, open)| open).collect();
        left.sort_by_key(|open| (open.at_ns, open.id.qid, open.id.cid));
        for Open { id, submission, at_ns, .. } in &left {
            let age_ns = last_ns.saturating_sub(*at_ns);
            let what = EventKind::Unfinished { id: *id, submission: *submission, age_ns };
            (self.to)(&Event { at_ns: last_ns, what });
        }
        self.trace().events_shown += left.len() as u64;
        let ledger = self.ledger();
        ledger.in_flight = left.len() as u64;
        ledger.imported = true;
        ledger.pairing = Pairing::Tag;
        ledger.span = (Point::SetupOut, Point::Complete);
        self.census
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
