// SPDX-License-Identifier: MIT OR Apache-2.0
//! The BPF objects contain no instruction that the oldest supported kernel rejects.

use std::fs;
use std::path::Path;

#[path = "../src/session/build_table.rs"]
#[allow(dead_code, reason = "build.rs uses the rest")]
mod build_table;

use build_table::BUILDS;

const SHF_EXECINSTR: u64 = 4;
const BPF_STX: u8 = 0x03;
const BPF_ATOMIC: u8 = 0xc0;

fn number(bytes: &[u8], at: usize, len: usize) -> u64 {
    let mut word = [0; 8];
    word[..len].copy_from_slice(&bytes[at..at + len]);
    u64::from_le_bytes(word)
}

/// The instructions of all executable sections of an ELF file (64 bits, little-endian).
fn instructions(elf: &[u8]) -> Vec<[u8; 8]> {
    let headers = number(elf, 0x28, 8) as usize;
    let (size, count) = (number(elf, 0x3a, 2) as usize, number(elf, 0x3c, 2) as usize);
    let mut all = Vec::new();
    for section in (0..count).map(|i| headers + i * size) {
        if number(elf, section + 8, 8) & SHF_EXECINSTR != 0 {
            let from = number(elf, section + 0x18, 8) as usize;
            let to = from + number(elf, section + 0x20, 8) as usize;
            let (whole, rest) = elf[from..to].as_chunks();
            assert!(rest.is_empty());
            all.extend(whole);
        }
    }
    all
}

/// Linux 5.10 has one atomic operation, an addition that returns nothing. The others (BPF_FETCH,
/// BPF_XCHG, BPF_CMPXCHG, ...) came with 5.12. Older kernels reject a program that contains one,
/// even if it is never executed.
#[test]
fn atomics_are_those_of_5_10() {
    let names = BUILDS.iter().map(|build| build.name);
    for name in names.chain(["abi", "memory", "host", "usdt"]) {
        let path = Path::new(env!("OUT_DIR")).join(format!("{name}.bpf.o.zst"));
        let code = instructions(&zstd::decode_all(fs::File::open(path).unwrap()).unwrap());
        let atomics = code.iter().filter(|i| i[0] & 0x07 == BPF_STX && i[0] & 0xe0 == BPF_ATOMIC);
        let operations: Vec<u64> = atomics.map(|i| number(i, 4, 4)).collect();
        // the reader of kernel memory counts nothing; the other has no programs
        let counts = !["memory", "abi"].contains(&name);
        assert_eq!(!operations.is_empty(), counts, "{name}");
        let others = operations.iter().filter(|&&op| op != 0).count();
        assert_eq!(others, 0, "{name}");
    }
}
