// SPDX-License-Identifier: MIT OR Apache-2.0
//! The structs to read, and their layouts on this kernel.

use std::collections::BTreeMap;

use crate::machine::structure::Structure;

/// What must be described: block layer and nvme_core, then the PCI driver. (include/linux/blk-mq.h,
/// include/linux/sbitmap.h, drivers/nvme/host/nvme.h, drivers/nvme/host/pci.c)
pub const NEEDED: [(&str, &[&str]); 11] = [
    ("blk_mq_tag_set", &["tags", "nr_hw_queues"]),
    ("blk_mq_tags", &["nr_tags", "nr_reserved_tags", "bitmap_tags", "breserved_tags", "rqs"]),
    ("sbitmap_queue", &["sb"]),
    ("sbitmap", &["depth", "shift", "map_nr", "map"]),
    ("sbitmap_word", &["word", "cleared"]),
    ("request", &["state", "tag", "deadline", "timeout"]),
    ("nvme_subsystem", &["entry", "ctrls"]),
    ("nvme_ctrl", &["instance", "tagset", "admin_tagset", "subsys_entry"]),
    ("nvme_request", &["cmd"]),
    ("nvme_dev", &["queues", "ctrl"]),
    (
        "nvme_queue",
        &[
            "sq_cmds",
            "cqes",
            "q_depth",
            "sq_tail",
            "last_sq_tail",
            "cq_head",
            "cq_phase",
            "flags",
            "dbbuf_sq_ei",
            "dbbuf_cq_ei",
        ],
    ),
];

/// The structs of the PCI driver. Without them there are commands, but no verdicts.
const PCI: [&str; 2] = ["nvme_dev", "nvme_queue"];

/// A struct or member that is not described.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the kernel's types lack {what}")]
pub struct Missing {
    /// `struct` or `struct.member`.
    pub what: String,
}

/// Layouts of the structs in [`NEEDED`].
#[derive(Clone, Debug, Default)]
pub struct Types(BTreeMap<&'static str, Structure>);

impl Types {
    /// Finds the layouts.
    ///
    /// # Errors
    /// If something is missing, except the PCI driver.
    pub fn new(find: impl Fn(&str) -> Option<Structure>) -> Result<Self, Missing> {
        let mut types = Self::default();
        for (name, members) in NEEDED {
            let found = find(name).ok_or_else(|| name.to_owned());
            let found = found.and_then(|s| {
                let missing = members.iter().find(|m| !s.members.contains_key(**m));
                missing.map_or(Ok(s), |m| Err(format!("{name}.{m}")))
            });
            match found {
                Ok(structure) => {
                    types.0.insert(name, structure);
                }
                Err(_) if PCI.contains(&name) => {}
                Err(what) => return Err(Missing { what }),
            }
        }
        Ok(types)
    }

    /// Whether the PCI driver is described.
    pub fn has_pci(&self) -> bool {
        PCI.iter().all(|name| self.0.contains_key(name))
    }

    /// The size of a struct in bytes.
    pub(super) fn size(&self, name: &str) -> Option<usize> {
        usize::try_from(self.0.get(name)?.size).ok()
    }

    /// The offset of a member in bytes.
    pub(super) fn offset(&self, name: &str, member: &str) -> Option<usize> {
        usize::try_from(*self.0.get(name)?.members.get(member)?).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn described(name: &str) -> Option<Structure> {
        let (_, members) = NEEDED.iter().find(|(n, _)| *n == name)?;
        Some(Structure {
            size: 64,
            members: (0..).zip(*members).map(|(at, m)| ((*m).into(), at)).collect(),
        })
    }

    #[test]
    fn what_is_missing_is_named_except_for_the_pci_driver() {
        assert!(Types::new(described).unwrap().has_pci());
        let without = |lacks: &str| Types::new(|name| described(name).filter(|_| name != lacks));
        assert!(!without("nvme_queue").unwrap().has_pci());
        let error = without("sbitmap").unwrap_err();
        assert_eq!(error.to_string(), "the kernel's types lack sbitmap");
        let error = Types::new(|name| {
            let mut found = described(name)?;
            found.members.remove("deadline");
            Some(found)
        });
        assert_eq!(error.unwrap_err().what, "request.deadline");
    }
}
