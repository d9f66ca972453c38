// SPDX-License-Identifier: MIT OR Apache-2.0
//! A quick test of names of BTF types: most types of a kernel are none of those that are looked for.

/// A set of hashes of kinds and first bytes of names. A type whose hash is not in it has none of the names.
pub struct Filter(Box<[bool; 4096]>);

impl Filter {
    pub fn of<'n>(names: impl Iterator<Item = (u32, &'n str)>) -> Self {
        let mut hashes = Box::new([false; 4096]);
        for (kind, name) in names {
            hashes[Self::hash(kind, name.as_bytes())] = true;
        }
        Self(hashes)
    }

    /// Of the first four bytes of a name, or those before its end.
    fn hash(kind: u32, name: &[u8]) -> usize {
        let head = name.first_chunk().copied().unwrap_or_else(|| {
            let mut head = [0; 4];
            head[..name.len()].copy_from_slice(name);
            head
        });
        let head = u32::from_le_bytes(head);
        // the lowest bit that is set is the highest of the first byte that is 0
        let ends = head.wrapping_sub(0x0101_0101) & !head & 0x8080_8080;
        let head = match ends.trailing_zeros() {
            32 => head,
            end => head & ((1 << (end - 7)) - 1),
        };
        (head.wrapping_mul(0x9e37_79b1).wrapping_add(kind << 27) >> 20) as usize
    }

    /// Whether a type of this kind can have one of the names. `text` begins with its name.
    pub fn passes(&self, kind: u32, text: &[u8]) -> bool {
        self.0[Self::hash(kind, text)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_passes_by_its_kind_and_first_bytes() {
        let filter = Filter::of([(4, "bio"), (12, "nvme_setup_cmd")].into_iter());
        assert!(filter.passes(4, b"bio\0x"));
        assert!(filter.passes(12, b"nvme_setup_cmd\0"));
        assert!(!filter.passes(4, b"bios\0"));
        assert!(!filter.passes(12, b"bio\0"));
    }
}
