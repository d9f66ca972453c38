// SPDX-License-Identifier: MIT OR Apache-2.0
//! Doorbell writes of a guest in a text of KVM's tracepoints: the time from the exit to the next entry
//! of the virtual CPU, by queue.

use std::collections::BTreeMap;
use std::io;
use std::io::Write;

use serde::Serialize;

use super::lines::{Found, Layout, Line, Unreads, each};
use crate::model::histogram::Histogram;
use crate::target::value;
use crate::view::json::{Dist, dist, typed_line};
use crate::view::table::{Table, WIDE};
use crate::view::text::times;
use crate::view::theme::Theme;

/// Offset of the doorbells in the BAR (NVMe over PCIe Transport, "Submission Queue Tail Doorbell").
const DOORBELLS: u64 = 0x1000;

/// Where the doorbells of a controller are in the guest's physical memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Doorbells {
    /// First and last address of BAR 0.
    pub bar: (u64, u64),
    /// CAP.DSTRD.
    pub stride: u32,
    /// The number of I/O queues, if it is known.
    pub queues: Option<u32>,
}

/// A doorbell: queue id, and whether it belongs to the completion queue.
type Doorbell = (u16, bool);

impl Doorbells {
    /// The doorbell at an address. `None` for any other register or device.
    fn at(&self, address: u64) -> Option<Doorbell> {
        let (first, last) = self.bar;
        let offset = address.checked_sub(first)?.checked_sub(DOORBELLS)?;
        let size = 4_u64.checked_shl(self.stride)?;
        let qid = u16::try_from(offset / size / 2).ok()?;
        let exists = self.queues.is_none_or(|last| u32::from(qid) <= last);
        let fits = address <= last && exists && offset.is_multiple_of(size);
        fits.then_some((qid, offset / size % 2 == 1))
    }
}

/// A virtual CPU outside the guest.
#[derive(Clone, Copy, Debug, Default)]
struct Outside {
    exit_ns: Option<u64>,
    doorbell: Option<Doorbell>,
    in_user: bool,
}

/// The doorbell writes of a text.
#[derive(Clone, Debug, Default)]
pub struct KvmTrace {
    /// By doorbell: from the exit to the entry, and how many returned to user space (QEMU).
    doorbells: BTreeMap<Doorbell, (Histogram, u64)>,
    /// Writes without the exit before or the entry after them.
    pub incomplete: u64,
    /// Events that were lost.
    pub lost: u64,
    /// Whether returns to user space are in the text.
    pub has_user: bool,
    /// Of the times.
    pub resolution_ns: u64,
    /// Lines that nothing was read from.
    pub unreads: Unreads,
    vcpus: BTreeMap<u32, Outside>,
}

/// The address in `mmio write len 4 gpa 0xfebd1008 val 0x5`, or `type: 2, len: 4, gpa: 4273803272` of
/// `perf trace`; `None` for a read.
fn written(event: &Line<'_>) -> Option<Option<u64>> {
    if event.layout == Layout::PerfTrace {
        let is_write = value(event.text, "type") == Some(2);
        return Some(Some(value(event.text, "gpa")?).filter(|_| is_write));
    }
    if !event.text.starts_with("mmio write ") {
        return Some(None);
    }
    let after = event.text.split_once(" gpa ")?.1.split_whitespace().next()?;
    u64::from_str_radix(after.strip_prefix("0x").unwrap_or(after), 16).ok().map(Some)
}

/// Reads a text.
pub fn import(text: &str, bar: &Doorbells) -> KvmTrace {
    let mut trace = KvmTrace::default();
    let unreads = each(text, |_, found| {
        match found {
            Found::Lost(lost) => {
                trace.lost = trace.lost.saturating_add(lost);
                // an exit or an entry may be among them
                trace.forget();
            }
            Found::Event(event) if trace.event(&event, bar).is_none() => {
                return Err(event.name.into());
            }
            _ => {}
        }
        Ok(())
    });
    trace.unreads = unreads;
    trace.forget();
    trace
}

impl KvmTrace {
    /// The virtual CPUs outside the guest are not observed any longer.
    fn forget(&mut self) {
        let vcpus = std::mem::take(&mut self.vcpus).into_values();
        self.incomplete += vcpus.filter(|vcpu| vcpu.doorbell.is_some()).count() as u64;
    }

    /// Takes an event in; `None` if it is of something else, or has another form.
    fn event(&mut self, event: &Line<'_>, bar: &Doorbells) -> Option<()> {
        let name = event.name.strip_prefix("kvm_")?;
        let vcpu = self.vcpus.entry(event.tid).or_default();
        match name {
            "exit" => {
                self.incomplete += u64::from(vcpu.doorbell.is_some());
                *vcpu = Outside { exit_ns: Some(event.at_ns), ..Outside::default() };
            }
            "userspace_exit" => (vcpu.in_user, self.has_user) = (true, true),
            "mmio" => {
                let doorbell = written(event)?.and_then(|address| bar.at(address));
                vcpu.doorbell = doorbell.or(vcpu.doorbell);
            }
            "entry" => {
                let Outside { exit_ns, doorbell, in_user } = std::mem::take(vcpu);
                let took = exit_ns.and_then(|exit| event.at_ns.checked_sub(exit));
                match (doorbell, took) {
                    (Some(doorbell), Some(took)) => {
                        let (times, user) = self.doorbells.entry(doorbell).or_default();
                        times.record(took);
                        *user += u64::from(in_user);
                    }
                    (doorbell, _) => self.incomplete += u64::from(doorbell.is_some()),
                }
            }
            _ => return None,
        }
        self.resolution_ns = self.resolution_ns.max(event.resolution_ns);
        Some(())
    }

    /// The number of writes.
    pub fn writes(&self) -> u64 {
        self.doorbells.values().map(|(times, _)| times.count()).sum()
    }

    /// Writes a line per doorbell.
    ///
    /// # Errors
    /// Errors of the writer.
    pub fn write(&self, json: bool, out: &mut dyn Write) -> io::Result<()> {
        let user = |count: u64| self.has_user.then_some(count);
        let mut table = Table::default();
        for ((qid, of_cq), (times_ns, in_user)) in &self.doorbells {
            let (qid, in_user) = (*qid, user(*in_user));
            if json {
                let doorbell = if *of_cq { "cq_head" } else { "sq_tail" };
                let line = DoorbellLine { qid, doorbell, in_user, times: dist(times_ns, false) };
                typed_line("kvm_doorbell", &line, out)?;
                continue;
            }
            let mut cells = vec![
                ("<DOORBELL", if *of_cq { "CQ head" } else { "SQ tail" }.to_owned()),
                ("QID", qid.to_string()),
                ("WRITES", times_ns.count().to_string()),
                ("IN_USER", in_user.map_or_else(|| "-".into(), |count| count.to_string())),
            ];
            cells.extend(times(times_ns, false, false));
            table.row(cells);
        }
        table.write(Theme { color: false }, WIDE, out)
    }
}

#[derive(Serialize)]
struct DoorbellLine {
    qid: u16,
    doorbell: &'static str,
    /// `None`: not known.
    in_user: Option<u64>,
    #[serde(flatten)]
    times: Dist,
}

#[cfg(test)]
mod tests {
    use super::*;

    const BAR: Doorbells = Doorbells { bar: (0xfebd_4000, 0xfebd_7fff), stride: 0, queues: None };

    #[test]
    fn an_address_is_a_queue_and_its_side() {
        assert_eq!(BAR.at(0xfebd_5000), Some((0, false)));
        assert_eq!(BAR.at(0xfebd_5004), Some((0, true)));
        assert_eq!(BAR.at(0xfebd_500c), Some((1, true)));
        for other in [0xfebd_4014, 0xfebd_5002, 0xfebd_8000, 0xfebd_3fff, 0] {
            assert_eq!(BAR.at(other), None, "{other:#x}");
        }
        let wide = Doorbells { stride: 4, ..BAR };
        assert_eq!(wide.at(0xfebd_5000 + 3 * 64), Some((1, true)));
        assert_eq!(wide.at(0xfebd_5004), None);
        assert_eq!(Doorbells { stride: 99, ..BAR }.at(0xfebd_5000), None);
        // the MSI-X table of QEMU
        let table = 0xfebd_6000;
        assert_eq!(BAR.at(table), Some((512, false)));
        let two = Doorbells { queues: Some(2), ..BAR };
        assert_eq!(two.at(table), None);
        assert_eq!(two.at(0xfebd_5014), Some((2, true)));
    }

    #[test]
    fn lost_events_are_counted_and_end_what_was_open() {
        let exit = "a-1 [000] d.... 1.000001: kvm_exit: vcpu 0 reason EPT_MISCONFIG rip 0x0";
        let write = "a-1 [000] ..... 1.000002: kvm_mmio: mmio write len 4 gpa 0xfebd5008 val 0x1";
        let entry = "a-1 [000] d.... 1.000009: kvm_entry: vcpu 0, rip 0x0";
        let read = import(&[exit, write, "CPU:0 [LOST 12 EVENTS]", entry].join("\n"), &BAR);
        assert_eq!((read.lost, read.incomplete, read.unreads.0.len()), (12, 1, 0));
        assert!(read.doorbells.is_empty());
    }
}
