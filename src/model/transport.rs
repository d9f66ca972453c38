// SPDX-License-Identifier: MIT OR Apache-2.0
//! What connects a controller, and the points that its driver passes.

use super::point::Pattern;
use super::point::Point;

/// The transport of a controller, as sysfs names it (`/sys/class/nvme/nvme0/transport`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transport {
    /// A PCI function, real, passed through or emulated: `nvme.ko`.
    Pcie,
    /// A fabric (tcp, rdma, fc, loop), or a driver that this tool does not hook.
    Other,
}

/// Points in `nvme_core` and blk-mq: every driver passes them.
const COMMON: [Point; 6] = [
    Point::Start,
    Point::SetupIn,
    Point::SetupOut,
    Point::Issue,
    Point::Complete,
    Point::End,
];

impl Transport {
    /// The transport with this name.
    pub fn named(name: &str) -> Self {
        match name {
            "pcie" => Self::Pcie,
            _ => Self::Other,
        }
    }

    /// The points that can be observed. Doorbell, interrupt and CQE are in functions of `nvme.ko`;
    /// the drivers of other transports ring no doorbell.
    pub const fn points(self) -> &'static [Point] {
        match self {
            Self::Pcie => &Point::ALL,
            Self::Other => &COMMON,
        }
    }

    /// The bits of these points in a pattern ([`Point::pattern_bit`]).
    pub fn pattern(self) -> Pattern {
        let bits = self.points().iter().filter_map(|p| p.pattern_bit());
        bits.fold(0, |all, bit| all | bit)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_pci_has_a_doorbell_an_interrupt_and_a_cqe() {
        let without = |t: Transport| -> Vec<Point> {
            let all = Point::ALL.into_iter();
            all.filter(|p| !t.points().contains(p)).collect()
        };
        assert_eq!(without(Transport::named("pcie")), []);
        let fabrics = [Point::Doorbell, Point::Irq, Point::Cqe];
        for name in ["tcp", "rdma", "fc", "loop", "apple-nvme", ""] {
            assert_eq!(without(Transport::named(name)), fabrics, "{name}");
        }
        assert_eq!(Transport::Pcie.pattern(), 0x7f);
        assert_eq!(Transport::Other.pattern() & 1 << 3, 0);
    }
}
