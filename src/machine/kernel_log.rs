// SPDX-License-Identifier: MIT OR Apache-2.0
//! The kernel's log, as far as it is about NVMe and the block layer.

use std::fs::File;
use std::io::{self, ErrorKind, Read};
use std::os::unix::fs::OpenOptionsExt;

use rustix::fs::OFlags;

use super::System;
use crate::model::text::Text;
use crate::recording::KernelLine;

/// A line is about NVMe or the block layer if it has one of these.
const WORDS: [&str; 6] = ["nvme", "blk", "block", "I/O error", "I/O timeout", "hung_task"];
/// Most lines that are kept: the last ones.
const MOST: usize = 1000;

/// A record of /dev/kmsg: `6,339,5140900,-;text`, then lines with properties, which begin with a blank.
fn line(record: &str) -> Option<KernelLine> {
    let (head, text) = record.split_once(';')?;
    let at_us: u64 = head.split(',').nth(2)?.parse().ok()?;
    let text = text.lines().next()?;
    let is_meant = WORDS.iter().any(|word| text.contains(word));
    is_meant.then(|| KernelLine { at_ns: at_us.saturating_mul(1000), text: Text::from(text) })
}

impl System {
    /// The lines of the kernel's log that are about NVMe and the block layer, since this time after the boot.
    ///
    /// # Errors
    /// If the log cannot be read: that takes CAP_SYSLOG, or kernel.dmesg_restrict=0.
    pub fn kernel_log(&self, since_ns: u64) -> io::Result<Vec<KernelLine>> {
        let flags = OFlags::NONBLOCK.bits().cast_signed();
        let mut log = File::options().read(true).custom_flags(flags).open(self.path("dev/kmsg"))?;
        // one record each time; a smaller buffer is an error
        let (mut record, mut lines) = ([0; 8192], Vec::new());
        loop {
            match log.read(&mut record) {
                Ok(0) => break,
                Ok(size) => {
                    let found = line(&String::from_utf8_lossy(&record[..size]));
                    lines.extend(found.filter(|line| line.at_ns >= since_ns));
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                // the next record was overwritten meanwhile
                Err(error) if error.kind() == ErrorKind::BrokenPipe => {}
                Err(error) => return Err(error),
            }
        }
        lines.drain(..lines.len().saturating_sub(MOST));
        Ok(lines)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_about_nvme_have_their_time() {
        let record =
            "4,812,90123456,-,caller=T1;nvme nvme0: I/O 12 QID 1 timeout\n SUBSYSTEM=pci\n";
        let found = line(record).unwrap();
        assert_eq!(
            (found.at_ns, &*found.text),
            (90_123_456_000, "nvme nvme0: I/O 12 QID 1 timeout")
        );
        for other in ["6,1,2,-;usb 1-1: new device", "6,1,x,-;nvme", "nvme", ""] {
            assert_eq!(line(other), None, "{other}");
        }
    }
}
