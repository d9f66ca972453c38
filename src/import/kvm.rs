// SPDX-License-Identifier: MIT OR Apache-2.0
//! Doorbell writes of a guest in a text of KVM's tracepoints: the time from the exit to the next entry
//! of the virtual CPU, by queue.

use std::collections::BTreeMap;

use super::lines::{Found, Layout, Line, each};
use super::report::Report;
use crate::model::histogram::Histogram;
use crate::model::ledger::Ledger;
use crate::target::{Skip, value};

/// Offsets of the doorbells in the BAR (NVMe over PCIe Transport, "Submission Queue Tail Doorbell"). What is
/// behind them may be something else: QEMU has its MSI-X table there.
const DOORBELLS: std::ops::Range<u64> = 0x1000..0x2000;

/// A doorbell: queue id, and whether it belongs to the completion queue.
type Doorbell = (u16, bool);

/// The doorbell at an address of the guest, without a stride. `None` for any other register or device. `bar`:
/// first and last address of BAR 0.
fn doorbell(address: u64, (first, last): (u64, u64)) -> Option<Doorbell> {
    let offset = address.checked_sub(first)?;
    let fits = address <= last && DOORBELLS.contains(&offset) && offset.is_multiple_of(4);
    let number = (offset.checked_sub(DOORBELLS.start)? / 4) as u16;
    fits.then_some((number / 2, number % 2 == 1))
}

/// A virtual CPU outside the guest.
#[derive(Clone, Copy, Debug, Default)]
struct Outside {
    exit_ns: Option<u64>,
    doorbell: Option<Doorbell>,
    in_user: bool,
}

/// The doorbell writes of a text.
#[derive(Default)]
struct Reader {
    /// From the exit to the entry, by doorbell and whether the CPU returned to user space (QEMU).
    doorbells: BTreeMap<(Doorbell, bool), Histogram>,
    /// Whether returns to user space are in the text.
    has_user: bool,
    resolution_ns: u64,
    /// Writes without the exit before or the entry after them are `overwritten`.
    ledger: Ledger,
    vcpus: BTreeMap<u32, Outside>,
}

/// Reads a text.
pub fn import(text: &str, bar: (u64, u64)) -> Report {
    let mut reader = Reader { ledger: Ledger::of_target(true), ..Reader::default() };
    let skipped = each(text, |_, found| match found {
        Found::Lost(lost) => {
            reader.ledger.lose(lost);
            // an exit or an entry may be among them
            reader.forget();
            Ok(())
        }
        Found::Event(event) => reader.event(&event, bar),
        Found::Header(_) => Ok(()),
    });
    reader.forget();
    let Reader { doorbells, has_user, resolution_ns, mut ledger, .. } = reader;
    ledger.matched = doorbells.values().map(Histogram::count).sum();
    let rows = doorbells.into_iter().map(|(((qid, of_cq), in_user), times)| {
        let side = if of_cq { "CQ head" } else { "SQ tail" };
        let user = if in_user { ", in user space" } else { "" };
        (format!("{side} of queue {qid}{user}").into(), times)
    });
    let user = "returns to user space (kvm_userspace_exit)";
    Report {
        resolution_ns,
        lacks: (!has_user).then(|| user.to_owned()).into_iter().collect(),
        rows: rows.collect(),
        ..Report::new("tracepoints of KVM", "doorbell write", ledger, skipped)
    }
}

impl Reader {
    /// The virtual CPUs outside the guest are not observed any longer.
    fn forget(&mut self) {
        let vcpus = std::mem::take(&mut self.vcpus).into_values();
        self.ledger.overwritten += vcpus.filter(|vcpu| vcpu.doorbell.is_some()).count() as u64;
    }

    fn event(&mut self, event: &Line<'_>, bar: (u64, u64)) -> Result<(), Skip> {
        let name = event.name.strip_prefix("kvm_").ok_or(Skip::Unknown)?;
        let vcpu = self.vcpus.entry(event.tid).or_default();
        match name {
            "exit" => {
                self.ledger.overwritten += u64::from(vcpu.doorbell.is_some());
                *vcpu = Outside { exit_ns: Some(event.at_ns), ..Outside::default() };
            }
            "userspace_exit" => (vcpu.in_user, self.has_user) = (true, true),
            "mmio" => {
                // `mmio write len 4 gpa 0xfebd1008 val 0x5`, or `type: 2, len: 4, gpa: 4273803272`
                let is_write = match event.layout {
                    Layout::PerfTrace => value(event.text, "type") == Some(2),
                    _ => event.text.starts_with("mmio write "),
                };
                if is_write {
                    let address = value(event.text, "gpa").ok_or(Skip::Malformed)?;
                    vcpu.doorbell = doorbell(address, bar).or(vcpu.doorbell);
                }
            }
            "entry" => {
                let Outside { exit_ns, doorbell, in_user } = std::mem::take(vcpu);
                let took = exit_ns.and_then(|exit| event.at_ns.checked_sub(exit));
                match (doorbell, took) {
                    (Some(doorbell), Some(took)) => {
                        self.doorbells.entry((doorbell, in_user)).or_default().record(took);
                    }
                    (doorbell, _) => self.ledger.overwritten += u64::from(doorbell.is_some()),
                }
            }
            _ => return Err(Skip::Unknown),
        }
        self.resolution_ns = self.resolution_ns.max(event.resolution_ns);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BAR: (u64, u64) = (0xfebd_4000, 0xfebd_7fff);

    #[test]
    fn an_address_is_a_queue_and_its_side() {
        for (address, want) in [
            (0xfebd_5000, Some((0, false))),
            (0xfebd_5004, Some((0, true))),
            (0xfebd_500c, Some((1, true))),
            (0xfebd_5ffc, Some((511, true))),
        ] {
            assert_eq!(doorbell(address, BAR), want, "{address:#x}");
        }
        for other in [0xfebd_4014, 0xfebd_5002, 0xfebd_6000, 0xfebd_8000, 0xfebd_3fff, 0] {
            assert_eq!(doorbell(other, BAR), None, "{other:#x}");
        }
    }

    #[test]
    fn lost_events_are_counted_and_end_what_was_open() {
        let exit = "a-1 [000] d.... 1.000001: kvm_exit: vcpu 0 reason EPT_MISCONFIG rip 0x0";
        let write = "a-1 [000] ..... 1.000002: kvm_mmio: mmio write len 4 gpa 0xfebd5008 val 0x1";
        let entry = "a-1 [000] d.... 1.000009: kvm_entry: vcpu 0, rip 0x0";
        let read = import(&[exit, write, "CPU:0 [LOST 12 EVENTS]", entry].join("\n"), BAR);
        let ledger = &read.ledger;
        assert_eq!((ledger.trace.as_ref().unwrap().lost(), ledger.overwritten), (12, 1));
        assert!(read.rows.is_empty() && read.skipped.unread.is_empty());
    }
}
