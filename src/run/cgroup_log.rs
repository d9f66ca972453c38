// SPDX-License-Identifier: MIT OR Apache-2.0
//! The cgroups that a recording has: the machine's at its start, and each new one before the first
//! event with it.

use std::collections::HashSet;
use std::mem::replace;

use crate::machine::System;
use crate::machine::cgroups::{CgroupPaths, Pseudonyms};
use crate::model::event::Event;
use crate::model::origin::Origin;
use crate::recording::CgroupInfo;

/// Cgroups of a block. A reader takes more.
pub const CGROUPS_OF_BLOCK: usize = 4096;
/// Most bytes of paths in a file: a reader takes no more than 32 MiB of stacks and cgroups. Later cgroups
/// have no path.
const MOST_BYTES: usize = 16 << 20;

/// The cgroups of a file.
pub struct CgroupLog {
    paths: CgroupPaths,
    /// `None`: the file has the names.
    pseudonyms: Option<Pseudonyms>,
    /// The ids that were looked up.
    seen: HashSet<u64>,
    bytes: usize,
    /// The ids of the last command that has any.
    last: [u64; 3],
}

impl CgroupLog {
    /// None so far.
    pub fn new(system: &System, redact: bool) -> Self {
        Self {
            paths: CgroupPaths::new(system),
            pseudonyms: redact.then(Pseudonyms::default),
            seen: HashSet::new(),
            bytes: 0,
            last: [0; 3],
        }
    }

    fn info(&mut self, id: u64) -> Option<CgroupInfo> {
        if !self.seen.insert(id) || self.bytes > MOST_BYTES {
            return None;
        }
        let path = self.paths.path(id)?;
        let path = match &mut self.pseudonyms {
            Some(pseudonyms) => pseudonyms.path(path),
            None => path.clone(),
        };
        self.bytes += path.as_str().len() + 64;
        Some(CgroupInfo { id, path })
    }

    /// The cgroups of this machine.
    pub fn all(&mut self) -> Vec<CgroupInfo> {
        self.paths.learn_all();
        let all: Vec<u64> = self.paths.known().keys().copied().collect();
        all.into_iter().filter_map(|id| self.info(id)).collect()
    }

    /// The cgroups of an event that the file does not have.
    pub fn new_ones(&mut self, event: &Event) -> Vec<CgroupInfo> {
        let submission = event.what.submission();
        let Some(origin) = submission.map(|of| of.origin).filter(Origin::is_some) else {
            return Vec::new();
        };
        // most commands are of the cgroups of the command before
        let cgroups = [origin.task_cgroup, origin.io_cgroup, origin.submitter.cgroup];
        if replace(&mut self.last, cgroups) == cgroups {
            return Vec::new();
        }
        origin.cgroups().filter_map(|id| self.info(id)).collect()
    }
}
