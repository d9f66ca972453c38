// SPDX-License-Identifier: MIT OR Apache-2.0
//! A loaded object.

use anyhow::Context;
use anyhow::Result;
use libbpf_rs::MapCore;
use libbpf_rs::MapHandle;
use libbpf_rs::Object;

/// One of the builds, loaded. A map has the same name in every build that contains it.
pub struct Loaded(pub Object);

impl Loaded {
    /// Returns a map by name.
    pub fn map(&self, name: &str) -> Result<MapHandle> {
        let map = self.0.maps().find(|m| m.name() == name);
        let map = map.with_context(|| format!("the object has no map `{name}`"))?;
        MapHandle::try_from(&map).with_context(|| format!("failed to take hold of map `{name}`"))
    }
}
