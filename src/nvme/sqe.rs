// SPDX-License-Identifier: MIT OR Apache-2.0
//! A submission queue entry: all 64 bytes, or only the parts that a trace captures.
//!
//! Layout: NVMe base 2.1, "Submission Queue Entry" (section 4.1). It is little-endian in host
//! memory on every architecture. The meaning of the dwords of each command is in
//! [`decode`](super::decode).

/// The parts of an entry in the kernel's tracepoint `nvme_setup_cmd`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Parts {
    /// CDW0 bits 7:0.
    pub opcode: u8,
    /// CDW0 bits 15:8: FUSE and PSDT.
    pub flags: u8,
    /// CDW0 bits 31:16. For PCI, Linux keeps a generation in bits 15:12 of it, and the tag below.
    pub cid: u16,
    /// CDW1. For a Fabrics command the lowest byte is its type, not a namespace.
    pub nsid: u32,
    /// The request has metadata (`metadata` of the tracepoint; not a dword of the entry).
    pub metadata: bool,
    /// CDW10 to CDW15: the 24 bytes that the tracepoint calls `cdw10`.
    pub cdw: [u32; 6],
}

/// A submission queue entry. If it was made from [`Parts`], all other dwords are zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Sqe {
    words: [u32; 16],
    metadata: bool,
    whole: bool,
    /// CDW10 to CDW15 are not known.
    bare: bool,
}

impl From<Parts> for Sqe {
    fn from(parts: Parts) -> Self {
        let Parts { opcode, flags, cid, nsid, metadata, cdw } = parts;
        let mut words = [0; 16];
        words[0] = u32::from(opcode) | u32::from(flags) << 8 | u32::from(cid) << 16;
        words[1] = nsid;
        words[10..].copy_from_slice(&cdw);
        Self { words, metadata, whole: false, bare: false }
    }
}

impl From<&[u8; 64]> for Sqe {
    fn from(bytes: &[u8; 64]) -> Self {
        let mut words = [0; 16];
        for (word, four) in words.iter_mut().zip(bytes.as_chunks().0) {
            *word = u32::from_le_bytes(*four);
        }
        Self { words, metadata: words[4] != 0 || words[5] != 0, whole: true, bare: false }
    }
}

impl Sqe {
    /// The same of a source that does not have CDW10 to CDW15. They read as zero, and mean nothing.
    #[must_use]
    pub fn without_dwords(mut self) -> Self {
        self.words[10..].fill(0);
        self.bare = true;
        self
    }

    /// The parts that a trace captures.
    #[must_use]
    pub fn parts(&self) -> Parts {
        Parts {
            opcode: self.opcode(),
            flags: self.flags(),
            cid: self.cid(),
            nsid: self.nsid(),
            metadata: self.metadata,
            cdw: [10, 11, 12, 13, 14, 15].map(|n| self.cdw(n)),
        }
    }

    /// Whether CDW10 to CDW15 are known.
    #[must_use]
    pub const fn has_dwords(&self) -> bool {
        !self.bare
    }

    /// One dword, `CDW0` to `CDW15`; zero for any other number.
    #[must_use]
    pub fn cdw(&self, n: usize) -> u32 {
        self.words.get(n).copied().unwrap_or(0)
    }

    /// `CDWn` in the lower half and `CDWn+1` in the upper half, the layout of a 64-bit field.
    #[must_use]
    pub fn pair(&self, n: usize) -> u64 {
        u64::from(self.cdw(n)) | u64::from(self.cdw(n.saturating_add(1))) << 32
    }

    /// The opcode: CDW0 bits 7:0.
    #[must_use]
    pub fn opcode(&self) -> u8 {
        self.byte(0)
    }

    /// FUSE, PSDT and the reserved bits between them: CDW0 bits 15:8, the kernel's `flags`.
    #[must_use]
    pub fn flags(&self) -> u8 {
        self.byte(1)
    }

    /// The command identifier: CDW0 bits 31:16.
    #[must_use]
    pub fn cid(&self) -> u16 {
        let [.., low, high] = self.cdw(0).to_le_bytes();
        u16::from_le_bytes([low, high])
    }

    /// CDW1: the namespace identifier. For a Fabrics command its lowest byte is
    /// [`fctype`](Self::fctype).
    #[must_use]
    pub fn nsid(&self) -> u32 {
        self.cdw(1)
    }

    /// Fabrics Command Type: byte 4 (NVMe base 2.1, section 6). Valid for opcode 7Fh only.
    #[must_use]
    pub fn fctype(&self) -> u8 {
        self.cdw(1).to_le_bytes()[0]
    }

    /// Whether the command has metadata: the flag of [`Parts`], or for a whole entry, MPTR is not
    /// zero.
    #[must_use]
    pub fn metadata(&self) -> bool {
        self.metadata
    }

    /// PRP1 and PRP2 (CDW6 to CDW9); `None` if the entry was made from [`Parts`].
    #[must_use]
    pub fn prps(&self) -> Option<(u64, u64)> {
        self.whole.then(|| (self.pair(6), self.pair(8)))
    }

    /// CDW10 and CDW11 as a Starting LBA. [`decode::blocks`](super::decode::blocks) returns it only
    /// for the commands that have one.
    #[must_use]
    pub fn slba(&self) -> u64 {
        self.pair(10)
    }

    /// CDW12 bits 15:0 as the Number of Logical Blocks, which is zero-based in the entry: 1 to
    /// 65536.
    #[must_use]
    pub fn nlb(&self) -> u32 {
        (self.cdw(12) & 0xffff) + 1
    }

    fn byte(&self, n: usize) -> u8 {
        self.words[0].to_le_bytes()[n]
    }
}
