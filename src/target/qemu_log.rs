// SPDX-License-Identifier: MIT OR Apache-2.0
//! QEMU's trace log (`-trace 'pci_nvme_*' -msg timestamp=on -D FILE`): lines such as
//! `3787@1795422736.084014:pci_nvme_io_cmd cid 1 nsid 0x1 sqid 1 opc 0x2 opname '...'`. The formats
//! are those of hw/nvme/trace-events, 6.0 to 10.0. A line names neither its controller nor, for some
//! events, its queue; an event that fits several commands is left out, and counted.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;

use super::{ImportError, Imported, finish};
use crate::model::host::{HostCommand, HostEvent, HostId, HostPoint, HostTimes};
use crate::model::target::{HostClock, HostController, TargetInfo, TargetKind};
use crate::nvme::status::Status;

/// The log has microseconds.
const RESOLUTION_NS: u64 = 1000;

/// The number after `key ` or `key=` in a line, decimal or hexadecimal.
fn value(text: &str, key: &str) -> Option<u64> {
    text.match_indices(key).find_map(|(at, _)| {
        let starts = at == 0 || text[..at].ends_with([' ', ',']);
        let rest = text[at + key.len()..].strip_prefix([' ', '=']);
        let word = rest.filter(|_| starts)?.split([' ', ',']).next()?;
        match word.strip_prefix("0x") {
            Some(hex) => u64::from_str_radix(hex, 16).ok(),
            None => word.parse().ok(),
        }
    })
}

/// The value if it fits its type.
fn small<T: TryFrom<u64>>(text: &str, key: &str) -> Option<T> {
    value(text, key)?.try_into().ok()
}

/// `3787@1795422736.084014:` to nanoseconds; `None` if it is something else.
fn time(head: &str) -> Option<u64> {
    let (seconds, micros) = head.split_once('@')?.1.split_once('.')?;
    let (seconds, micros): (u64, u64) = (seconds.parse().ok()?, micros.parse().ok()?);
    let whole = seconds.checked_mul(1_000_000_000)?;
    whole.checked_add(micros.checked_mul(1000).filter(|ns| *ns < 1_000_000_000)?)
}

/// Command id and queue. Most lines have the command id alone.
type Key = (u16, u16);

/// The state of the controller while the log is read.
#[derive(Default)]
pub(super) struct Reader {
    pub imported: Imported,
    /// Commands in flight.
    flying: BTreeMap<Key, HostCommand>,
    /// Those of I/O queues without blocks yet.
    bare: BTreeSet<Key>,
    /// Completion queue of each submission queue whose creation is in the log.
    cqs: BTreeMap<u16, u16>,
    /// The submission queues of each of these completion queues.
    sqs: BTreeMap<u16, BTreeSet<u16>>,
}

/// The keys with this command id, whatever the queue.
const fn with_cid(cid: u16) -> RangeInclusive<Key> {
    (cid, 0)..=(cid, u16::MAX)
}

/// The only key; `None` if there are none, or several.
fn only(mut keys: impl Iterator<Item = Key>) -> Option<Key> {
    let first = keys.next()?;
    keys.next().is_none().then_some(first)
}

/// Why a line gives nothing.
pub(super) enum Skip {
    /// It is about something else.
    Other,
    /// Its form is not the expected one.
    Malformed,
    /// It is about another controller than the lines before.
    Second,
}

impl Reader {
    /// Begins a command.
    fn fetch(&mut self, ns: u64, text: &str, qid: u16) -> Result<(), Skip> {
        let (cid, opcode) = small(text, "cid").zip(small(text, "opc")).ok_or(Skip::Malformed)?;
        let id = HostId { qid, cid, nsid: small(text, "nsid"), opcode, slba: None, nlb: None };
        let command = HostCommand {
            ctrl: 0,
            id: Some(id),
            request: None,
            status: None,
            times: HostTimes::default().with(HostPoint::Fetch, ns),
        };
        self.bare.extend((qid > 0).then_some((cid, qid)));
        match self.flying.insert((cid, qid), command) {
            None => Ok(()),
            // a driver does not use an id again while its command is in flight
            Some(_) => Err(Skip::Second),
        }
    }

    /// The only command in flight with this id whose completion queue is this one.
    fn only_on(&self, cid: u16, cqid: u16) -> Option<Key> {
        // a queue whose creation is not in the log has the completion queue of its own number
        let same = (!self.cqs.contains_key(&cqid)).then_some(cqid);
        let created = self.sqs.get(&cqid).into_iter().flatten().copied();
        let keys = same.into_iter().chain(created).map(|qid| (cid, qid));
        only(keys.filter(|key| self.flying.contains_key(key)))
    }

    /// Adds the blocks to the command whose fetch is the line before.
    fn blocks(&mut self, text: &str) -> Result<(), Skip> {
        let cid = small(text, "cid").ok_or(Skip::Malformed)?;
        let bare = self.bare.range(with_cid(cid)).copied();
        let key = only(bare).ok_or(Skip::Other)?;
        if let Some(id) = self.flying.get_mut(&key).and_then(|c| c.id.as_mut()) {
            (id.slba, id.nlb) = (value(text, "lba"), small(text, "nlb"));
            if id.slba.is_some() {
                self.bare.remove(&key);
            }
        }
        Ok(())
    }

    /// The storage has answered. The line has no queue.
    fn answered(&mut self, ns: u64, text: &str) -> Result<(), Skip> {
        let cid = small(text, "cid").ok_or(Skip::Malformed)?;
        let flying = self.flying.range(with_cid(cid)).map(|(key, _)| *key);
        let key = only(flying.filter(|(_, qid)| *qid > 0)).ok_or(Skip::Other)?;
        if let Some(command) = self.flying.get_mut(&key) {
            command.times.set(HostPoint::BackendDone, ns);
        }
        Ok(())
    }

    /// Ends a command. The line has the completion queue only.
    fn post(&mut self, ns: u64, text: &str) -> Result<(), Skip> {
        let (cid, cqid): (u16, u16) =
            small(text, "cid").zip(small(text, "cqid")).ok_or(Skip::Malformed)?;
        let status: u16 = small(text, "status").ok_or(Skip::Malformed)?;
        let key = self.only_on(cid, cqid);
        key.iter().for_each(|key| {
            self.bare.remove(key);
        });
        let Some(mut command) = key.and_then(|key| self.flying.remove(&key)) else {
            self.imported.ledger.without_begin += 1;
            return Ok(());
        };
        command.times.set(HostPoint::Post, ns);
        command.status = Some(Status(status));
        self.imported.events.push(HostEvent::Command(command));
        Ok(())
    }

    /// A reset: what was in flight has no end.
    fn reset(&mut self) {
        self.imported.ledger.without_end += self.flying.len() as u64;
        self.flying.clear();
        self.bare.clear();
        self.cqs.clear();
        self.sqs.clear();
    }

    fn created(&mut self, text: &str) -> Result<(), Skip> {
        let queues = small(text, "sqid").zip(small(text, "cqid"));
        let (sq, cq) = queues.ok_or(Skip::Malformed)?;
        let former = self.forget(sq);
        self.cqs.insert(sq, cq);
        self.sqs.entry(cq).or_default().insert(sq);
        match former {
            None => Ok(()),
            Some(_) => Err(Skip::Second),
        }
    }

    /// Forgets a submission queue. Returns its completion queue, if its creation is in the log.
    fn forget(&mut self, sq: u16) -> Option<u16> {
        let cq = self.cqs.remove(&sq)?;
        if let Entry::Occupied(mut sqs) = self.sqs.entry(cq) {
            sqs.get_mut().remove(&sq);
            if sqs.get().is_empty() {
                sqs.remove();
            }
        }
        Some(cq)
    }

    fn deleted(&mut self, text: &str) -> Result<(), Skip> {
        let sq = small(text, "sqid").or_else(|| small(text, "sq"));
        sq.and_then(|sq| self.forget(sq)).ok_or(Skip::Other)?;
        Ok(())
    }

    /// The commands in flight, by queue and command id.
    pub fn unfinished(&mut self) -> Vec<HostEvent> {
        self.bare.clear();
        let mut left: Vec<_> = std::mem::take(&mut self.flying).into_iter().collect();
        left.sort_by_key(|((cid, qid), _)| (*qid, *cid));
        let left = left.into_iter();
        left.map(|(_, command)| HostEvent::Unfinished(command)).collect()
    }

    /// Counts a line that gives nothing.
    pub fn skip(&mut self, why: &Skip) {
        let ledger = &mut self.imported.ledger;
        match why {
            Skip::Other => ledger.other += 1,
            Skip::Malformed | Skip::Second => ledger.malformed += 1,
        }
    }

    /// Takes an event in.
    pub fn line(&mut self, ns: u64, name: &str, text: &str) -> Result<(), Skip> {
        match name {
            "pci_nvme_io_cmd" => {
                let qid = small(text, "sqid").ok_or(Skip::Malformed)?;
                self.fetch(ns, text, qid)
            }
            "pci_nvme_admin_cmd" => self.fetch(ns, text, 0),
            "pci_nvme_read" | "pci_nvme_write" => self.blocks(text),
            "pci_nvme_rw_cb" => self.answered(ns, text),
            "pci_nvme_enqueue_req_completion" => self.post(ns, text),
            "pci_nvme_create_sq" => self.created(text),
            "pci_nvme_del_sq" => self.deleted(text),
            "pci_nvme_irq_msix" => {
                let vector = small(text, "vector").ok_or(Skip::Malformed)?;
                self.imported.events.push(HostEvent::Interrupt { ctrl: 0, vector, at_ns: ns });
                Ok(())
            }
            "pci_nvme_pci_reset" => {
                self.reset();
                Ok(())
            }
            "pci_nvme_mmio_cfg" => {
                let config = value(text, "config").ok_or(Skip::Malformed)?;
                if config & 1 == 0 {
                    self.reset();
                }
                Ok(())
            }
            _ => Err(Skip::Other),
        }
    }
}

fn target() -> TargetInfo {
    TargetInfo {
        kind: TargetKind::Qemu,
        by: "log".into(),
        clock: HostClock::Realtime,
        resolution_ns: RESOLUTION_NS,
        ..TargetInfo::default()
    }
}

/// Reads a log.
///
/// # Errors
/// If it is no trace of QEMU's NVMe controller, has no times, or is about several controllers.
pub fn import(log: &str) -> Result<Imported, ImportError> {
    let mut reader = Reader::default();
    let (mut timed, mut untimed) = (0_u64, 0_u64);
    for (number, line) in (1..).zip(log.lines()) {
        let ledger = &mut reader.imported.ledger;
        let Some((head, rest)) = line.split_once(":pci_nvme_") else {
            if line.starts_with("pci_nvme_") {
                untimed += 1;
            } else {
                ledger.other += 1;
            }
            continue;
        };
        let Some(ns) = time(head) else {
            ledger.malformed += 1;
            continue;
        };
        timed += 1;
        let (name, text) = rest.split_once(' ').unwrap_or((rest, ""));
        match reader.line(ns, &format!("pci_nvme_{name}"), text) {
            Ok(()) => {}
            Err(Skip::Second) => return Err(ImportError::SeveralControllers { line: number }),
            Err(skip) => reader.skip(&skip),
        }
    }
    match (timed, untimed) {
        (0, 0) => return Err(ImportError::NoTrace),
        (0, _) => return Err(ImportError::NoTimes),
        (_, untimed) => reader.imported.ledger.malformed += untimed,
    }
    let left = reader.unfinished();
    let mut imported = reader.imported;
    imported.events.extend(left);
    imported.target = target();
    imported.controllers =
        vec![HostController { name: "qemu:0".into(), ..HostController::default() }];
    Ok(finish(imported))
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: &str = "7@10.000001:pci_nvme_io_cmd cid 5 nsid 0x1 sqid 2 opc 0x2 opname 'R'\n";

    fn lines(more: &str) -> String {
        format!("{HEAD}{more}")
    }

    #[test]
    fn numbers_are_found_by_their_whole_key() {
        let text = "cid 22 nsid 1 nlb 4 count 2048 lba 0x48";
        assert_eq!(value(text, "lba"), Some(0x48));
        assert_eq!(value(text, "nlb"), Some(4));
        assert_eq!(value(text, "id"), None);
        assert_eq!(value("config controller config=0x1", "config"), Some(1));
        assert_eq!(value("addr=0x10, sqid=1, cqid=3", "cqid"), Some(3));
    }

    #[test]
    fn an_answer_that_fits_two_commands_is_left_out() {
        let log = lines(
            "7@10.000002:pci_nvme_io_cmd cid 5 nsid 0x1 sqid 3 opc 0x2 opname 'R'\n\
             7@10.000003:pci_nvme_rw_cb cid 5 blk ''\n\
             7@10.000004:pci_nvme_enqueue_req_completion cid 5 cqid 3 dw0 0x0 dw1 0x0 status 0x0\n",
        );
        let read = import(&log).unwrap();
        let HostEvent::Command(done) = read.events[1] else {
            panic!("{:?}", read.events);
        };
        assert_eq!(done.id.unwrap().qid, 3);
        assert_eq!(done.times.at(HostPoint::BackendDone), None);
        assert_eq!((read.ledger.commands, read.ledger.unfinished), (1, 1));
        assert_eq!(read.ledger.other, 1);
    }

    #[test]
    fn an_end_fits_the_queues_of_its_completion_queue() {
        let io = |sqid| format!("7@10.000001:pci_nvme_io_cmd cid 5 nsid 0x1 sqid {sqid} opc 0x2\n");
        let created = |sqid| format!("7@10.000001:pci_nvme_create_sq sqid={sqid}, cqid=9\n");
        let end = "7@10.000002:pci_nvme_enqueue_req_completion cid 5 cqid 9 status 0x0\n";
        let read = |log: String| {
            let read = import(&log).unwrap();
            let done = read.events.iter().filter_map(|event| match event {
                HostEvent::Command(command) => Some(command.id.unwrap().qid),
                _ => None,
            });
            (done.collect::<Vec<_>>(), read.ledger.without_begin)
        };
        let (second, third) = (created(2), created(3));
        assert_eq!(read(io(9) + &io(2) + end), (vec![9], 0));
        assert_eq!(read(second.clone() + &io(2) + &io(4) + end), (vec![2], 0));
        // two fit: 2 by its creation and 9 by its number, and then two by their creation
        assert_eq!(read(second.clone() + &io(9) + &io(2) + end), (vec![], 1));
        assert_eq!(read(second.clone() + &third + &io(2) + &io(3) + end), (vec![], 1));
        let deleted = "7@10.000001:pci_nvme_del_sq sqid=2\n";
        assert_eq!(read(second + &third + deleted + &io(2) + &io(3) + end), (vec![3], 0));
    }

    #[test]
    fn a_second_controller_is_refused() {
        let again = lines(HEAD);
        assert_eq!(import(&again), Err(ImportError::SeveralControllers { line: 2 }));
    }

    #[test]
    fn a_reset_ends_what_is_in_flight() {
        let log = lines("7@10.000002:pci_nvme_mmio_cfg wrote MMIO, config controller config=0x0\n");
        let ledger = import(&lines(&log[HEAD.len()..])).unwrap().ledger;
        assert_eq!((ledger.commands, ledger.without_end), (0, 1));
    }

    #[test]
    fn other_files_are_refused() {
        assert_eq!(import("hello\n"), Err(ImportError::NoTrace));
        let untimed = "pci_nvme_io_cmd cid 5 nsid 0x1 sqid 2 opc 0x2 opname 'R'\n";
        assert_eq!(import(untimed), Err(ImportError::NoTimes));
        assert_eq!(time("7@10.1234567890"), None);
    }
}
