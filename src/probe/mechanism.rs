// SPDX-License-Identifier: MIT OR Apache-2.0
//! What bios wait for before they have a request, and how to tell whether a kernel has it at all. A
//! kernel without io.cost has no wait for io.cost; that differs from a wait that cannot be observed.

use super::facts::KernelFacts;
use crate::model::point::Point;

/// A cause of waits that a kernel may be built without.
#[derive(Debug, PartialEq, Eq)]
pub struct Mechanism {
    /// The point at which its wait begins.
    pub point: Point,
    /// The kernel's BTF has one of these structs if the kernel has the mechanism.
    pub structs: &'static [&'static str],
    /// Its name, with the option that builds it.
    pub name: &'static str,
}

/// All of them. The structs are private to the source file of their mechanism on every kernel from
/// 5.10 on. A frozen queue and a wait for a tag are possible on every kernel.
pub const MECHANISMS: [Mechanism; 4] = [
    Mechanism {
        point: Point::Submit,
        structs: &["throtl_grp"],
        name: "blk-throttle (CONFIG_BLK_DEV_THROTTLING)",
    },
    Mechanism {
        point: Point::Zone,
        structs: &["blk_zone_wplug"],
        name: "zone write plugging (6.10, CONFIG_BLK_DEV_ZONED)",
    },
    Mechanism {
        point: Point::Iocost,
        structs: &["ioc_gq"],
        name: "io.cost (CONFIG_BLK_CGROUP_IOCOST)",
    },
    // both wait in rq_qos_wait(), which every kernel has
    Mechanism {
        point: Point::Wbt,
        structs: &["rq_wb", "iolatency_grp"],
        name: "writeback throttling or io.latency (CONFIG_BLK_WBT, CONFIG_BLK_CGROUP_IOLATENCY)",
    },
];

impl KernelFacts {
    /// The mechanism that this kernel lacks, if nothing can wait at this point. Without BTF it is not
    /// known, and counts as there.
    pub fn lacks_mechanism(&self, point: Point) -> Option<&'static Mechanism> {
        let mut all = MECHANISMS.iter();
        let mechanism = all.find(|mechanism| mechanism.point == point)?;
        let has = |name: &&str| self.structs.contains(*name);
        (self.vmlinux_btf && !mechanism.structs.iter().any(has)).then_some(mechanism)
    }
}
