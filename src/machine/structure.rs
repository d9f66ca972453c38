// SPDX-License-Identifier: MIT OR Apache-2.0
//! The layout of a C struct.

use std::collections::BTreeMap;

/// A struct as described by BTF.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Structure {
    /// Size in bytes.
    pub size: u32,
    /// Offsets of its members in bytes, members of anonymous members included.
    pub members: BTreeMap<String, u32>,
}
