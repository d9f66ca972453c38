// SPDX-License-Identifier: MIT OR Apache-2.0
//! QEMU's trace events as USDT probes (trace backend dtrace): the same events as in its log, with the
//! arguments of hw/nvme/trace-events, 6.0 to 10.0. An event does not name its controller.

use super::qemu_log::{Reader, Skip};
use crate::model::ledger::HostLedger;
use crate::model::target::HostEvent;

/// Arguments of a probe that are read.
pub const ARGS: usize = 6;

/// A probe: its name, and for each argument its key in the log, or nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QemuProbe {
    /// Its name.
    pub name: &'static str,
    keys: &'static [&'static str],
}

impl QemuProbe {
    /// The number of its arguments. A release whose probe has another number gives them another
    /// meaning.
    pub const fn args(&self) -> usize {
        self.keys.len()
    }
}

const fn probe(name: &'static str, keys: &'static [&'static str]) -> QemuProbe {
    QemuProbe { name, keys }
}

/// The probes. The end of a command has more arguments in later releases.
pub static PROBES: [QemuProbe; 12] = [
    probe("pci_nvme_io_cmd", &["cid", "nsid", "sqid", "opc", ""]),
    probe("pci_nvme_admin_cmd", &["cid", "sqid", "opc", ""]),
    probe("pci_nvme_read", &["cid", "nsid", "nlb", "", "lba"]),
    probe("pci_nvme_write", &["cid", "", "nsid", "nlb", "", "lba"]),
    probe("pci_nvme_rw_cb", &["cid", ""]),
    probe("pci_nvme_enqueue_req_completion", &["cid", "cqid", "", "", "status"]),
    probe("pci_nvme_enqueue_req_completion", &["cid", "cqid", "status"]),
    probe("pci_nvme_create_sq", &["", "sqid", "cqid", "", ""]),
    probe("pci_nvme_del_sq", &["sqid"]),
    probe("pci_nvme_irq_msix", &["vector"]),
    probe("pci_nvme_pci_reset", &[]),
    probe("pci_nvme_mmio_cfg", &["config"]),
];

/// Probes without which no command is seen.
const NEEDED: [&str; 2] = ["pci_nvme_io_cmd", "pci_nvme_enqueue_req_completion"];

/// Whether probes with these names are enough.
pub fn is_enough(names: &[&str]) -> bool {
    NEEDED.iter().all(|needed| names.contains(needed))
}

/// Makes events of hits.
#[derive(Default)]
pub struct QemuHits {
    reader: Reader,
}

impl QemuHits {
    /// Adds a hit of the probe with this number. Hits must come in the order of time. Returns false if
    /// it is about a second controller.
    #[must_use]
    pub fn add(&mut self, probe: usize, at_ns: u64, args: &[u64; ARGS]) -> bool {
        let Some(probe) = PROBES.get(probe) else {
            return true;
        };
        let named = probe.keys.iter().zip(args).filter(|(key, _)| !key.is_empty());
        let text: Vec<String> = named.map(|(key, arg)| format!("{key} {arg}")).collect();
        let read = self.reader.line(at_ns, probe.name, &text.join(" "));
        if let Err(skip) = &read {
            self.reader.skip(skip);
        }
        !matches!(read, Err(Skip::Second))
    }

    /// The events since the last call.
    pub fn drain(&mut self) -> Vec<HostEvent> {
        std::mem::take(&mut self.reader.imported.events)
    }

    /// The commands in flight, and the ledger.
    pub fn end(mut self) -> (Vec<HostEvent>, HostLedger) {
        for command in self.reader.unfinished() {
            self.reader.imported.push(HostEvent::Unfinished(command));
        }
        (self.drain(), self.reader.imported.ledger)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::target::HostPoint;

    fn number(name: &str, args: usize) -> usize {
        let found = PROBES.iter().position(|p| p.name == name && p.args() == args);
        found.unwrap()
    }

    #[test]
    fn hits_become_commands() {
        let mut hits = QemuHits::default();
        let mut add = |name, count, at_ns, args| {
            assert!(hits.add(number(name, count), at_ns, &args));
        };
        add("pci_nvme_io_cmd", 5, 10, [5, 1, 2, 1, 0, 0]);
        add("pci_nvme_write", 6, 11, [5, 0, 1, 8, 4096, 64]);
        add("pci_nvme_rw_cb", 2, 20, [5, 0, 0, 0, 0, 0]);
        add("pci_nvme_enqueue_req_completion", 5, 21, [5, 2, 0, 0, 2, 0]);
        add("pci_nvme_irq_msix", 1, 22, [2, 0, 0, 0, 0, 0]);
        add("pci_nvme_io_cmd", 5, 30, [6, 1, 2, 2, 0, 0]);
        let events = hits.drain();
        let HostEvent::Command(command) = events[0] else {
            panic!("{events:?}");
        };
        assert_eq!((command.qid, command.cid, command.code), (Some(2), Some(5), Some(1)));
        assert_eq!((command.slba, command.nlb), (Some(64), Some(8)));
        assert_eq!(command.times.at(HostPoint::BackendDone), Some(20));
        assert_eq!(command.status.unwrap().0, 2);
        assert!(matches!(events[1], HostEvent::Interrupt { vector: 2, .. }));
        let (left, ledger) = hits.end();
        assert_eq!(left.len(), 1);
        let counted = (ledger.commands, ledger.unfinished, ledger.interrupts);
        assert_eq!(counted, (1, 1, 1));
        assert!(ledger.is_exact());
    }

    #[test]
    fn a_second_controller_is_refused() {
        let mut hits = QemuHits::default();
        let io = number("pci_nvme_io_cmd", 5);
        let args = [5, 1, 2, 1, 0, 0];
        assert!(hits.add(io, 10, &args));
        assert!(!hits.add(io, 11, &args));
    }

    #[test]
    fn the_ends_are_needed() {
        assert!(is_enough(&["pci_nvme_io_cmd", "pci_nvme_enqueue_req_completion"]));
        assert!(!is_enough(&["pci_nvme_io_cmd", "pci_nvme_rw_cb"]));
    }
}
