// SPDX-License-Identifier: MIT OR Apache-2.0
//! The rows of a block that is written, so that its columns need not be gathered: the values of a column
//! lie together, [`TILE`] at a time.

/// Rows of a tile.
const TILE: usize = 64;

/// The values of a column in a tile. Aligned, so that an instruction reads and combines two.
#[derive(Clone, Copy)]
#[repr(align(64))]
struct Values([u64; TILE]);

const NONE: Values = Values([0; TILE]);

/// A row that is added.
pub struct NewRow<'t, const N: usize> {
    tile: &'t mut [Values; N],
    lane: usize,
}

impl<const N: usize> NewRow<'_, N> {
    /// Sets a value.
    #[inline(always)]
    pub const fn set(&mut self, column: usize, value: u64) {
        self.tile[column].0[self.lane % TILE] = value;
    }
}

/// Rows of `N` columns.
pub struct Tiles<const N: usize> {
    /// Those after `rows` are of an earlier block.
    tiles: Vec<[Values; N]>,
    rows: usize,
}

impl<const N: usize> Tiles<N> {
    /// No row.
    pub const fn new() -> Self {
        Self { tiles: Vec::new(), rows: 0 }
    }

    /// Number of rows.
    pub const fn rows(&self) -> usize {
        self.rows
    }

    /// Forgets the rows, and keeps their memory.
    pub const fn clear(&mut self) {
        self.rows = 0;
    }

    /// Adds a row. All its values are to be set.
    #[inline(always)]
    pub fn next(&mut self) -> NewRow<'_, N> {
        let (tile, lane) = (self.rows / TILE, self.rows % TILE);
        if tile >= self.tiles.len() {
            self.grow();
        }
        self.rows += 1;
        NewRow { tile: &mut self.tiles[tile], lane }
    }

    #[cold]
    #[inline(never)]
    fn grow(&mut self) {
        self.tiles.push([NONE; N]);
    }

    /// Adds a row.
    #[inline(always)]
    pub fn push(&mut self, row: &[u64; N]) {
        let mut new = self.next();
        (0..N).for_each(|column| new.set(column, row[column]));
    }

    /// Appends a column, as [`put`](super::columns::put) does.
    pub fn put(&self, column: usize, out: &mut Vec<u8>) {
        #[cfg(target_arch = "x86_64")]
        if is_x86_feature_detected!("avx2") {
            // SAFETY: this CPU has AVX2
            return unsafe { self.put_by_avx2(column, out) };
        }
        self.put_any(column, out);
    }

    /// The same by AVX2: `record` takes a tenth fewer instructions per command.
    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx2")]
    fn put_by_avx2(&self, column: usize, out: &mut Vec<u8>) {
        self.put_any(column, out);
    }

    #[inline(always)]
    fn put_any(&self, column: usize, out: &mut Vec<u8>) {
        let (whole, rest) = self.tiles.split_at((self.rows / TILE).min(self.tiles.len()));
        let mut last = NONE;
        if let Some(tile) = rest.first() {
            let rest = self.rows % TILE;
            last.0[..rest].copy_from_slice(&tile[column].0[..rest]);
        }
        let values = || whole.iter().map(|tile| &tile[column]).chain([&last]);
        let mut all = 0;
        for values in values() {
            all |= values.0.iter().fold(0, |all, value| all | value);
        }
        let width = 8 - all.leading_zeros() as usize / 8;
        out.push(width as u8);
        out.reserve(width * self.rows + TILE);
        for plane in 0..width {
            let end = out.len() + self.rows;
            match plane {
                0 => put_plane::<0>(values(), out),
                1 => put_plane::<1>(values(), out),
                2 => put_plane::<2>(values(), out),
                3 => put_plane::<3>(values(), out),
                4 => put_plane::<4>(values(), out),
                5 => put_plane::<5>(values(), out),
                6 => put_plane::<6>(values(), out),
                _ => put_plane::<7>(values(), out),
            }
            out.truncate(end);
        }
    }
}

/// Appends byte `N` of each value.
#[inline(always)]
fn put_plane<'v, const N: usize>(values: impl Iterator<Item = &'v Values>, out: &mut Vec<u8>) {
    for values in values {
        let bytes: [u8; TILE] = std::array::from_fn(|n| (values.0[n] >> (8 * N)) as u8);
        out.extend_from_slice(&bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::super::columns::put;
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_column_is_that_of_its_values(
            blocks in prop::collection::vec(
                (prop::collection::vec(any::<u64>(), 0..200), 0_u32..64), 1..4,
            ),
        ) {
            let mut tiles = Tiles::new();
            for (values, shift) in blocks {
                let values: Vec<u64> = values.into_iter().map(|v| v >> shift).collect();
                tiles.clear();
                values.iter().for_each(|v| tiles.push(&[7, *v, !0]));
                prop_assert_eq!(tiles.rows(), values.len());
                let (mut got, mut of_any, mut want) = (vec![9], vec![9], vec![9]);
                tiles.put(1, &mut got);
                tiles.put_any(1, &mut of_any);
                put(&values, &mut want);
                prop_assert_eq!(&got, &want);
                prop_assert_eq!(of_any, want);
            }
        }
    }
}
