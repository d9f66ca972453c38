// SPDX-License-Identifier: MIT OR Apache-2.0
//! Fixed records as byte planes: the lowest byte of a word of all records, then the next byte of each, and so
//! on. Compression finds more in planes than in whole words. A byte that is the same in all records has no
//! plane.

use super::bytes::Cursor;
use super::error::Damage;
use super::events::BLOCK_EVENTS;

/// The word of a record that is its time. Other times come after it.
const AT: usize = 1;

/// A signed number as a small unsigned one, if it is near zero.
const fn zigzag(n: u64) -> u64 {
    n << 1 ^ ((n as i64) >> 63) as u64
}

const fn unzigzag(n: u64) -> u64 {
    n >> 1 ^ (n & 1).wrapping_neg()
}

/// The planes of these records. A time is stored as its distance from the record before, and the words
/// `times` as distances from the time of their record. Zero stays zero.
pub fn pack<const N: usize>(records: &[[u64; N]], times: &[usize]) -> Vec<u8> {
    let first = records.first().copied().unwrap_or([0; N]);
    let mut varying = [0; N];
    for record in records {
        for n in 0..N {
            varying[n] |= record[n] ^ first[n];
        }
    }
    let (mut base, mut masks) = (first, [0; N]);
    let mut out = vec![0; 8 + 9 * N];
    let mut column = Vec::with_capacity(records.len());
    for n in 0..N {
        let is_time = first[n] | varying[n] != 0 && times.contains(&n);
        if varying[n] == 0 && n != AT && !is_time {
            continue;
        }
        column.clear();
        column.extend(records.iter().map(|record| record[n]));
        if n == AT {
            let mut last_ns = first[AT];
            for at_ns in &mut column {
                let since = zigzag(at_ns.wrapping_sub(last_ns));
                (last_ns, *at_ns) = (*at_ns, since);
            }
        } else if is_time {
            for (time, record) in column.iter_mut().zip(records) {
                let distance = zigzag(record[AT].wrapping_sub(*time)).wrapping_add(1);
                *time = if *time == 0 { 0 } else { distance };
            }
        }
        base[n] = column.first().copied().unwrap_or(0);
        masks[n] = planes_of(column.iter().fold(0, |varying, word| varying | (word ^ base[n])));
        for shift in shifts(masks[n]) {
            out.extend(column.iter().map(|word| (word >> shift) as u8));
        }
    }
    let words = [first[AT]].into_iter().chain(base).flat_map(u64::to_le_bytes);
    out.iter_mut().zip(words.chain(masks)).for_each(|(to, byte)| *to = byte);
    out
}

/// The bytes of a word that are not zero, as bits.
fn planes_of(word: u64) -> u8 {
    let bytes = word.to_le_bytes().into_iter().zip(0..);
    bytes.filter(|(byte, _)| *byte != 0).map(|(_, n)| 1 << n).sum()
}

/// How far to shift for each byte.
fn shifts(planes: u8) -> impl Iterator<Item = u32> {
    (0..8).filter(move |n| planes & 1 << n != 0).map(|n| n * 8)
}

/// The inverse of [`pack`]: replaces `records` by the payload's.
///
/// # Errors
/// If the payload does not have this number of records, or if no writer makes a block of so many.
pub fn unpack<const N: usize>(
    payload: &[u8],
    count: usize,
    times: &[usize],
    records: &mut Vec<[u64; N]>,
) -> Result<(), Damage> {
    if count > BLOCK_EVENTS {
        return Err(Damage::Length);
    }
    let mut cursor = Cursor::new(payload);
    let mut at_ns = cursor.u64()?;
    let mut base = [0; N];
    for word in &mut base {
        *word = cursor.u64()?;
    }
    let planes: [u8; N] = cursor.array()?;
    records.clear();
    records.resize(count, base);
    let (mut column, mut at) = (Vec::new(), Vec::new());
    for (n, planes) in planes.into_iter().enumerate() {
        let is_time = base[n] != 0 && times.contains(&n);
        if planes == 0 && n != AT && !is_time {
            continue;
        }
        let constant = shifts(planes).fold(base[n], |word, shift| word & !(0xff << shift));
        column.clear();
        column.resize(count, constant);
        for shift in shifts(planes) {
            let plane = cursor.take(count)?;
            for (word, byte) in column.iter_mut().zip(plane) {
                *word |= u64::from(*byte) << shift;
            }
        }
        if n == AT {
            for since in &mut column {
                at_ns = at_ns.wrapping_add(unzigzag(*since));
                *since = at_ns;
            }
            at.clone_from(&column);
        } else if times.contains(&n) {
            for (distance, at_ns) in column.iter_mut().zip(&at) {
                let time = at_ns.wrapping_sub(unzigzag(distance.wrapping_sub(1)));
                *distance = if *distance == 0 { 0 } else { time };
            }
        }
        for (record, word) in records.iter_mut().zip(&column) {
            record[n] = *word;
        }
    }
    if !cursor.is_at_end() {
        return Err(Damage::Content("a block of events has bytes after its records"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::collection::vec;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn records_come_back(records in vec(any::<[u64; 4]>(), 0..50), few in vec(0_u64..3, 4)) {
            for records in [records.clone(), records.iter().map(|r| [r[0], r[1], few[2], r[3] & 0xff00]).collect()] {
                let out = pack(&records, &[2]);
                let mut got = vec![];
                prop_assert_eq!(unpack(&out, records.len(), &[2], &mut got), Ok(()));
                prop_assert_eq!(&got, &records);
                prop_assert!(unpack(&out[..out.len() - 1], records.len(), &[2], &mut got).is_err());
            }
        }

        #[test]
        fn any_payload_unpacks_or_is_refused(payload in vec(any::<u8>(), 0..300), count in 0..100_usize) {
            let _ = unpack::<4>(&payload, count, &[2, 3], &mut vec![]);
        }
    }

    #[test]
    fn bytes_that_do_not_vary_take_no_room() {
        let records: Vec<[u64; 4]> = (0..100).map(|n| [7, 1000 + n, 990 + n, n << 8]).collect();
        // the time of the first, a record, a mask for each word; the distances of times; the byte that varies
        assert_eq!(pack(&records, &[2]).len(), 8 + 32 + 4 + 100 + 100);
    }
}
