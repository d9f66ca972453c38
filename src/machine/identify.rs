// SPDX-License-Identifier: MIT OR Apache-2.0
//! What Identify Controller shows that sysfs does not.

use std::fs::File;

use super::System;
use super::admin::{NoAnswer, identify};
use super::fact::Fact;

/// OACS (bytes 256 and 257) bit 8: the Doorbell Buffer Config command.
fn offers_doorbell_buffer(data: &[u8; 4096]) -> bool {
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
        let mut data = [0; 4096];
        assert!(!offers_doorbell_buffer(&data));
        data[256] = 0xff;
        assert!(!offers_doorbell_buffer(&data));
        data[257] = 1;
        assert!(offers_doorbell_buffer(&data));
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
