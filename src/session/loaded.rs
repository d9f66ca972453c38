// SPDX-License-Identifier: MIT OR Apache-2.0
//! A loaded object.

use libbpf_rs::MapCore;
use libbpf_rs::MapHandle;
use libbpf_rs::Object;

use crate::error::Mismatch;
use crate::error::Operation;
use crate::error::Result;

/// One of the builds, loaded. A map has the same name in every build that contains it.
pub struct Loaded(pub Object);

impl Loaded {
    /// Returns a map by name.
    pub fn map(&self, name: &str) -> Result<MapHandle> {
        let map = self.0.maps().find(|m| m.name() == name);
        let map = map.ok_or_else(|| Mismatch::NoMap { map: name.into() })?;
        MapHandle::try_from(&map).map_err(Operation::OpenMap(name.into()).failed())
    }
}
