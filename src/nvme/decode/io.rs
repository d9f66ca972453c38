// SPDX-License-Identifier: MIT OR Apache-2.0
//! I/O commands of NVMe base 2.1 (section 7) and of the NVM command set (1.1, section 3.3).
//! Commands of zoned namespaces are in `zns`.

use super::table::{BLOCKS, Names, Spec, bytes, code, count, flag, hex, num};
use super::{DWORDS, Layout, zns};
use crate::nvme::sqe::Sqe;

pub(super) fn layout(sqe: &Sqe) -> Layout {
    match sqe.opcode() {
        0x00 => (&[], &[]),
        0x01 => (BLOCKS, hints(sqe, WRITE_HINTS, WRITE_EXTENSION)),
        0x02 => (BLOCKS, hints(sqe, READ_HINTS, EXTENSION)),
        0x04 => (WRITE_UNCORRECTABLE, &[]),
        0x05 | 0x0c => (BLOCKS, hints(sqe, &[], EXTENSION)),
        0x08 => (BLOCKS, hints(sqe, ZEROES, ZEROES_EXTENSION)),
        0x09 => (DATASET_MANAGEMENT, &[]),
        0x0d => (REGISTER, &[]),
        0x0e => (REPORT, &[]),
        0x11 => (ACQUIRE, &[]),
        0x12 => (IO_MGMT_RECV, &[]),
        0x15 => (RELEASE, &[]),
        0x18 => (CANCEL, &[]),
        0x19 => (COPY, &[]),
        0x1d => (IO_MGMT_SEND, &[]),
        _ => zns::layout(sqe).unwrap_or((DWORDS, &[])),
    }
}

/// Whether CDW10 to CDW12 contain a Starting LBA and a Number of Logical Blocks.
pub(super) fn has_blocks(opcode: u8) -> bool {
    matches!(opcode, 0x01 | 0x02 | 0x04 | 0x05 | 0x08 | 0x0c | 0x7d)
}

/// With a Command Extension Type, CDW13 bits 15:0 are its value instead of hints (NVM command set
/// 1.1, "Command Extension").
fn hints(sqe: &Sqe, plain: &'static [Spec], extended: &'static [Spec]) -> &'static [Spec] {
    let extension_type = sqe.cdw(12) >> 16 & 0xf;
    if extension_type == 0 { plain } else { extended }
}

/// Dataset Management of a Read: CDW13 bits 7:0.
const READ_HINTS: &[Spec] = &[
    code("freq", 13, 0, 4, &FREQUENCY).detail(),
    code("latency", 13, 4, 2, &LATENCY).detail(),
    flag("seq", 13, 6),
    flag("incompressible", 13, 7),
];

const WRITE_HINTS: &[Spec] = &[
    code("freq", 13, 0, 4, &FREQUENCY).detail(),
    code("latency", 13, 4, 2, &LATENCY).detail(),
    flag("seq", 13, 6),
    flag("incompressible", 13, 7),
    code("dtype", 12, 20, 4, &super::names::DIRECTIVE).detail(),
    hex("dspec", 13, 16, 16).detail(),
];

const EXTENSION: &[Spec] = &[hex("cev", 13, 0, 16)];

const WRITE_EXTENSION: &[Spec] = &[
    hex("cev", 13, 0, 16),
    code("dtype", 12, 20, 4, &super::names::DIRECTIVE).detail(),
    hex("dspec", 13, 16, 16).detail(),
];

/// The directive type of Write Zeroes is one bit shorter than Write's: bit 23 is Namespace
/// Zeroes.
const ZEROES: &[Spec] = &[
    flag("deac", 12, 25),
    flag("nsz", 12, 23),
    code("dtype", 12, 20, 3, &super::names::DIRECTIVE).detail(),
    hex("dspec", 13, 16, 16).detail(),
];

const ZEROES_EXTENSION: &[Spec] = &[
    hex("cev", 13, 0, 16),
    flag("deac", 12, 25),
    flag("nsz", 12, 23),
    code("dtype", 12, 20, 3, &super::names::DIRECTIVE).detail(),
    hex("dspec", 13, 16, 16).detail(),
];

const WRITE_UNCORRECTABLE: &[Spec] = &[
    num("slba", 10, 0, 64),
    num("len", 12, 0, 16),
    count("nlb", 12, 0, 16),
    code("dtype", 12, 20, 4, &super::names::DIRECTIVE).detail(),
    hex("dspec", 13, 16, 16).detail(),
];

/// `nr` and `attributes` are whole dwords, as in the kernel. The ranges are in the data buffer.
const DATASET_MANAGEMENT: &[Spec] = &[
    num("nr", 10, 0, 32),
    count("ranges", 10, 0, 8),
    num("attributes", 11, 0, 32),
    flag("ad", 11, 2),
    flag("idw", 11, 1),
    flag("idr", 11, 0),
];

/// `nr_range` is zero-based, as in the kernel. The source ranges are in the data buffer, in the
/// format `desfmt`.
const COPY: &[Spec] = &[
    num("sdlba", 10, 0, 64),
    num("nr_range", 12, 0, 8),
    count("ranges", 12, 0, 8),
    num("desfmt", 12, 8, 4),
    hex("ctrl", 12, 16, 16),
    num("dsmgmt", 13, 0, 32),
    num("reftag", 14, 0, 32),
    flag("lr", 12, 31),
    flag("fua", 12, 30),
    hex("prinfor", 12, 12, 4).detail(),
    hex("prinfow", 12, 26, 4).detail(),
    flag("stcr", 12, 25),
    flag("stcw", 12, 24),
    num("cetype", 12, 16, 4).detail(),
    code("dtype", 12, 20, 4, &super::names::DIRECTIVE).detail(),
    hex("dspec", 13, 16, 16).detail(),
    num("apptag", 15, 0, 16).detail(),
    hex("appmask", 15, 16, 16).detail(),
];

/// Reservation Register (NVMe base 2.1, section 7.6). The kernel calls CPTPL `ptpl`.
const REGISTER: &[Spec] = &[
    code("rrega", 10, 0, 3, &REGISTER_ACTION),
    num("iekey", 10, 3, 1),
    code("ptpl", 10, 30, 2, &PERSIST),
    flag("disnsrs", 10, 4),
];

const REPORT: &[Spec] =
    &[num("numd", 10, 0, 32), bytes(10, 0, 32), num("eds", 11, 0, 1), flag("disnsrs", 11, 1)];

const ACQUIRE: &[Spec] = &[
    code("racqa", 10, 0, 3, &ACQUIRE_ACTION),
    num("iekey", 10, 3, 1),
    code("rtype", 10, 8, 8, &RESERVATION),
    flag("disnsrs", 10, 4),
];

const RELEASE: &[Spec] = &[
    code("rrela", 10, 0, 3, &RELEASE_ACTION),
    num("iekey", 10, 3, 1),
    code("rtype", 10, 8, 8, &RESERVATION),
    flag("disnsrs", 10, 4),
];

/// I/O Management Receive and Send (NVMe base 2.1, sections 7.3 and 7.4).
const IO_MGMT_RECV: &[Spec] = &[
    code("mo", 10, 0, 8, &RECEIVE_OPERATION),
    hex("mos", 10, 16, 16),
    num("numd", 11, 0, 32),
    bytes(11, 0, 32),
];

const IO_MGMT_SEND: &[Spec] = &[code("mo", 10, 0, 8, &SEND_OPERATION), hex("mos", 10, 16, 16)];

/// Cancel (NVMe base 2.1, section 7.1).
const CANCEL: &[Spec] =
    &[num("sqid", 10, 0, 16), num("cid", 10, 16, 16), code("acode", 11, 0, 2, &CANCEL_ACTION)];

/// NVM command set 1.1, Read: "Access Frequency".
static FREQUENCY: Names = Names::new(&[
    (0, "none"),
    (1, "typical"),
    (2, "infrequent"),
    (3, "frequent-reads"),
    (4, "frequent-writes"),
    (5, "frequent"),
    (6, "one-time-read"),
    (7, "speculative-read"),
    (8, "overwritten-soon"),
]);

/// NVM command set 1.1, Read: "Access Latency".
static LATENCY: Names = Names::new(&[(0, "none"), (1, "idle"), (2, "normal"), (3, "low")]);

static REGISTER_ACTION: Names = Names::new(&[(0, "register"), (1, "unregister"), (2, "replace")]);

static PERSIST: Names = Names::new(&[(0, "no-change"), (2, "clear"), (3, "persist")]);

static ACQUIRE_ACTION: Names = Names::new(&[(0, "acquire"), (1, "preempt"), (2, "preempt-abort")]);

static RELEASE_ACTION: Names = Names::new(&[(0, "release"), (1, "clear")]);

/// NVMe base 2.1, "Reservation Type Encoding".
static RESERVATION: Names = Names::new(&[
    (1, "write-exclusive"),
    (2, "exclusive-access"),
    (3, "write-exclusive-registrants-only"),
    (4, "exclusive-access-registrants-only"),
    (5, "write-exclusive-all-registrants"),
    (6, "exclusive-access-all-registrants"),
]);

static RECEIVE_OPERATION: Names =
    Names::with_vendor(&[(0, "none"), (1, "reclaim-unit-handle-status")], 0xff..=0xff);

static SEND_OPERATION: Names =
    Names::with_vendor(&[(0, "none"), (1, "reclaim-unit-handle-update")], 0xff..=0xff);

static CANCEL_ACTION: Names = Names::new(&[(0, "single"), (1, "multiple")]);
