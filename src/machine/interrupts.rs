// SPDX-License-Identifier: MIT OR Apache-2.0
//! The interrupts of NVMe queues, from /proc/interrupts.

use std::collections::BTreeMap;
use std::fs;

use super::System;
use crate::model::ids::QueueId;

/// The interrupt of a queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueueInterrupt {
    /// The queue.
    pub queue: QueueId,
    /// Its number in /proc/interrupts.
    pub irq: u32,
    /// How often each CPU took it since the boot. The vector may be shared with other queues.
    pub by_cpu: BTreeMap<u32, u64>,
}

/// The queue of a handler's name: `nvme0q1`.
fn queue_of(name: &str) -> Option<QueueId> {
    let (ctrl, qid) = name.strip_prefix("nvme")?.split_once('q')?;
    Some(QueueId::new(ctrl.parse().ok()?, qid.parse().ok()?))
}

/// The queues of a line ` 27:  12  0  PCI-MSIX-0000:00:04.0  1-edge  nvme0q1`. Several handlers share
/// a line, separated by commas.
fn line_of(line: &str, cpus: &[u32]) -> Vec<QueueInterrupt> {
    let mut words = line.split_whitespace();
    let irq = words.next().and_then(|w| w.strip_suffix(':')?.parse().ok());
    let Some(irq) = irq else { return vec![] };
    let counts: Vec<u64> = words.by_ref().take(cpus.len()).map_while(|w| w.parse().ok()).collect();
    let by_cpu: BTreeMap<u32, u64> = cpus.iter().copied().zip(counts).collect();
    let queues = words.filter_map(|w| queue_of(w.trim_end_matches(',')));
    queues.map(|queue| QueueInterrupt { queue, irq, by_cpu: by_cpu.clone() }).collect()
}

impl System {
    /// The interrupts of NVMe queues. Empty if /proc/interrupts cannot be read.
    pub fn queue_interrupts(&self) -> Vec<QueueInterrupt> {
        let text = fs::read_to_string(self.path("proc/interrupts")).unwrap_or_default();
        let mut lines = text.lines();
        let head = lines.next().unwrap_or_default();
        let cpus: Vec<u32> = head
            .split_whitespace()
            .filter_map(|word| word.strip_prefix("CPU")?.parse().ok())
            .collect();
        lines.flat_map(|line| line_of(line, &cpus)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::put;
    use super::*;
    use tempfile::TempDir;

    #[test]
    fn each_queue_has_its_line() {
        let root = TempDir::new().unwrap();
        let text = "            CPU0       CPU2       \n\
                    \x20  9:          0          4   IO-APIC   9-fasteoi   acpi\n\
                    \x20 26:         11          0  PCI-MSIX-0000:00:04.0   0-edge      nvme0q0\n\
                    \x20 27:          7      12345   PCI-MSI 65537-edge      nvme0q1, nvme1q12\n\
                    NMI:          1          2   Non-maskable interrupts\n";
        put(&root, "proc/interrupts", text);
        let all = System::at(root.path()).queue_interrupts();
        let found: Vec<_> = all.iter().map(|i| (i.queue.ctrl, i.queue.qid, i.irq)).collect();
        assert_eq!(found, [(0, 0, 26), (0, 1, 27), (1, 12, 27)]);
        assert_eq!(all[1].by_cpu, BTreeMap::from([(0, 7), (2, 12345)]));
        assert_eq!(System::at("/missing").queue_interrupts(), []);
    }
}
