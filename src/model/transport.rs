// SPDX-License-Identifier: MIT OR Apache-2.0
//! What connects a controller, and the points that its driver passes.

use super::point::{IN_RECORDS, Pattern, Point};

/// The transport of a controller, as sysfs names it (`/sys/class/nvme/nvme0/transport`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transport {
    /// A PCI function, real, passed through or emulated: `nvme.ko`.
    Pcie,
    /// A fabric (tcp, rdma, fc, loop), or a driver that this tool does not hook.
    Other,
}

impl Transport {
    /// The transport with this name.
    pub fn named(name: &str) -> Self {
        match name {
            "pcie" => Self::Pcie,
            _ => Self::Other,
        }
    }

    /// The bits of the points in records that the driver passes; commands wait for a doorbell only if
    /// its bit is set. Doorbell, interrupt and CQE are in functions of `nvme.ko`; the other points are in
    /// `nvme_core` and blk-mq.
    pub fn points(self) -> Pattern {
        let passes = |point: &Point| match point {
            Point::Doorbell | Point::Irq | Point::Cqe => self == Self::Pcie,
            _ => true,
        };
        IN_RECORDS.into_iter().filter(passes).filter_map(Point::pattern_bit).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_pci_has_a_doorbell_an_interrupt_and_a_cqe() {
        assert_eq!(Transport::named("pcie").points(), 0x7f);
        for name in ["tcp", "rdma", "fc", "loop", "apple-nvme", ""] {
            assert_eq!(Transport::named(name).points(), 0b100_0111, "{name}");
        }
    }
}
