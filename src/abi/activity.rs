// SPDX-License-Identifier: MIT OR Apache-2.0
//! The counters besides the commands (bpf/include/abi.h).

use bytemuck::AnyBitPattern;

use super::skel::types::{nd_activity, nd_activity_limit, nd_disk};
use super::{DecodeError, read};
use crate::model::activity::{Activity, Gap, Splits, TagWaits, UpperBios, Volume};

/// Gaps that each CPU keeps.
pub const GAPS: u64 = nd_activity_limit::ND_GAPS.0 as u64;
/// Distance of two ticks above which there is a gap.
pub const GAP_NS: u64 = nd_activity_limit::ND_GAP_NS.0 as u64;
/// Period of the timer of a CPU, in nanoseconds.
pub const TICK_NS: u64 = nd_activity_limit::ND_TICK_NS.0 as u64;
/// Bytes of the counters of a CPU.
pub const ACTIVITY_BYTES: usize = size_of::<nd_activity>();

const _: () = assert!(ACTIVITY_BYTES == 80 + 16 * GAPS as usize);

// SAFETY: `repr(C)` structs of 64-bit integers, and arrays of them: any bit pattern is valid.
unsafe impl AnyBitPattern for nd_activity {}
// SAFETY: as above.
unsafe impl bytemuck::Zeroable for nd_activity {}
// SAFETY: as above.
unsafe impl AnyBitPattern for nd_disk {}
// SAFETY: as above.
unsafe impl bytemuck::Zeroable for nd_disk {}

/// The counters of all CPUs, summed, besides those by disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Volumes {
    /// Bounce buffers used.
    pub bounced: Volume,
    /// Mappings of the IOMMU.
    pub mapped: Volume,
    /// Mappings removed.
    pub unmapped: Volume,
}

/// The timer of a CPU, and its gaps since the start of the run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GapSum {
    /// When the timer fired first; 0: the CPU has never had one.
    pub timed_ns: u64,
    /// When it fired last.
    pub tick_ns: u64,
    /// How many.
    pub count: u64,
    /// Their sum, in nanoseconds.
    pub ns: u64,
}

fn add(sum: &mut Volume, count: u64, bytes: u64) {
    sum.count += count;
    sum.bytes += bytes;
}

/// Adds the counters of a CPU, from their value in the map, and takes the gaps from number `from`
/// on. Gaps that are no longer there are counted in [`Activity::gaps_lost`].
///
/// # Errors
/// If the value is too short.
pub fn add_activity(
    cpu: u32,
    bytes: &[u8],
    from: u64,
    sum: &mut Volumes,
    to: &mut Activity,
) -> Result<GapSum, DecodeError> {
    let a: nd_activity = read(bytes)?;
    add(&mut sum.bounced, a.bounced.count, a.bounced.bytes);
    add(&mut sum.mapped, a.mapped.count, a.mapped.bytes);
    add(&mut sum.unmapped, a.unmapped.count, a.unmapped.bytes);
    let first = from.max(a.gaps.saturating_sub(GAPS));
    to.gaps_lost += first.saturating_sub(from);
    to.gaps.extend((first..a.gaps).map(|number| {
        let gap = &a.gap[(number % GAPS) as usize];
        Gap { cpu, begin_ns: gap.begin_ns, end_ns: gap.end_ns }
    }));
    Ok(GapSum { timed_ns: a.timed_ns, tick_ns: a.tick_ns, count: a.gaps, ns: a.gap_ns })
}

/// The name of a disk, from its key in the map.
pub fn disk_name(key: &[u8]) -> String {
    let end = key.iter().position(|b| *b == 0).unwrap_or(key.len());
    String::from_utf8_lossy(&key[..end]).into_owned()
}

/// Adds the counters on one CPU of a disk that is above NVMe, from their value in the map.
///
/// # Errors
/// If the value is too short.
pub fn add_upper(upper: &mut UpperBios, bytes: &[u8]) -> Result<(), DecodeError> {
    let disk: nd_disk = read(bytes)?;
    upper.bios += disk.requests;
    upper.sum_ns += disk.sum_ns;
    upper.max_ns = upper.max_ns.max(disk.max_ns);
    Ok(())
}

/// Adds the counters of a disk on one CPU, from their value in the map.
///
/// # Errors
/// If the value is too short.
pub fn add_disk(
    waits: &mut TagWaits,
    splits: &mut Splits,
    bytes: &[u8],
) -> Result<(), DecodeError> {
    let disk: nd_disk = read(bytes)?;
    waits.requests += disk.requests;
    waits.waited += disk.waited;
    waits.sum_ns += disk.sum_ns;
    waits.max_ns = waits.max_ns.max(disk.max_ns);
    splits.count += disk.splits;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A CPU with this many gaps; gap n begins at 10 n and ends at 10 n + 4.
    fn cpu(gaps: u64) -> Vec<u8> {
        let mut words = vec![0; ACTIVITY_BYTES / 8];
        words[0] = 2000;
        words[1] = 5;
        words[2] = gaps;
        words[3] = 4 * gaps;
        words[4..10].copy_from_slice(&[1, 100, 2, 200, 3, 300]);
        for n in 0..gaps {
            let at = 10 + 2 * (n % GAPS) as usize;
            words[at] = 10 * n;
            words[at + 1] = 10 * n + 4;
        }
        words.into_iter().flat_map(u64::to_ne_bytes).collect()
    }

    #[test]
    fn each_gap_is_taken_once_and_those_without_room_are_counted() {
        let (mut sum, mut to) = (Volumes::default(), Activity::default());
        let gaps = add_activity(3, &cpu(2), 0, &mut sum, &mut to).unwrap();
        assert_eq!((gaps.timed_ns, gaps.tick_ns), (5, 2000));
        assert_eq!((gaps.count, gaps.ns), (2, 8));
        let begins: Vec<_> = to.gaps.iter().map(|g| (g.cpu, g.begin_ns)).collect();
        assert_eq!(begins, [(3, 0), (3, 10)]);
        let (mut sum, mut to) = (Volumes::default(), Activity::default());
        add_activity(3, &cpu(100), 2, &mut sum, &mut to).unwrap();
        assert_eq!((to.gaps.len(), to.gaps_lost), (64, 34));
        assert_eq!((to.gaps[0].begin_ns, to.gaps[63].end_ns), (360, 994));
        add_activity(3, &cpu(100), 100, &mut sum, &mut to).unwrap();
        assert_eq!((to.gaps.len(), to.gaps_lost), (64, 34));
        assert_eq!(sum.unmapped.bytes, 600);
        assert_eq!(add_activity(3, &[0; 88], 0, &mut sum, &mut to), Err(DecodeError));
    }

    #[test]
    fn the_counters_of_a_disk_add_up_over_the_cpus() {
        let value = |max: u64| -> Vec<u8> {
            let words = [5, 2, 1000, max, 7];
            words.into_iter().flat_map(u64::to_ne_bytes).collect()
        };
        let (mut waits, mut splits) = (TagWaits::default(), Splits::default());
        add_disk(&mut waits, &mut splits, &value(900)).unwrap();
        add_disk(&mut waits, &mut splits, &value(300)).unwrap();
        assert_eq!((waits.requests, waits.waited), (10, 4));
        assert_eq!((waits.sum_ns, waits.max_ns), (2000, 900));
        assert_eq!(splits.count, 14);
        assert_eq!(disk_name(b"nvme0n1\0\0\0\0\0\0\0\0\0"), "nvme0n1");
        assert_eq!(disk_name(b"nvme0123456789ab"), "nvme0123456789ab");
    }
}
