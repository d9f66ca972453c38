// SPDX-License-Identifier: MIT OR Apache-2.0
//! Log pages of the controllers, by Get Log Page.

use std::fs::File;

use super::System;
use super::admin::{NoAnswer, log_page};
use super::sysfs::Controller;
use crate::model::logs::ControllerLogs;
use crate::nvme::log::{EBS_PAGE, EbsStats, SMART_PAGE, Smart};

/// The model of an EBS volume: only its controllers have its page.
const EBS_MODEL: &str = "Amazon Elastic Block Store";

impl System {
    /// Reads the log pages of a controller: SMART, and the statistics of an EBS volume.
    ///
    /// # Errors
    /// A sentence on the first page that cannot be read.
    pub fn logs(&self, controller: &Controller) -> Result<ControllerLogs, String> {
        let device = format!("/dev/{}", controller.name());
        let read = || -> Result<ControllerLogs, NoAnswer> {
            let file = File::open(self.path(&device[1..]))?;
            let ebs = match controller.model == EBS_MODEL {
                true => EbsStats::parse(&*log_page(&file, EBS_PAGE)?),
                false => None,
            };
            Ok(ControllerLogs {
                instance: controller.instance,
                smart: Smart::parse(&*log_page(&file, SMART_PAGE)?),
                ebs,
            })
        };
        read().map_err(|why| format!("{device}: {why}"))
    }
}
