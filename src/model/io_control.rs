// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the block layer may make a bio wait for, besides the device: limits of cgroups, io.cost.
//! Recordings hold it as JSON.

use std::fmt;
use std::fmt::{Display, Formatter};

use serde::{Deserialize, Serialize};

use super::untrusted::Untrusted;

/// The limits of a cgroup on a disk: a line of its io.max. `None`: `max`, no limit.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct IoLimit {
    /// The path of the cgroup below the mount point, beginning with a slash; empty: not recorded.
    pub cgroup: Untrusted,
    /// Bytes read per second.
    pub rbps: Option<u64>,
    /// Bytes written per second.
    pub wbps: Option<u64>,
    /// Read commands per second.
    pub riops: Option<u64>,
    /// Write commands per second.
    pub wiops: Option<u64>,
}

/// The limits of all cgroups on a disk.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct IoLimits {
    /// By the path of the cgroup.
    pub cgroups: Vec<IoLimit>,
    /// There may be more: not all cgroups were looked at, or there was no room.
    pub more: bool,
}

/// The settings of io.cost for a disk.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct IoCost {
    /// It is on.
    pub enabled: bool,
    /// The rest of the line of io.cost.qos; empty: there is none.
    pub qos: Untrusted,
}

impl IoLimit {
    /// The names of the limits in io.max, and their values.
    pub const fn all(&self) -> [(&'static str, Option<u64>); 4] {
        [("rbps", self.rbps), ("wbps", self.wbps), ("riops", self.riops), ("wiops", self.wiops)]
    }

    /// Whether it limits nothing.
    pub fn is_max(&self) -> bool {
        self.all().iter().all(|(_, limit)| limit.is_none())
    }
}

/// As in io.max: `riops=60`.
impl Display for IoLimit {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let all = self.all().into_iter();
        let some = all.filter_map(|(name, limit)| Some(format!("{name}={}", limit?)));
        f.pad(&some.collect::<Vec<_>>().join(" "))
    }
}

/// `on (ctrl=user rpct=95.00)`, or `off`.
impl Display for IoCost {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self.enabled {
            true => write!(f, "on ({})", self.qos),
            false => f.write_str("off"),
        }
    }
}
