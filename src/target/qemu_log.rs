// SPDX-License-Identifier: MIT OR Apache-2.0
//! QEMU's trace events of its NVMe controller, as its log and its USDT probes have them: a name, and
//! arguments such as `cid 1 nsid 0x1 sqid 1 opc 0x2`. The formats
//! are those of hw/nvme/trace-events, 6.0 to 11.1. An event names neither its controller nor, for some
//! events, its queue; an event that fits several commands is left out, and counted.

use std::collections::BTreeMap;

use super::{Imported, value};
use crate::model::target::{HostCommand, HostEvent, HostPoint, HostTimes};
use crate::nvme::status::Status;

/// The event that ends a command.
pub const ENDS: &str = "pci_nvme_enqueue_req_completion";

/// The value if it fits its type.
fn small<T: TryFrom<u64>>(text: &str, key: &str) -> Option<T> {
    value(text, key)?.try_into().ok()
}

/// Command id and queue. Most lines have the command id alone.
type Key = (u16, u16);

/// Most commands in flight with one id that are told apart.
const MOST_QUEUES: usize = 1024;

/// The state of the controller while the log is read.
pub struct Reader {
    /// What was read.
    pub imported: Imported,
    /// Whether the source has the ends of commands. Otherwise an id that is used again is no error.
    pub has_ends: bool,
    /// Commands in flight.
    flying: BTreeMap<Key, HostCommand>,
    /// Completion queue of each submission queue whose creation is in the log.
    cqs: BTreeMap<u16, u16>,
}

impl Default for Reader {
    fn default() -> Self {
        let (imported, flying, cqs) = Default::default();
        Self { imported, has_ends: true, flying, cqs }
    }
}

/// Why a line gives nothing.
pub enum Skip {
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
        let command = HostCommand {
            qid: Some(qid),
            cid: Some(cid),
            code: Some(opcode),
            nsid: small(text, "nsid"),
            times: HostTimes::default().with(HostPoint::Fetch, ns),
            ..HostCommand::default()
        };
        match self.flying.insert((cid, qid), command) {
            None => Ok(()),
            Some(_) if !self.has_ends => {
                self.imported.ledger.without_end += 1;
                Ok(())
            }
            // a driver does not use an id again while its command is in flight
            Some(_) => Err(Skip::Second),
        }
    }

    /// The command in flight with this id for which `is_it` holds, if there is only one.
    fn only(&self, cid: u16, is_it: impl Fn(u16, &HostCommand) -> bool) -> Option<Key> {
        let with_cid = self.flying.range((cid, 0)..=(cid, u16::MAX)).take(MOST_QUEUES);
        let mut found = with_cid.filter(|((_, qid), command)| is_it(*qid, command));
        let (key, _) = found.next()?;
        found.next().is_none().then_some(*key)
    }

    /// Adds the blocks to the command whose fetch is the line before.
    fn blocks(&mut self, text: &str) -> Result<(), Skip> {
        let cid = small(text, "cid").ok_or(Skip::Malformed)?;
        let key = self.only(cid, |qid, command| qid > 0 && command.slba.is_none());
        let command = key.and_then(|key| self.flying.get_mut(&key)).ok_or(Skip::Other)?;
        (command.slba, command.nlb) = (value(text, "lba"), small(text, "nlb"));
        Ok(())
    }

    /// The storage has answered. The line has no queue.
    fn answered(&mut self, ns: u64, text: &str) -> Result<(), Skip> {
        let cid = small(text, "cid").ok_or(Skip::Malformed)?;
        let key = self.only(cid, |qid, _| qid > 0);
        let command = key.and_then(|key| self.flying.get_mut(&key)).ok_or(Skip::Other)?;
        command.times.set(HostPoint::BackendDone, ns);
        Ok(())
    }

    /// Ends a command. The line has the completion queue only.
    fn post(&mut self, ns: u64, text: &str) -> Result<(), Skip> {
        let (cid, cqid): (u16, u16) =
            small(text, "cid").zip(small(text, "cqid")).ok_or(Skip::Malformed)?;
        let status: u16 = small(text, "status").ok_or(Skip::Malformed)?;
        // a queue whose creation is not in the log has the completion queue of its own number
        let cq_of = |qid| self.cqs.get(&qid).copied().unwrap_or(qid);
        let key = self.only(cid, |qid, _| cq_of(qid) == cqid);
        let known = key.and_then(|key| self.flying.remove(&key));
        self.imported.ledger.without_begin += u64::from(known.is_none());
        let mut command = known.unwrap_or_else(|| HostCommand {
            // several queues may share the completion queue
            qid: (cqid == 0 || self.cqs.is_empty()).then_some(cqid),
            cid: Some(cid),
            ..HostCommand::default()
        });
        command.times.set(HostPoint::Post, ns);
        command.status = Some(Status(status));
        self.imported.push(HostEvent::Command(command));
        Ok(())
    }

    /// A reset: what was in flight has no end.
    fn reset(&mut self) {
        self.imported.ledger.without_end += self.flying.len() as u64;
        self.flying.clear();
        self.cqs.clear();
    }

    fn created(&mut self, text: &str) -> Result<(), Skip> {
        let queues = small(text, "sqid").zip(small(text, "cqid"));
        let (sq, cq) = queues.ok_or(Skip::Malformed)?;
        match self.cqs.insert(sq, cq) {
            None => Ok(()),
            Some(_) => Err(Skip::Second),
        }
    }

    fn deleted(&mut self, text: &str) -> Result<(), Skip> {
        let sq = small(text, "sqid").or_else(|| small(text, "sq"));
        sq.and_then(|sq| self.cqs.remove(&sq)).map(|_| ()).ok_or(Skip::Other)
    }

    /// The commands in flight.
    pub fn unfinished(&mut self) -> impl Iterator<Item = HostCommand> + use<> {
        std::mem::take(&mut self.flying).into_values()
    }

    /// Counts a line that gives nothing.
    pub fn skip(&mut self, why: &Skip) {
        let ledger = &mut self.imported.ledger;
        match why {
            Skip::Other => ledger.other += 1,
            Skip::Malformed | Skip::Second => ledger.not_read += 1,
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
            "pci_nvme_rw_cb" | "pci_nvme_rw_complete_cb" => self.answered(ns, text),
            ENDS => self.post(ns, text),
            "pci_nvme_create_sq" => self.created(text),
            "pci_nvme_del_sq" => self.deleted(text),
            "pci_nvme_irq_msix" => {
                let vector = small(text, "vector").ok_or(Skip::Malformed)?;
                self.imported.push(HostEvent::Interrupt { ctrl: 0, vector, at_ns: ns });
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
