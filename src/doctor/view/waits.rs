// SPDX-License-Identifier: MIT OR Apache-2.0
//! What could make a bio wait before the device gets it: a line for each disk, and one for each limit of
//! a cgroup.

use std::io;

use super::{Page, setting};
use crate::machine::fact::Fact;
use crate::machine::nvme::NamespaceDetail;
use crate::units::counted;

impl Page<'_> {
    /// What could make a bio of this disk wait.
    pub(super) fn waits(&mut self, namespace: &NamespaceDetail) -> io::Result<()> {
        let NamespaceDetail { scheduler, nr_requests, wbt_lat_us, limits, io_cost, zoned, .. } =
            namespace;
        let wbt = wbt_lat_us.clone().map(|us| match us {
            0 => "off".to_owned(),
            us => format!("{us} us"),
        });
        let found = limits.clone().map(|limits| match limits.cgroups.len() {
            0 => "none".to_owned(),
            n => counted(n as u64, "cgroup"),
        });
        let items = [
            setting("scheduler", scheduler),
            setting("nr_requests", nr_requests),
            setting("wbt_lat", &wbt),
            setting("io.cost", io_cost),
            setting("zones", zoned),
            setting("io.max", &found),
        ];
        self.entry("may wait", &items.join(", "))?;
        let Fact::Known(limits) = limits else {
            return Ok(());
        };
        for limit in &limits.cgroups {
            self.entry("io.max", &format!("{limit}: {}", limit.cgroup))?;
        }
        if limits.more {
            self.entry("", "there may be more limits")?;
        }
        Ok(())
    }
}
