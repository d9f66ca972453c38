// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reading and writing little-endian numbers. Reading is bounded by the bytes that are there.

use super::error::Damage;

/// Bytes to read from.
#[derive(Debug)]
pub struct Cursor<'a> {
    left: &'a [u8],
}

macro_rules! numbers {
    ($($name:ident)*) => {$(
        /// Reads a number.
        ///
        /// # Errors
        /// If bytes are missing.
        pub fn $name(&mut self) -> Result<$name, Damage> {
            let bytes = self.left.split_first_chunk().ok_or(Damage::Short)?;
            self.left = bytes.1;
            Ok($name::from_le_bytes(*bytes.0))
        }
    )*};
}

impl<'a> Cursor<'a> {
    /// Reads from the first of these bytes.
    pub const fn new(bytes: &'a [u8]) -> Self {
        Self { left: bytes }
    }

    numbers!(u8 u16 u32 u64);

    /// Reads this many bytes.
    ///
    /// # Errors
    /// If bytes are missing.
    pub fn take(&mut self, n: usize) -> Result<&'a [u8], Damage> {
        let (taken, left) = self.left.split_at_checked(n).ok_or(Damage::Short)?;
        self.left = left;
        Ok(taken)
    }

    /// Reads an array of bytes.
    ///
    /// # Errors
    /// If bytes are missing.
    pub fn array<const N: usize>(&mut self) -> Result<[u8; N], Damage> {
        let (taken, left) = self.left.split_first_chunk().ok_or(Damage::Short)?;
        self.left = left;
        Ok(*taken)
    }

    /// Whether all bytes are read.
    pub const fn is_at_end(&self) -> bool {
        self.left.is_empty()
    }
}
