// SPDX-License-Identifier: MIT OR Apache-2.0
//! Identify Controller through `/dev/nvmeX`: the only command that this tool sends to a device.
//!
//! It is a single read-only admin command, which other tools and the driver send too. It has no
//! time limit of its own, because a short one would make the driver reset a controller that is only
//! slow. On a hung controller it waits as long as the driver does (`admin_timeout`, 60 s by
//! default). This module contains all ioctl calls of the crate.

use std::ffi::c_int;
use std::fs::File;
use std::io;
use std::mem::offset_of;
use std::mem::size_of;
use std::os::fd::AsRawFd;

use super::System;
use super::Unreadable;
use super::fact::Fact;

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

/// Opcode of Identify, an admin command.
const IDENTIFY: u8 = 0x06;
/// CNS of the Identify Controller data structure.
const CNS_CONTROLLER: u32 = 1;
/// The size of any Identify data structure.
const DATA_BYTES: usize = 4096;

/// Why a controller has not answered with data.
#[derive(Debug, thiserror::Error)]
enum NoAnswer {
    /// The device file cannot be opened, or the kernel does not send the command.
    #[error(transparent)]
    NotSent(Unreadable),
    /// The controller failed the command with this status.
    #[error("the controller answers with status {0:#x}")]
    Status(c_int),
}

impl From<io::Error> for NoAnswer {
    fn from(error: io::Error) -> Self {
        Self::NotSent(error.into())
    }
}

/// Sends Identify Controller to the controller behind `file`.
fn identify(file: &File) -> Result<Box<[u8; DATA_BYTES]>, NoAnswer> {
    let mut data = Box::new([0; DATA_BYTES]);
    let mut command = PassthruCommand {
        opcode: IDENTIFY,
        address: data.as_mut_ptr() as u64,
        data_bytes: DATA_BYTES as u32,
        cdw10: CNS_CONTROLLER,
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

/// OACS (bytes 256 and 257) bit 8: the Doorbell Buffer Config command.
fn offers_doorbell_buffer(data: &[u8; DATA_BYTES]) -> bool {
    u16::from_le_bytes([data[256], data[257]]) & 1 << 8 != 0
}

impl System {
    /// Whether a controller offers shadow doorbells. The driver uses them wherever they exist.
    /// Sends one Identify command.
    pub(super) fn shadow_doorbells(&self, controller: &str) -> Fact<bool> {
        let answer = File::open(self.path(&format!("dev/{controller}")))
            .map_err(NoAnswer::from)
            .and_then(|file| identify(&file));
        match answer {
            Ok(data) => Fact::Known(offers_doorbell_buffer(&data)),
            Err(why) => Fact::unknown(format!("/dev/{controller}: {why}")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::put;
    use super::*;
    use tempfile::TempDir;

    #[test]
    fn the_offer_is_bit_8_of_oacs() {
        let mut data = [0; DATA_BYTES];
        assert!(!offers_doorbell_buffer(&data));
        data[256] = 0xff;
        assert!(!offers_doorbell_buffer(&data));
        data[257] = 1;
        assert!(offers_doorbell_buffer(&data));
    }

    #[test]
    #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
    fn the_request_is_nvme_ioctl_admin_cmd() {
        let request = libc::_IOWR::<PassthruCommand>(b'N'.into(), 0x41);
        assert_eq!(request, 0xc048_4e41);
    }

    #[test]
    fn what_is_no_controller_says_why_it_is_unknown() {
        let root = TempDir::new().unwrap();
        let system = System::at(root.path());
        let fact = system.shadow_doorbells("nvme0").to_string();
        assert_eq!(fact, "unknown (/dev/nvme0: no such file)");
        put(&root, "dev/nvme0", "a file");
        let fact = system.shadow_doorbells("nvme0").to_string();
        assert!(fact.contains("ioctl"), "{fact}");
    }
}
