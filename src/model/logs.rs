// SPDX-License-Identifier: MIT OR Apache-2.0
//! Log pages of a controller at one time.

use crate::nvme::log::{EbsStats, Smart};

/// Log pages of a controller.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ControllerLogs {
    /// Its number: 0 for nvme0.
    pub instance: u32,
    /// SMART / Health Information.
    pub smart: Smart,
    /// Statistics of an EBS volume; `None`: it is none.
    pub ebs: Option<EbsStats>,
}
