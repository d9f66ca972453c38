// SPDX-License-Identifier: MIT OR Apache-2.0
//! Log pages of a controller.

/// Identifier of the SMART / Health Information log page.
pub const SMART_PAGE: u8 = 0x02;
/// Its size in bytes.
pub const SMART_BYTES: usize = 512;
/// Identifier of the statistics page of Amazon's controllers; other vendors have other pages there.
pub const EBS_PAGE: u8 = 0xd0;
/// Bytes of it that are read.
pub const EBS_BYTES: usize = 512;
/// The first four bytes of the page of an EBS volume (nvme-cli, plugins/amzn).
const EBS_MAGIC: u32 = 0x3c23_b510;

/// Counters of the SMART / Health Information log page (NVMe base 2.1, section 5.1.12.1.3).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Smart {
    /// Bits of Critical Warning; bit 1: a temperature is beyond a threshold.
    pub critical_warning: u8,
    /// Composite temperature in kelvins.
    pub kelvins: u16,
    /// Media and Data Integrity Errors; saturates.
    pub media_errors: u64,
    /// Minutes beyond the critical composite temperature threshold.
    pub critical_minutes: u32,
    /// Transitions to a lower power state because of the temperature, light and heavy.
    pub transitions: u64,
    /// Seconds in such states.
    pub throttled_seconds: u64,
}

/// Counters of an EBS volume, microseconds (Amazon EBS detailed performance statistics).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EbsStats {
    /// Time in which more IOPS were asked for than the volume has.
    pub volume_iops_us: u64,
    /// Time in which more throughput was asked for than the volume has.
    pub volume_throughput_us: u64,
    /// Time in which more IOPS were asked for than the instance has.
    pub instance_iops_us: u64,
    /// Time in which more throughput was asked for than the instance has.
    pub instance_throughput_us: u64,
}

/// The 4 bytes from `at`; 0 beyond the end.
fn u32_at(page: &[u8], at: usize) -> u32 {
    let bytes = page.get(at..).and_then(|rest| rest.first_chunk());
    bytes.map_or(0, |bytes| u32::from_le_bytes(*bytes))
}

/// The 8 bytes from `at`; 0 beyond the end.
fn u64_at(page: &[u8], at: usize) -> u64 {
    u64::from(u32_at(page, at)) | u64::from(u32_at(page, at + 4)) << 32
}

impl Smart {
    /// Parses the page.
    pub fn parse(page: &[u8; SMART_BYTES]) -> Self {
        // 16 bytes; 8 suffice
        let media = u64_at(page, 160);
        let large = u64_at(page, 168) != 0;
        let sum =
            |first: usize| u64::from(u32_at(page, first)) + u64::from(u32_at(page, first + 4));
        Self {
            critical_warning: page[0],
            kelvins: u16::from_le_bytes([page[1], page[2]]),
            media_errors: if large { u64::MAX } else { media },
            critical_minutes: u32_at(page, 196),
            transitions: sum(216),
            throttled_seconds: sum(224),
        }
    }

    /// Bit 1 of Critical Warning: a temperature is beyond a threshold.
    pub const fn is_too_hot(&self) -> bool {
        self.critical_warning & 2 != 0
    }
}

impl EbsStats {
    /// Parses the page; `None` if it is another one.
    pub fn parse(page: &[u8; EBS_BYTES]) -> Option<Self> {
        (u32_at(page, 0) == EBS_MAGIC).then(|| Self {
            volume_iops_us: u64_at(page, 56),
            volume_throughput_us: u64_at(page, 64),
            instance_iops_us: u64_at(page, 72),
            instance_throughput_us: u64_at(page, 80),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn put(page: &mut [u8], at: usize, value: &[u8]) {
        page[at..at + value.len()].copy_from_slice(value);
    }

    #[test]
    fn fields_of_smart_are_where_the_specification_has_them() {
        let mut page = [0; SMART_BYTES];
        put(&mut page, 0, &[2]);
        put(&mut page, 1, &323_u16.to_le_bytes());
        put(&mut page, 160, &7_u128.to_le_bytes());
        // warning temperature time is no critical one
        put(&mut page, 192, &99_u32.to_le_bytes());
        put(&mut page, 196, &5_u32.to_le_bytes());
        for (at, value) in [(216, 1_u32), (220, 2), (224, 30), (228, 40)] {
            put(&mut page, at, &value.to_le_bytes());
        }
        let smart = Smart::parse(&page);
        let wanted = Smart {
            critical_warning: 2,
            kelvins: 323,
            media_errors: 7,
            critical_minutes: 5,
            transitions: 3,
            throttled_seconds: 70,
        };
        assert_eq!(smart, wanted);
        assert!(smart.is_too_hot() && !Smart::default().is_too_hot());
        put(&mut page, 175, &[1]);
        assert_eq!(Smart::parse(&page).media_errors, u64::MAX);
    }

    #[test]
    fn statistics_of_ebs_have_their_magic() {
        let mut page = [0; EBS_BYTES];
        for (at, value) in [(56, 1_u64), (64, 2), (72, 3), (80, 4)] {
            put(&mut page, at, &value.to_le_bytes());
        }
        assert_eq!(EbsStats::parse(&page), None);
        put(&mut page, 0, &EBS_MAGIC.to_le_bytes());
        let wanted = EbsStats {
            volume_iops_us: 1,
            volume_throughput_us: 2,
            instance_iops_us: 3,
            instance_throughput_us: 4,
        };
        assert_eq!(EbsStats::parse(&page), Some(wanted));
    }
}
