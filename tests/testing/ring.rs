// SPDX-License-Identifier: MIT OR Apache-2.0
//! Records of a ring in a file, as the BPF side writes them (bpf/include/abi.h).

use std::fs;
use std::fs::File;
use std::path::Path;

/// Makes a file of these records, each after its length.
pub fn ring_of<'r>(path: &Path, records: impl Iterator<Item = &'r [u8]>) -> File {
    let mut bytes = vec![];
    for record in records {
        bytes.extend((record.len() as u64).to_ne_bytes());
        bytes.extend(record);
    }
    fs::write(path, bytes).unwrap();
    File::open(path).unwrap()
}

/// Read `n` of 4 KiB somewhere on a disk, by a thread of process 777 (struct nd_pair), with the points
/// of the basic stages. They complete nearly in order.
pub fn read_record(n: u64) -> Vec<u8> {
    // as good as random, so that it compresses like a real load
    let ns = 1_000_000_000 + n * 10_000 + (n.wrapping_mul(0x9e37_79b9) >> 5 & 0x1fff);
    let mixed = (ns ^ ns >> 29).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 20;
    let setup_out = ns - 100_000 - (mixed & 0xffff);
    let cpu = n & 1;
    let mut bytes = vec![0; 184];
    let mut word = |at: usize, value: u64| {
        bytes[at..at + 8].copy_from_slice(&value.to_ne_bytes());
    };
    // kind pair, I/O queue, opcode read, qid, cid
    word(0, 4 | 2 << 16 | (cpu + 1) << 32 | (mixed & 0x3ff) << 48);
    word(8, ns);
    word(16, 0x29 << 16 | 1 << 32); // controller 0, start, doorbell and CQE observed, namespace 1
    word(40, 1 << 48 | cpu << 32); // status 0, outcome known
    word(48, setup_out);
    word(64, mixed >> 16 & 0x3fff_fff8); // slba
    word(72, 7); // nlb
    word(88, u64::from_le_bytes(*b"fio\0\0\0\0\0"));
    word(104, (800 + cpu) << 32 | 777);
    word(112, 4096 << 32 | 1);
    word(120, 3 << 32 | cpu << 16); // bytes and submitter are known
    word(128, setup_out - 2000 - (mixed >> 20 & 0xfff));
    word(152, setup_out + 2000 + (mixed >> 24 & 0x3ff));
    word(168, ns - 15_000 - (mixed >> 16 & 0xfff));
    bytes
}
