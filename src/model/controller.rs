// SPDX-License-Identifier: MIT OR Apache-2.0
//! Controllers and their namespaces, as reports name them. Recordings hold them as JSON: a field that
//! one lacks has its default.

use serde::{Deserialize, Serialize};

use super::ids::NamespaceId;
use super::text::Text;
use crate::nvme::decode::CommandSet;

/// A controller.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ControllerInfo {
    /// Its number: 0 for nvme0.
    pub instance: u32,
    /// Model, as reported by the controller.
    pub model: Text,
    /// `pcie`, `tcp`, `rdma`, `fc`, `loop`.
    pub transport: Text,
    /// Controller id. `None`: not known, or written before this was noted.
    pub cntlid: Option<u16>,
    /// NVMe Qualified Name of the subsystem of a fabrics controller. `None` as for `cntlid`; also for
    /// PCI, where it may contain a serial number, and if names are left out.
    pub nqn: Option<Text>,
    /// Number of queues, including the admin queue.
    pub queues: Option<u32>,
    /// Entries of an I/O submission queue.
    pub depth: Option<u32>,
    /// Its namespaces.
    pub disks: Vec<DiskInfo>,
}

impl ControllerInfo {
    /// Removes what names the controller.
    pub fn redact(&mut self) {
        self.model = Text::default();
        self.nqn = None;
    }

    /// Bytes of a logical block, by controller and namespace.
    pub fn block_sizes(&self) -> impl Iterator<Item = (NamespaceId, u32)> {
        let sizes = self.disks.iter().map(|d| (d.nsid, d.lba_bytes));
        sizes.map(|(nsid, bytes)| (NamespaceId::new(self.instance, nsid), bytes))
    }
}

/// A namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct DiskInfo {
    /// The block device's name: `nvme0n1`.
    pub name: Text,
    /// The namespace id.
    pub nsid: u32,
    /// Logical block size in bytes.
    pub lba_bytes: u32,
    /// Command set identifier: 0 NVM, 1 key value, 2 zoned.
    pub csi: u8,
}

impl DiskInfo {
    /// Its command set.
    pub fn set(&self) -> CommandSet {
        CommandSet::from_csi(self.csi).unwrap_or_default()
    }
}
