// SPDX-License-Identifier: MIT OR Apache-2.0
//! Columns of numbers. A column is a byte that is its width in bytes (0 to 8), and its values as byte
//! planes: the lowest byte of each value, then the next byte of each, and so on. Compression finds
//! more in planes than in whole values. Width 0: all values are zero.

use std::array;

use super::bytes::Cursor;
use super::error::Damage;

/// Appends a column.
pub fn put(values: &[u64], out: &mut Vec<u8>) {
    let all = values.iter().fold(0, |all, v| all | v);
    let width = (8 - all.leading_zeros() / 8) as u8;
    out.push(width);
    let begin = out.len();
    out.resize(begin + usize::from(width) * values.len(), 0);
    let planes = out[begin..].chunks_exact_mut(values.len().max(1));
    for (plane, shift) in planes.zip((0..64).step_by(8)) {
        for (byte, value) in plane.iter_mut().zip(values) {
            *byte = (value >> shift) as u8;
        }
    }
}

/// Reads a column into number `column` of each row, which is zero.
///
/// # Errors
/// If the width is not 0 to 8, or bytes are missing.
pub fn get<const N: usize>(
    cursor: &mut Cursor<'_>,
    column: usize,
    to: &mut [[u64; N]],
) -> Result<(), Damage> {
    let width = cursor.u8()?;
    if width > 8 {
        return Err(Damage::Content("a column is wider than eight bytes"));
    }
    let planes = cursor.take(usize::from(width) * to.len())?;
    match width {
        0 => {}
        1 => join::<1, N>(planes, column, to),
        2 => join::<2, N>(planes, column, to),
        3 => join::<3, N>(planes, column, to),
        4 => join::<4, N>(planes, column, to),
        5 => join::<5, N>(planes, column, to),
        6 => join::<6, N>(planes, column, to),
        7 => join::<7, N>(planes, column, to),
        _ => join::<8, N>(planes, column, to),
    }
    Ok(())
}

/// Joins the bytes of `W` planes, all of one value at a time.
fn join<const W: usize, const N: usize>(planes: &[u8], column: usize, to: &mut [[u64; N]]) {
    let rows = to.len();
    let planes: [&[u8]; W] = array::from_fn(|n| &planes[n * rows..(n + 1) * rows]);
    for (n, row) in to.iter_mut().enumerate() {
        let bytes = planes.iter().zip((0..64).step_by(8));
        row[column] = bytes.fold(0, |value, (plane, shift)| value | u64::from(plane[n]) << shift);
    }
}

/// Maps small negative and positive differences to small numbers.
pub const fn zigzag(difference: u64) -> u64 {
    (difference << 1) ^ ((difference as i64 >> 63) as u64)
}

/// The inverse of [`zigzag`].
pub const fn unzigzag(value: u64) -> u64 {
    (value >> 1) ^ (value & 1).wrapping_neg()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_column_comes_back(
            values in prop::collection::vec(any::<u64>(), 0..50), shift in 0_u32..64,
        ) {
            let values: Vec<u64> = values.into_iter().map(|v| v >> shift).collect();
            let mut bytes = vec![];
            put(&values, &mut bytes);
            let width = values.iter().map(|v| 8 - v.leading_zeros() / 8).max().unwrap_or(0);
            prop_assert_eq!(bytes.len(), 1 + width as usize * values.len());
            let mut back = vec![[7, 0, 7]; values.len()];
            let mut cursor = Cursor::new(&bytes);
            get(&mut cursor, 1, &mut back).unwrap();
            prop_assert_eq!(back, values.iter().map(|v| [7, *v, 7]).collect::<Vec<_>>());
            prop_assert!(cursor.is_at_end());
        }

        #[test]
        fn a_difference_comes_back(n: u64) {
            prop_assert_eq!(unzigzag(zigzag(n)), n);
        }
    }

    #[test]
    fn small_differences_are_small_numbers() {
        assert_eq!([0, 1_u64.wrapping_neg(), 1, 2].map(zigzag), [0, 1, 2, 4]);
    }

    #[test]
    fn a_column_that_lacks_bytes_is_damage() {
        let mut to = [[0]; 2];
        assert!(get(&mut Cursor::new(&[2, 1, 1, 1]), 0, &mut to).is_err());
        assert!(get(&mut Cursor::new(&[9]), 0, &mut to).is_err());
        assert!(get(&mut Cursor::new(&[]), 0, &mut to).is_err());
    }
}
