// SPDX-License-Identifier: MIT OR Apache-2.0
//! QEMU's trace events of its NVMe controller, in its log (6.0 to 11.1) and as USDT probes (trace backend
//! dtrace, 6.0 to 10.0), as hw/nvme/trace-events has them: a name, and arguments such as
//! `cid 1 nsid 0x1 sqid 1 opc 0x2`. An event names neither its controller nor, for some events, its queue;
//! an event that fits several commands is left out, and counted.

use std::collections::BTreeMap;

use super::Skip;
use super::spdk::ARGS;
use crate::model::collect::{Collector, PartialCommand};
use crate::model::event::{Event, EventKind};
use crate::model::point::Point;
use crate::nvme::sqe::{Parts, Sqe};
use crate::nvme::status::Status;

/// The event that begins a command on an I/O queue.
const BEGINS: &str = "pci_nvme_io_cmd";
/// The event that ends a command.
pub const ENDS: &str = "pci_nvme_enqueue_req_completion";

/// The probes: name, and for each argument its key in the log, or nothing. A release whose probe has another
/// number of arguments gives them another meaning: the end of a command has more in later ones.
pub static PROBES: [(&str, &[&str]); 12] = [
    (BEGINS, &["cid", "nsid", "sqid", "opc", ""]),
    ("pci_nvme_admin_cmd", &["cid", "sqid", "opc", ""]),
    ("pci_nvme_read", &["cid", "nsid", "nlb", "", "lba"]),
    ("pci_nvme_write", &["cid", "", "nsid", "nlb", "", "lba"]),
    ("pci_nvme_rw_cb", &["cid", ""]),
    (ENDS, &["cid", "cqid", "", "", "status"]),
    (ENDS, &["cid", "cqid", "status"]),
    ("pci_nvme_create_sq", &["", "sqid", "cqid", "", ""]),
    ("pci_nvme_del_sq", &["sqid"]),
    ("pci_nvme_irq_msix", &["vector"]),
    ("pci_nvme_pci_reset", &[]),
    ("pci_nvme_mmio_cfg", &["config"]),
];

/// Whether probes with these names are enough: without begins or ends, no command is seen.
pub fn is_enough(names: &[&str]) -> bool {
    [BEGINS, ENDS].iter().all(|needed| names.contains(needed))
}

/// Command id and queue. Most events have the command id alone.
type Key = (u16, u16);
/// The arguments of an event, by their keys in the log.
type Arguments<'a> = &'a dyn Fn(&str) -> Option<u64>;

/// Most commands in flight with one id that are told apart.
const MOST_QUEUES: usize = 1024;

/// An argument, if it fits its type.
fn small<T: TryFrom<u64>>(arguments: Arguments<'_>, key: &str) -> Result<T, Skip> {
    arguments(key).and_then(|value| value.try_into().ok()).ok_or(Skip::Malformed)
}

/// The state of the controller while its events are read.
pub struct Reader {
    /// The commands.
    pub commands: Collector<Key>,
    /// Whether the source has the ends of commands. Otherwise an id that is used again is no error.
    pub has_ends: bool,
    /// Completion queue of each submission queue whose creation was seen.
    cqs: BTreeMap<u16, u16>,
}

impl Reader {
    /// Nothing yet. `imported`: of a log.
    pub fn new(imported: bool) -> Self {
        Self { commands: Collector::new(imported), has_ends: true, cqs: BTreeMap::new() }
    }

    /// Takes a hit of the probe with this number. Hits must come in the order of time.
    ///
    /// # Errors
    /// If it gives nothing.
    pub fn hit(&mut self, probe: usize, at_ns: u64, args: &[u64; ARGS]) -> Result<(), Skip> {
        let Some((name, keys)) = PROBES.get(probe) else { return Ok(()) };
        let place = |key: &str| keys.iter().position(|known| *known == key);
        self.event(at_ns, name, &|key| args.get(place(key)?).copied())
    }

    /// Takes an event in.
    ///
    /// # Errors
    /// If it gives nothing.
    pub fn event(&mut self, ns: u64, name: &str, args: Arguments<'_>) -> Result<(), Skip> {
        self.commands.at(ns);
        match name {
            BEGINS => self.fetch(ns, args, small(args, "sqid")?)?,
            "pci_nvme_admin_cmd" => self.fetch(ns, args, 0)?,
            // the event before it is the command's fetch
            "pci_nvme_read" | "pci_nvme_write" => {
                let command = self.io(args, |command| !command.submission.sqe.has_dwords())?;
                let (slba, nlb) = args("lba").zip(args("nlb")).ok_or(Skip::Malformed)?;
                let nlb = u16::try_from(nlb.wrapping_sub(1)).map_err(|_| Skip::Malformed)?;
                let cdw = [slba as u32, (slba >> 32) as u32, nlb.into(), 0, 0, 0];
                let sqe = &mut command.submission.sqe;
                *sqe = Sqe::from(Parts { cdw, ..sqe.parts() });
            }
            "pci_nvme_rw_cb" | "pci_nvme_rw_complete_cb" => {
                self.io(args, |_| true)?.times.add(Point::Cqe, ns);
            }
            ENDS => self.post(ns, args)?,
            "pci_nvme_create_sq" => {
                if self.cqs.insert(small(args, "sqid")?, small(args, "cqid")?).is_some() {
                    return Err(Skip::Second);
                }
            }
            "pci_nvme_del_sq" => {
                let sq = small(args, "sqid").or_else(|_| small(args, "sq"));
                let known = sq.ok().and_then(|sq| self.cqs.remove(&sq));
                known.ok_or(Skip::Other)?;
            }
            "pci_nvme_irq_msix" => {
                let vector = small(args, "vector")?;
                let what = EventKind::Interrupt { ctrl: 0, vector };
                self.commands.push(Event { at_ns: ns, what });
            }
            "pci_nvme_pci_reset" => self.reset(),
            "pci_nvme_mmio_cfg" => {
                if args("config").ok_or(Skip::Malformed)? & 1 == 0 {
                    self.reset();
                }
            }
            _ => return Err(Skip::Other),
        }
        Ok(())
    }

    /// Begins a command.
    fn fetch(&mut self, ns: u64, args: Arguments<'_>, qid: u16) -> Result<(), Skip> {
        let (cid, opcode) = (small(args, "cid")?, small(args, "opc")?);
        // admin commands have none
        let nsid = small(args, "nsid").unwrap_or(0);
        let sqe = Sqe::from(Parts { opcode, cid, nsid, ..Parts::default() }).without_dwords();
        let mut command = PartialCommand::of_target(0, qid, sqe, 0);
        command.times.add(Point::Start, ns);
        // a driver does not use an id again while its command is in flight
        if self.has_ends && self.commands.open.contains_key(&(cid, qid)) {
            return Err(Skip::Second);
        }
        self.commands.begin((cid, qid), command);
        Ok(())
    }

    /// The command in flight with this id for which `is_it` holds, if there is only one.
    fn only(&self, cid: u16, is_it: impl Fn(u16, &PartialCommand) -> bool) -> Option<Key> {
        let with_cid = self.commands.open.range((cid, 0)..=(cid, u16::MAX)).take(MOST_QUEUES);
        let mut found = with_cid.filter(|((_, qid), command)| is_it(*qid, command));
        let (key, _) = found.next()?;
        found.next().is_none().then_some(*key)
    }

    /// The command of an event on an I/O queue, which does not say on which.
    fn io(
        &mut self,
        args: Arguments<'_>,
        is_it: impl Fn(&PartialCommand) -> bool,
    ) -> Result<&mut PartialCommand, Skip> {
        let cid = small(args, "cid")?;
        let key = self.only(cid, |qid, command| qid > 0 && is_it(command));
        key.and_then(|key| self.commands.open.get_mut(&key)).ok_or(Skip::Other)
    }

    /// Ends a command. The event has the completion queue only.
    fn post(&mut self, ns: u64, args: Arguments<'_>) -> Result<(), Skip> {
        let (cid, cqid): (u16, u16) = (small(args, "cid")?, small(args, "cqid")?);
        let status = Status(small(args, "status")?);
        // a queue whose creation was not seen has the completion queue of its own number
        let cq_of = |qid| self.cqs.get(&qid).copied().unwrap_or(qid);
        let key = self.only(cid, |qid, _| cq_of(qid) == cqid);
        // without its command neither its queue nor its opcode is known
        if let Some(mut command) = self.commands.end(key.as_ref()) {
            command.times.add(Point::End, ns);
            command.set_status(status);
            self.commands.push(command.finished());
        }
        Ok(())
    }

    /// What was in flight has no end.
    fn reset(&mut self) {
        self.commands.ledger.overwritten += self.commands.open.len() as u64;
        self.commands.open.clear();
        self.cqs.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reader() -> Reader {
        Reader::new(false)
    }

    fn number(name: &str, args: usize) -> usize {
        let found = PROBES.iter().position(|p| p.0 == name && p.1.len() == args);
        found.unwrap()
    }

    #[test]
    fn hits_become_commands() {
        let mut hits = reader();
        let mut add = |name, count, at_ns, args| {
            assert_eq!(hits.hit(number(name, count), at_ns, &args), Ok(()));
        };
        add("pci_nvme_io_cmd", 5, 10, [5, 1, 2, 1, 0, 0]);
        add("pci_nvme_write", 6, 11, [5, 0, 1, 8, 4096, 64]);
        add("pci_nvme_rw_cb", 2, 20, [5, 0, 0, 0, 0, 0]);
        add("pci_nvme_enqueue_req_completion", 5, 21, [5, 2, 0, 0, 2, 0]);
        add("pci_nvme_irq_msix", 1, 22, [2, 0, 0, 0, 0, 0]);
        add("pci_nvme_io_cmd", 5, 30, [6, 1, 2, 2, 0, 0]);
        let EventKind::Command(id, asked, outcome) = &hits.commands.events[0].what else {
            panic!("{:?}", hits.commands.events);
        };
        assert_eq!((id.qid, id.cid, id.opcode.code), (2, 5, 1));
        assert_eq!((asked.sqe.slba(), asked.sqe.nlb()), (64, 8));
        assert_eq!(outcome.timeline.unwrap().at(Point::Cqe), Some(20));
        assert_eq!(outcome.verdict.unwrap().status.0, 2);
        assert!(matches!(hits.commands.events[1].what, EventKind::Interrupt { vector: 2, .. }));
        hits.commands.finish();
        let Collector { ledger, events, .. } = hits.commands;
        assert_eq!((ledger.matched, ledger.in_flight, events.len()), (1, 1, 3));
        assert!(ledger.is_exact());
    }

    #[test]
    fn a_second_controller_is_refused() {
        let mut hits = reader();
        let io = number("pci_nvme_io_cmd", 5);
        let args = [5, 1, 2, 1, 0, 0];
        assert_eq!(hits.hit(io, 10, &args), Ok(()));
        assert_eq!(hits.hit(io, 11, &args), Err(Skip::Second));
    }

    #[test]
    fn the_ends_are_needed() {
        assert!(is_enough(&["pci_nvme_io_cmd", "pci_nvme_enqueue_req_completion"]));
        assert!(!is_enough(&["pci_nvme_io_cmd", "pci_nvme_rw_cb"]));
    }
}
