// SPDX-License-Identifier: MIT OR Apache-2.0
//! Decoding of random commands: every field that the kernel prints exists and has the kernel's
//! value.

use nvme_deep::nvme::decode::{CommandSet, Field, fields};
use nvme_deep::nvme::opcode::QueueKind;
use nvme_deep::nvme::opcode::QueueKind::{Admin, Io};
use nvme_deep::nvme::sqe::{Parts, Sqe};
use proptest::prelude::*;

fn sqe(opcode: u8, nsid: u32, cdw: [u32; 6]) -> Sqe {
    Sqe::from(Parts { opcode, nsid, cdw, ..Parts::default() })
}

/// A field that the kernel prints: name, offset of its first byte from CDW10, number of bytes,
/// lowest bit, mask.
type Printed = (&'static str, usize, usize, u32, u64);
const ALL: u64 = u64::MAX;

/// nvme_trace_read_write() of trace.c.
const READ_WRITE: &[Printed] = &[
    ("slba", 0, 8, 0, ALL),
    ("len", 8, 2, 0, ALL),
    ("ctrl", 10, 2, 0, ALL),
    ("dsmgmt", 12, 4, 0, ALL),
    ("reftag", 16, 4, 0, ALL),
];
const AUTHENTICATION: [Printed; 3] =
    [("spsp0", 1, 1, 0, ALL), ("spsp1", 2, 1, 0, ALL), ("secp", 3, 1, 0, ALL)];

/// The fields that drivers/nvme/host/trace.c of Linux prints by name, by queue, opcode and Fabrics
/// type. Three differ from the kernel: `sv` is the bit that the specification gives, and `all` and
/// `pr` exclude the reserved bits beside them.
#[rustfmt::skip]
const KERNEL: &[(QueueKind, u8, u32, &[Printed])] = &[
    (Io, 0x01, 0, READ_WRITE), (Io, 0x02, 0, READ_WRITE),
    (Io, 0x08, 0, READ_WRITE), (Io, 0x7d, 0, READ_WRITE),
    (Io, 0x09, 0, &[("nr", 0, 4, 0, ALL), ("attributes", 4, 4, 0, ALL)]),
    (Io, 0x19, 0, &[("sdlba", 0, 8, 0, ALL), ("nr_range", 8, 1, 0, ALL), ("ctrl", 10, 2, 0, ALL),
        ("dsmgmt", 12, 4, 0, ALL), ("reftag", 16, 4, 0, ALL)]),
    (Io, 0x79, 0, &[("slba", 0, 8, 0, ALL), ("zsa", 12, 1, 0, ALL), ("all", 13, 1, 0, 1)]),
    (Io, 0x7a, 0, &[("slba", 0, 8, 0, ALL), ("numd", 8, 4, 0, ALL), ("zra", 12, 1, 0, ALL),
        ("zrasf", 13, 1, 0, ALL), ("pr", 14, 1, 0, 1)]),
    (Io, 0x0d, 0, &[("rrega", 0, 1, 0, 7), ("iekey", 0, 1, 3, 1), ("ptpl", 3, 1, 6, 3)]),
    (Io, 0x11, 0, &[("racqa", 0, 1, 0, 7), ("iekey", 0, 1, 3, 1), ("rtype", 1, 1, 0, ALL)]),
    (Io, 0x15, 0, &[("rrela", 0, 1, 0, 7), ("iekey", 0, 1, 3, 1), ("rtype", 1, 1, 0, ALL)]),
    (Io, 0x0e, 0, &[("numd", 0, 4, 0, ALL), ("eds", 4, 1, 0, 1)]),
    (Admin, 0x00, 0, &[("sqid", 0, 2, 0, ALL)]),
    (Admin, 0x01, 0, &[("sqid", 0, 2, 0, ALL), ("qsize", 2, 2, 0, ALL), ("sq_flags", 4, 2, 0, ALL),
        ("cqid", 6, 2, 0, ALL)]),
    (Admin, 0x04, 0, &[("cqid", 0, 2, 0, ALL)]),
    (Admin, 0x05, 0, &[("cqid", 0, 2, 0, ALL), ("qsize", 2, 2, 0, ALL), ("cq_flags", 4, 2, 0, ALL),
        ("irq_vector", 6, 2, 0, ALL)]),
    (Admin, 0x06, 0, &[("cns", 0, 1, 0, ALL), ("ctrlid", 2, 2, 0, ALL)]),
    (Admin, 0x09, 0, &[("fid", 0, 1, 0, ALL), ("sv", 3, 1, 7, 1), ("cdw11", 4, 4, 0, ALL)]),
    (Admin, 0x0a, 0, &[("fid", 0, 1, 0, ALL), ("sel", 1, 1, 0, 7), ("cdw11", 4, 4, 0, ALL)]),
    (Admin, 0x86, 0, &[("slba", 0, 8, 0, ALL), ("mndw", 8, 4, 0, ALL), ("rl", 12, 2, 0, ALL),
        ("atype", 15, 1, 0, ALL)]),
    (Admin, 0x80, 0, &[("mset", 0, 1, 4, 1), ("pi", 0, 1, 5, 7), ("pil", 1, 1, 0, 1),
        ("ses", 1, 1, 1, 7)]),
    (Io, 0x7f, 0x00, &[("attrib", 0, 1, 0, ALL), ("ofst", 4, 4, 0, ALL), ("value", 8, 8, 0, ALL)]),
    (Admin, 0x7f, 0x01, &[("recfmt", 0, 2, 0, ALL), ("qid", 2, 2, 0, ALL), ("sqsize", 4, 2, 0, ALL),
        ("cattr", 6, 1, 0, ALL), ("kato", 8, 4, 0, ALL)]),
    (Admin, 0x7f, 0x04, &[("attrib", 0, 1, 0, ALL), ("ofst", 4, 4, 0, ALL)]),
    (Io, 0x7f, 0x05, &AUTHENTICATION), (Io, 0x7f, 0x05, &[("tl", 4, 4, 0, ALL)]),
    (Io, 0x7f, 0x06, &AUTHENTICATION), (Io, 0x7f, 0x06, &[("al", 4, 4, 0, ALL)]),
];

fn printed(bytes: &[u8], (_, at, count, low, mask): &Printed) -> u64 {
    let mut eight = [0; 8];
    eight[..*count].copy_from_slice(&bytes[*at..at + count]);
    u64::from_le_bytes(eight) >> low & mask
}

proptest! {
    #[test]
    fn what_the_kernel_prints_is_there_under_its_name(bytes in any::<[u8; 24]>()) {
        let mut cdw = [0; 6];
        for (word, four) in cdw.iter_mut().zip(bytes.chunks_exact(4)) {
            *word = u32::from_le_bytes(four.try_into().unwrap());
        }
        for &(queue, opcode, fctype, names) in KERNEL {
            let sqe = sqe(opcode, fctype, cdw);
            let all: Vec<Field> = fields(queue, CommandSet::Nvm, &sqe).collect();
            for field in names {
                let ours = all.iter().find(|f| f.key == field.0);
                prop_assert!(ours.is_some_and(Field::shown), "{opcode:#x}: no {}", field.0);
                prop_assert_eq!(ours.unwrap().value.number(), printed(&bytes, field), "{}", field.0);
            }
        }
        // LBAF has two parts
        let format = sqe(0x80, 0, cdw);
        let lbaf = u64::from(bytes[1] & 0x30 | bytes[0] & 0xf);
        prop_assert_eq!(fields(Admin, CommandSet::Nvm, &format).next().unwrap().value.number(), lbaf);
    }
}
