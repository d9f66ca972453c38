// SPDX-License-Identifier: MIT OR Apache-2.0
//! Admin commands through `/dev/nvmeX`: Identify Controller, and Get Log Page if the user asks for it.
//! The tool sends no other commands to a device.
//!
//! Both are read-only commands, which other tools and the driver send too. They have no time limit of
//! their own, because a short one would make the driver reset a controller that is only slow. On a hung
//! controller they wait as long as the driver does (`admin_timeout`, 60 s by default). This module
//! contains all ioctl calls of the crate.

use super::System;
use crate::model::machine::{ControllerInfo, ControllerLogs};
use crate::nvme::log::{EBS_PAGE, EbsStats, SMART_PAGE, Smart};
use std::ffi::c_int;
use std::fs::File;
use std::io;
use std::mem::{offset_of, size_of};
use std::os::fd::AsRawFd;

/// `struct nvme_passthru_cmd` of linux/nvme_ioctl.h.
#[repr(C)]
#[derive(Default)]
struct PassthruCommand {
    opcode: u8,
    flags: u8,
    reserved: u16,
    nsid: u32,
    cdw2: u32,
    cdw3: u32,
    metadata: u64,
    address: u64,
    metadata_bytes: u32,
    data_bytes: u32,
    cdw10: u32,
    cdw11_to_15: [u32; 5],
    timeout_ms: u32,
    result: u32,
}

const _: () = {
    assert!(size_of::<PassthruCommand>() == 72);
    assert!(offset_of!(PassthruCommand, address) == 24);
    assert!(offset_of!(PassthruCommand, data_bytes) == 36);
    assert!(offset_of!(PassthruCommand, cdw10) == 40);
    assert!(offset_of!(PassthruCommand, timeout_ms) == 64);
};

/// Opcode of Get Log Page (NVMe base 2.1, section 5.1.12).
const GET_LOG_PAGE: u8 = 0x02;
/// Opcode of Identify (NVMe base 2.1, section 5.1.13).
const IDENTIFY: u8 = 0x06;
/// CNS of the Identify Controller data structure.
const CNS_CONTROLLER: u32 = 1;
/// The log page of the whole controller.
const ALL_NAMESPACES: u32 = u32::MAX;

/// Why a controller has not answered with data.
#[derive(Debug, thiserror::Error)]
pub(super) enum NoAnswer {
    /// The device file cannot be opened, or the kernel does not send the command.
    #[error(transparent)]
    NotSent(#[from] io::Error),
    /// The controller failed the command with this status.
    #[error("the controller answers with status {0:#x}")]
    Status(c_int),
}

/// Sends a command that reads `N` bytes from the controller behind `file`.
fn read<const N: usize>(
    file: &File,
    opcode: u8,
    nsid: u32,
    cdw10: u32,
) -> Result<Box<[u8; N]>, NoAnswer> {
    let mut data = Box::new([0; N]);
    let mut command = PassthruCommand {
        opcode,
        nsid,
        address: data.as_mut_ptr() as u64,
        data_bytes: N as u32,
        cdw10,
        ..PassthruCommand::default()
    };
    let request = libc::_IOWR::<PassthruCommand>(b'N'.into(), 0x41);
    // SAFETY: NVME_IOCTL_ADMIN_CMD reads and writes the command (its layout is checked above), and
    // writes at most `data_bytes` to `address`. Both are owned here and live through the call. A
    // file that is not a controller rejects the request.
    let status = unsafe { libc::ioctl(file.as_raw_fd(), request, &raw mut command) };
    match status {
        0 => Ok(data),
        ..0 => Err(io::Error::last_os_error().into()),
        // a positive return value is the controller's status
        _ => Err(NoAnswer::Status(status)),
    }
}

/// Sends Identify Controller.
pub(super) fn identify(file: &File) -> Result<Box<[u8; 4096]>, NoAnswer> {
    read(file, IDENTIFY, 0, CNS_CONTROLLER)
}

/// Reads the first `N` bytes of a log page of the controller.
pub(super) fn log_page<const N: usize>(file: &File, page: u8) -> Result<Box<[u8; N]>, NoAnswer> {
    // dwords, less one
    let size = (N / 4 - 1) as u32;
    read(file, GET_LOG_PAGE, ALL_NAMESPACES, size << 16 | u32::from(page))
}

/// OACS (bytes 256 and 257) bit 8: the Doorbell Buffer Config command.
fn offers_doorbell_buffer(data: &[u8; 4096]) -> bool {
    u16::from_le_bytes([data[256], data[257]]) & 1 << 8 != 0
}

impl System {
    /// Whether a controller offers shadow doorbells. The driver uses them if they exist.
    /// Sends one Identify command. `None`: it has not answered, or this is not root.
    pub(crate) fn shadow_doorbells(&self, controller: &str) -> Option<bool> {
        let file = File::open(self.path(&format!("dev/{controller}"))).ok()?;
        Some(offers_doorbell_buffer(&*identify(&file).ok()?))
    }
}

/// The model of an EBS volume: only its controllers have its page.
const EBS_MODEL: &str = "Amazon Elastic Block Store";

impl System {
    /// Reads the log pages of a controller: SMART, and the statistics of an EBS volume.
    ///
    /// # Errors
    /// A sentence on the first page that cannot be read.
    pub fn logs(&self, controller: &ControllerInfo) -> Result<ControllerLogs, String> {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_and_answers_are_as_linux_and_nvme_define_them() {
        #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
        assert_eq!(libc::_IOWR::<PassthruCommand>(b'N'.into(), 0x41), 0xc048_4e41);
        // bit 8 of OACS
        let mut data = [0; 4096];
        data[256] = 0xff;
        assert!(!offers_doorbell_buffer(&data));
        data[257] = 1;
        assert!(offers_doorbell_buffer(&data));
    }
}
