// SPDX-License-Identifier: MIT OR Apache-2.0
//! Doorbell writes of a guest in a text trace of KVM: the time from the exit to the next entry of the
//! virtual CPU, by queue. Lines are those of ftrace and of `trace-cmd report`.

use std::collections::BTreeMap;

use crate::model::histogram::Histogram;

/// Offset of the doorbells in the BAR (NVMe over PCIe Transport, "Submission Queue Tail Doorbell").
const DOORBELLS: u64 = 0x1000;

/// Where the doorbells of a controller are in the guest's physical memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Doorbells {
    /// First address of BAR 0.
    pub first: u64,
    /// Last address of BAR 0.
    pub last: u64,
    /// CAP.DSTRD.
    pub stride: u32,
    /// The number of I/O queues. `None`: not known; what is behind the doorbells, such as the MSI-X
    /// table of QEMU's controllers, then passes for more of them.
    pub queues: Option<u32>,
}

/// A doorbell: queue id, and whether it is that of the completion queue.
pub type Doorbell = (u16, bool);

impl Doorbells {
    /// The doorbell at an address. `None` for any other register or device.
    pub fn at(&self, address: u64) -> Option<Doorbell> {
        let inside = (self.first..=self.last).contains(&address);
        let offset = (address - self.first.min(address)).checked_sub(DOORBELLS)?;
        let size = 4_u64.checked_shl(self.stride)?;
        let number = offset / size;
        let qid = u16::try_from(number / 2).ok()?;
        let exists = self.queues.is_none_or(|last| u32::from(qid) <= last);
        (inside && exists && offset.is_multiple_of(size)).then_some((qid, number % 2 == 1))
    }
}

/// The writes of a doorbell.
#[derive(Clone, Debug, Default)]
pub struct Writes {
    /// From the exit to the entry, in nanoseconds.
    pub times: Histogram,
    /// Of these, with a return to user space (QEMU).
    pub in_user: u64,
}

/// The doorbell writes of a trace.
#[derive(Clone, Debug, Default)]
pub struct KvmTrace {
    /// Writes by doorbell.
    pub doorbells: BTreeMap<Doorbell, Writes>,
    /// Writes without the exit before or the entry after them.
    pub incomplete: u64,
    /// Lines of these events that cannot be read.
    pub malformed: u64,
    /// Other lines.
    pub other: u64,
    /// Events of KVM.
    pub events: u64,
    /// Events that the kernel dropped, by the trace; at least, as some traces give no number.
    pub lost: u64,
}

/// A virtual CPU outside the guest.
#[derive(Clone, Copy, Debug, Default)]
struct Outside {
    exit_ns: Option<u64>,
    doorbell: Option<Doorbell>,
    in_user: bool,
}

/// `123.456789` in nanoseconds.
fn time(text: &str) -> Option<u64> {
    let (seconds, part) = text.split_once('.')?;
    let digits = part.len();
    let part: u64 = part.parse().ok()?;
    let unit = 10_u64.checked_pow(9_u32.checked_sub(u32::try_from(digits).ok()?)?)?;
    let seconds: u64 = seconds.parse().ok()?;
    seconds.checked_mul(1_000_000_000)?.checked_add(part * unit)
}

/// `task-TID [CPU] ... TIME` before the event: thread and time.
fn head(text: &str) -> Option<(u32, u64)> {
    let (task, rest) = text.rsplit_once('[')?;
    // ftrace may write the process in brackets behind the thread
    let task = task.split_once('(').map_or(task, |(before, _)| before);
    let tid = task.trim_end().rsplit_once('-')?.1;
    let stamp = rest.split_whitespace().last()?;
    Some((tid.parse().ok()?, time(stamp)?))
}

/// The address in `mmio write len 4 gpa 0xfebd1008 val 0x5`; `None` for a read.
fn written(text: &str) -> Option<Option<u64>> {
    if !text.starts_with("mmio write ") {
        return Some(None);
    }
    let after = text.split_once(" gpa ")?.1.split_whitespace().next()?;
    let digits = after.strip_prefix("0x").unwrap_or(after);
    u64::from_str_radix(digits, 16).ok().map(Some)
}

/// `7` in `CPU:1 [LOST 7 EVENTS]` (ftrace) and `CPU:1 [7 EVENTS DROPPED]` (trace-cmd); 1 without a
/// number.
fn dropped(line: &str) -> Option<u64> {
    let inside = line.strip_prefix("CPU:")?.split_once('[')?.1;
    let words: Vec<&str> = inside.trim_end_matches(']').split_whitespace().collect();
    match words[..] {
        ["LOST", n, "EVENTS"] | [n, "EVENTS", "DROPPED"] => n.parse().ok(),
        ["LOST", "EVENTS"] | ["EVENTS", "DROPPED"] => Some(1),
        _ => None,
    }
}

/// Reads a trace, line by line.
#[derive(Clone, Debug)]
pub struct KvmReader {
    bar: Doorbells,
    found: KvmTrace,
    vcpus: BTreeMap<u32, Outside>,
}

impl KvmReader {
    /// A reader of the doorbell writes of this controller.
    pub fn of(bar: Doorbells) -> Self {
        Self { bar, found: KvmTrace::default(), vcpus: BTreeMap::new() }
    }

    /// Takes in a line.
    pub fn line(&mut self, line: &str) {
        if let Some(lost) = dropped(line) {
            self.found.lost += lost;
            // an exit or an entry may be among them
            self.forget();
            return;
        }
        let Some((before, event)) = line.split_once(": kvm_") else {
            self.found.other += 1;
            return;
        };
        let (name, text) = event.split_once(": ").unwrap_or((event, ""));
        if !["exit", "mmio", "userspace_exit", "entry"].contains(&name) {
            self.found.other += 1;
            return;
        }
        self.found.events += 1;
        let Some((tid, ns)) = head(before) else {
            self.found.malformed += 1;
            return;
        };
        let vcpu = self.vcpus.entry(tid).or_default();
        match name {
            "exit" => {
                self.found.incomplete += u64::from(vcpu.doorbell.is_some());
                *vcpu = Outside { exit_ns: Some(ns), ..Outside::default() };
            }
            "userspace_exit" => vcpu.in_user = true,
            "mmio" => match written(text.trim_start()) {
                Some(address) => {
                    let doorbell = address.and_then(|address| self.bar.at(address));
                    vcpu.doorbell = doorbell.or(vcpu.doorbell);
                }
                None => self.found.malformed += 1,
            },
            _ => self.found.enter(std::mem::take(vcpu), ns),
        }
    }

    /// The virtual CPUs outside the guest are not observed any longer.
    fn forget(&mut self) {
        let left = self.vcpus.values().filter(|vcpu| vcpu.doorbell.is_some());
        self.found.incomplete += left.count() as u64;
        self.vcpus.clear();
    }

    /// The doorbell writes.
    pub fn finish(mut self) -> KvmTrace {
        self.forget();
        self.found
    }
}

/// Reads a whole trace.
pub fn read(trace: &str, bar: Doorbells) -> KvmTrace {
    let mut reader = KvmReader::of(bar);
    trace.lines().for_each(|line| reader.line(line));
    reader.finish()
}

impl KvmTrace {
    /// The virtual CPU enters the guest again.
    fn enter(&mut self, vcpu: Outside, ns: u64) {
        let Some(doorbell) = vcpu.doorbell else {
            return;
        };
        let Some(took) = vcpu.exit_ns.and_then(|exit| ns.checked_sub(exit)) else {
            self.incomplete += 1;
            return;
        };
        let writes = self.doorbells.entry(doorbell).or_default();
        writes.times.record(took);
        writes.in_user += u64::from(vcpu.in_user);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BAR: Doorbells =
        Doorbells { first: 0xfebd_4000, last: 0xfebd_7fff, stride: 0, queues: None };

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
    fn doorbells_of_a_trace_have_their_times() {
        let read = read(include_str!("../../tests/host/kvm.trace"), BAR);
        let of = |doorbell| {
            let writes = &read.doorbells[&doorbell];
            (writes.times.count(), writes.times.sum(), writes.in_user)
        };
        assert_eq!(of((1, false)), (2, 25_000 + 31_000, 2));
        assert_eq!(of((1, true)), (1, 4000, 0));
        assert_eq!(read.doorbells.len(), 2);
        // one write without an exit, one without an entry
        assert_eq!((read.incomplete, read.malformed, read.other), (2, 1, 4));
    }

    #[test]
    fn lost_events_are_counted_and_end_what_was_open() {
        let exit = "a-1 [000] d.... 1.000001: kvm_exit: vcpu 0 reason EPT_MISCONFIG rip 0x0";
        let write = "a-1 [000] ..... 1.000002: kvm_mmio: mmio write len 4 gpa 0xfebd5008 val 0x1";
        let entry = "a-1 [000] d.... 1.000009: kvm_entry: vcpu 0, rip 0x0";
        for (lost, n) in [
            ("CPU:0 [LOST 12 EVENTS]", 12),
            ("CPU:1 [3 EVENTS DROPPED]", 3),
            ("CPU:4 [LOST EVENTS]", 1),
            ("CPU:0 [EVENTS DROPPED]", 1),
        ] {
            let read = read(&[exit, write, lost, entry].join("\n"), BAR);
            assert_eq!((read.lost, read.incomplete, read.other), (n, 1, 0), "{lost}");
            assert!(read.doorbells.is_empty());
        }
    }

    #[test]
    fn a_time_has_micro_or_nanoseconds() {
        assert_eq!(time("100.000001"), Some(100_000_001_000));
        assert_eq!(time("100.000000001"), Some(100_000_000_001));
        assert_eq!(time("100.0000000001"), None);
        assert_eq!(head("CPU 0/KVM-1234  [001] d..1.   7.5"), Some((1234, 7_500_000_000)));
        assert_eq!(
            head("CPU 0/KVM-1234  (   1200) [001] d..1.   7.5"),
            Some((1234, 7_500_000_000))
        );
    }
}
