// SPDX-License-Identifier: MIT OR Apache-2.0
//! Admin commands: NVMe base 2.1, section 5. The values of features are decoded in `feature`.

use super::names::{CNS, CSI, DIRECTIVE, FEATURE, LOG_PAGE, SECURITY_PROTOCOL};
use super::table::{Names, Spec, bytes, code, count, flag, hex, hex_code, hex_of, num, num_of};
use super::{DWORDS, Layout, feature};
use crate::nvme::sqe::Sqe;

pub(super) fn layout(sqe: &Sqe) -> Layout {
    match sqe.opcode() {
        0x00 => (DELETE_SQ, &[]),
        0x01 => (CREATE_SQ, &[]),
        0x02 => (GET_LOG_PAGE, &[]),
        0x04 => (DELETE_CQ, &[]),
        0x05 => (CREATE_CQ, &[]),
        0x06 => (IDENTIFY, &[]),
        0x08 => (ABORT, &[]),
        0x09 => (SET_FEATURES, feature::set(sqe)),
        0x0a => (GET_FEATURES, feature::get(sqe)),
        // Asynchronous Event Request, Keep Alive
        0x0c | 0x18 => (&[], &[]),
        0x0d => (NS_MANAGEMENT, &[]),
        0x10 => (FIRMWARE_COMMIT, &[]),
        0x11 => (FIRMWARE_DOWNLOAD, &[]),
        0x14 => (SELF_TEST, &[]),
        0x15 => (NS_ATTACHMENT, &[]),
        0x19 => directive_send(sqe),
        0x1a => directive_receive(sqe),
        0x1c => (VIRTUALIZATION, &[]),
        0x1d | 0x1e => (NVME_MI, &[]),
        0x20 => (CAPACITY, &[]),
        0x21 => (DISCOVERY_INFO, &[]),
        0x24 => (LOCKDOWN, &[]),
        0x3d => (TRACK_SEND, &[]),
        0x41 => (MIGRATION_SEND, &[]),
        0x42 => (MIGRATION_RECEIVE, &[]),
        0x45 => (CONTROLLER_DATA_QUEUE, &[]),
        0x7c if sqe.prps().is_some() => (DOORBELL_BUFFER, &[]),
        0x7c => (&[], &[]),
        0x80 => (FORMAT, &[]),
        0x81 => (SECURITY_SEND, &[]),
        0x82 => (SECURITY_RECEIVE, &[]),
        0x84 => (SANITIZE, &[]),
        0x86 => (GET_LBA_STATUS, &[]),
        _ => (DWORDS, &[]),
    }
}

const DELETE_SQ: &[Spec] = &[num("sqid", 10, 0, 16)];

/// `qsize` is zero-based, as in the kernel; `entries` is not. `sq_flags` is the lower half of
/// CDW11.
const CREATE_SQ: &[Spec] = &[
    num("sqid", 10, 0, 16),
    num("qsize", 10, 16, 16),
    count("entries", 10, 16, 16),
    hex("sq_flags", 11, 0, 16),
    num("cqid", 11, 16, 16),
    num("pc", 11, 0, 1),
    code("qprio", 11, 1, 2, &PRIORITY),
    num("nvmsetid", 12, 0, 16).detail(),
];

const DELETE_CQ: &[Spec] = &[num("cqid", 10, 0, 16)];

/// `irq_vector` is the kernel's name for IV.
const CREATE_CQ: &[Spec] = &[
    num("cqid", 10, 0, 16),
    num("qsize", 10, 16, 16),
    count("entries", 10, 16, 16),
    hex("cq_flags", 11, 0, 16),
    num("irq_vector", 11, 16, 16),
    num("pc", 11, 0, 1),
    num("ien", 11, 1, 1),
];

/// NUMDL and NUMDU are adjacent, in CDW10 and CDW11.
const GET_LOG_PAGE: &[Spec] = &[
    hex_code("lid", 10, 0, 8, &LOG_PAGE),
    num("numd", 10, 16, 32),
    bytes(10, 16, 32),
    num("lpo", 12, 0, 64),
    num("rae", 10, 15, 1),
    hex("lsp", 10, 8, 7).detail(),
    num("lsi", 11, 16, 16).detail(),
    num("uidx", 14, 0, 7).detail(),
    flag("ot", 14, 23),
    code("csi", 14, 24, 8, &CSI).detail(),
];

/// `ctrlid` is the kernel's name for CNTID.
const IDENTIFY: &[Spec] = &[
    code("cns", 10, 0, 8, &CNS),
    num("ctrlid", 10, 16, 16),
    num("cnssid", 11, 0, 16).detail(),
    code("csi", 11, 24, 8, &CSI).detail(),
    num("uidx", 14, 0, 7).detail(),
];

const ABORT: &[Spec] = &[num("sqid", 10, 0, 16), num("cid", 10, 16, 16)];

/// SV is bit 31. The kernel prints bit 27, which is reserved, as `sv`.
const SET_FEATURES: &[Spec] = &[
    hex_code("fid", 10, 0, 8, &FEATURE),
    num("sv", 10, 31, 1),
    hex("cdw11", 11, 0, 32),
    num_of("uidx", set_uuid_index).detail(),
];

/// CDW14 bits 6:0; 0 for Host Memory Buffer, where CDW14 is part of the address.
fn set_uuid_index(sqe: &Sqe) -> u64 {
    let [feature, ..] = sqe.cdw(10).to_le_bytes();
    let index = u64::from(sqe.cdw(14) & 0x7f);
    if feature == 0x0d { 0 } else { index }
}

const GET_FEATURES: &[Spec] = &[
    hex_code("fid", 10, 0, 8, &FEATURE),
    hex_code("sel", 10, 8, 3, &SELECT),
    hex("cdw11", 11, 0, 32),
    num("uidx", 14, 0, 7).detail(),
];

const NS_MANAGEMENT: &[Spec] =
    &[code("sel", 10, 0, 4, &MANAGE), code("csi", 11, 24, 8, &CSI).detail()];

const NS_ATTACHMENT: &[Spec] = &[code("sel", 10, 0, 4, &ATTACH)];

/// `fs` 0: the controller chooses the slot.
const FIRMWARE_COMMIT: &[Spec] =
    &[num("fs", 10, 0, 3), code("ca", 10, 3, 3, &COMMIT), num("bpid", 10, 31, 1).detail()];

/// `ofst` is in dwords, `offset` is the same in bytes.
const FIRMWARE_DOWNLOAD: &[Spec] = &[
    num("numd", 10, 0, 32),
    bytes(10, 0, 32),
    num("ofst", 11, 0, 32),
    num_of("offset", |sqe| u64::from(sqe.cdw(11)) * 4),
];

const SELF_TEST: &[Spec] =
    &[code("stc", 10, 0, 4, &SELF_TEST_CODE), hex("dstp", 15, 0, 16).detail()];

fn directive_send(sqe: &Sqe) -> Layout {
    match directive(sqe) {
        (0, 1) => (SEND_IDENTIFY, ENABLE_DIRECTIVE),
        (0, _) => (SEND_IDENTIFY, &[]),
        (1, _) => (SEND_STREAMS, &[]),
        _ => (SEND_OTHER, &[]),
    }
}

fn directive_receive(sqe: &Sqe) -> Layout {
    match directive(sqe) {
        (0, _) => (RECEIVE_IDENTIFY, &[]),
        (1, 3) => (RECEIVE_STREAMS, ALLOCATE_STREAMS),
        (1, _) => (RECEIVE_STREAMS, &[]),
        _ => (SEND_OTHER, &[]),
    }
}

/// Directive Type and Directive Operation.
fn directive(sqe: &Sqe) -> (u8, u8) {
    let [operation, kind, ..] = sqe.cdw(11).to_le_bytes();
    (kind, operation)
}

/// The table of a Directive command. The operations depend on the type.
macro_rules! directive {
    ($operations:expr) => {
        &[
            num("numd", 10, 0, 32),
            bytes(10, 0, 32),
            code("dtype", 11, 8, 8, &DIRECTIVE),
            code("doper", 11, 0, 8, &$operations),
            hex("dspec", 11, 16, 16),
        ]
    };
}

const SEND_IDENTIFY: &[Spec] = directive!(IDENTIFY_SEND);
const SEND_STREAMS: &[Spec] = directive!(STREAMS_SEND);
const SEND_OTHER: &[Spec] = directive!(NO_OPERATION);
const RECEIVE_IDENTIFY: &[Spec] = directive!(IDENTIFY_RECEIVE);
const RECEIVE_STREAMS: &[Spec] = directive!(STREAMS_RECEIVE);

/// The directive, and whether to enable it.
const ENABLE_DIRECTIVE: &[Spec] = &[code("tdtype", 12, 8, 8, &DIRECTIVE), num("endir", 12, 0, 1)];

/// Namespace Streams Requested.
const ALLOCATE_STREAMS: &[Spec] = &[num("nsr", 12, 0, 16)];

const VIRTUALIZATION: &[Spec] = &[
    code("act", 10, 0, 4, &VIRTUALIZE),
    code("rt", 10, 8, 3, &RESOURCE),
    num("cntlid", 10, 16, 16),
    num("nr", 11, 0, 16),
];

/// NVMe-MI 1.2, section 6 (in-band): NMIMT of the message header, then the management opcode and
/// its two dwords, which are specific to the opcode.
const NVME_MI: &[Spec] = &[
    num("nmimt", 10, 11, 4),
    hex("mi_opcode", 11, 0, 8),
    hex("nmd0", 12, 0, 32),
    hex("nmd1", 13, 0, 32),
];

/// `cap` is in bytes.
const CAPACITY: &[Spec] =
    &[code("oper", 10, 0, 4, &CAPACITY_OPERATION), num("elid", 10, 16, 16), num("cap", 11, 0, 64)];

const DISCOVERY_INFO: &[Spec] = &[code("tas", 10, 0, 4, &DISCOVERY_TASK)];

const LOCKDOWN: &[Spec] = &[
    code("scp", 10, 0, 4, &LOCKDOWN_SCOPE),
    num("prhbt", 10, 4, 1),
    code("ifc", 10, 5, 2, &LOCKDOWN_INTERFACE),
    hex("ofi", 10, 8, 8),
    num("uidx", 14, 0, 7).detail(),
];

/// Live migration (NVMe base 2.1, section 8.1.12).
const TRACK_SEND: &[Spec] =
    &[code("sel", 10, 0, 8, &TRACK), hex("mos", 10, 16, 16), num("cdqid", 11, 0, 16)];

/// CDW11 bits 31:16 depend on `sel`: the type of suspend, or the format of the state.
const MIGRATION_SEND: &[Spec] = &[
    code("sel", 10, 0, 8, &MIGRATE),
    hex("mos", 10, 16, 16),
    num("cntlid", 11, 0, 16),
    hex("how", 11, 16, 16),
    num("offset", 12, 0, 64),
    num("uidx", 14, 0, 7).detail(),
    num("numd", 15, 0, 32),
];

const MIGRATION_RECEIVE: &[Spec] = &[
    code("sel", 10, 0, 8, &MIGRATE_RECEIVE),
    hex("mos", 10, 16, 16),
    num("cntlid", 11, 0, 16),
    hex("format", 11, 16, 16),
    num("offset", 12, 0, 64),
    num("uidx", 14, 0, 7).detail(),
    num("numd", 15, 0, 32),
    bytes(15, 0, 32),
];

/// CDW11 contains two identifiers for create, one for delete.
const CONTROLLER_DATA_QUEUE: &[Spec] = &[
    code("sel", 10, 0, 8, &DATA_QUEUE),
    hex("mos", 10, 16, 16),
    hex("cdw11", 11, 0, 32),
    num("cdqsize", 12, 0, 32),
];

/// Doorbell Buffer Config: the addresses of the shadow doorbells and of the event indices.
const DOORBELL_BUFFER: &[Spec] = &[
    hex_of("prp1", |sqe| sqe.prps().map_or(0, |prps| prps.0)),
    hex_of("prp2", |sqe| sqe.prps().map_or(0, |prps| prps.1)),
];

/// NVM command set 1.1, section 4.1.2 with NVMe base 2.1, section 5.1.10: LBAFU above LBAFL.
const FORMAT: &[Spec] = &[
    num_of("lbaf", |sqe| u64::from(sqe.cdw(10) & 0xf | sqe.cdw(10) >> 8 & 0x30)),
    code("mset", 10, 4, 1, &METADATA),
    code("pi", 10, 5, 3, &PROTECTION),
    code("pil", 10, 8, 1, &PROTECTION_LOCATION),
    code("ses", 10, 9, 3, &ERASE),
];

const SECURITY_SEND: &[Spec] = &[
    hex_code("secp", 10, 24, 8, &SECURITY_PROTOCOL),
    hex("spsp0", 10, 8, 8),
    hex("spsp1", 10, 16, 8),
    hex("nssf", 10, 0, 8),
    num("tl", 11, 0, 32),
];

const SECURITY_RECEIVE: &[Spec] = &[
    hex_code("secp", 10, 24, 8, &SECURITY_PROTOCOL),
    hex("spsp0", 10, 8, 8),
    hex("spsp1", 10, 16, 8),
    hex("nssf", 10, 0, 8),
    num("al", 11, 0, 32),
];

/// `owpass` 0 means 16 passes.
const SANITIZE: &[Spec] = &[
    code("sanact", 10, 0, 3, &SANITIZE_ACTION),
    num("ause", 10, 3, 1),
    num("owpass", 10, 4, 4),
    num("oipbp", 10, 8, 1),
    num("nodas", 10, 9, 1),
    num("emvs", 10, 10, 1).detail(),
    hex("ovrpat", 11, 0, 32),
];

/// NVM command set 1.1, section 4.2.1. `mndw` is zero-based.
const GET_LBA_STATUS: &[Spec] = &[
    hex("slba", 10, 0, 64),
    hex("mndw", 12, 0, 32),
    bytes(12, 0, 32),
    hex("rl", 13, 0, 16),
    code("atype", 13, 24, 8, &LBA_STATUS),
];

static PRIORITY: Names = Names::new(&[(0, "urgent"), (1, "high"), (2, "medium"), (3, "low")]);

static SELECT: Names =
    Names::new(&[(0, "current"), (1, "default"), (2, "saved"), (3, "capabilities")]);

static MANAGE: Names = Names::new(&[(0, "create"), (1, "delete")]);

static ATTACH: Names = Names::new(&[(0, "attach"), (1, "detach")]);

/// Firmware Commit, "Commit Action".
static COMMIT: Names = Names::new(&[
    (0, "replace"),
    (1, "replace-activate-at-reset"),
    (2, "activate-at-reset"),
    (3, "activate-now"),
    (6, "replace-boot-partition"),
    (7, "activate-boot-partition"),
]);

static SELF_TEST_CODE: Names = Names::new(&[
    (0x1, "short"),
    (0x2, "extended"),
    (0x3, "host-initiated-refresh"),
    (0xe, "vendor-specific"),
    (0xf, "abort"),
]);

static IDENTIFY_SEND: Names = Names::new(&[(1, "enable-directive")]);
static STREAMS_SEND: Names = Names::new(&[(1, "release-identifier"), (2, "release-resources")]);
static IDENTIFY_RECEIVE: Names = Names::new(&[(1, "return-parameters")]);
static STREAMS_RECEIVE: Names =
    Names::new(&[(1, "return-parameters"), (2, "get-status"), (3, "allocate-resources")]);
static NO_OPERATION: Names = Names::new(&[]);

static VIRTUALIZE: Names = Names::new(&[
    (1, "primary-flexible-allocation"),
    (7, "secondary-offline"),
    (8, "secondary-assign"),
    (9, "secondary-online"),
]);

static RESOURCE: Names = Names::new(&[(0, "vq"), (1, "vi")]);

static CAPACITY_OPERATION: Names = Names::new(&[
    (0, "select-configuration"),
    (1, "create-endurance-group"),
    (2, "delete-endurance-group"),
    (3, "create-nvm-set"),
    (4, "delete-nvm-set"),
]);

static DISCOVERY_TASK: Names = Names::new(&[(0, "register"), (1, "deregister"), (2, "update")]);

static LOCKDOWN_SCOPE: Names =
    Names::new(&[(0, "admin-opcode"), (2, "feature"), (3, "nvme-mi-opcode"), (4, "pcie-opcode")]);

static LOCKDOWN_INTERFACE: Names =
    Names::new(&[(0, "admin-queue"), (1, "admin-queue-and-out-of-band"), (2, "out-of-band")]);

static TRACK: Names = Names::new(&[(0, "log-user-data-changes"), (1, "track-memory-changes")]);

static MIGRATE: Names = Names::new(&[(0, "suspend"), (1, "resume"), (2, "set-state")]);

static MIGRATE_RECEIVE: Names = Names::new(&[(0, "get-state")]);

static DATA_QUEUE: Names = Names::new(&[(0, "create"), (1, "delete")]);

static METADATA: Names = Names::new(&[(0, "separate"), (1, "extended")]);

static PROTECTION: Names = Names::new(&[(0, "none"), (1, "type1"), (2, "type2"), (3, "type3")]);

static PROTECTION_LOCATION: Names = Names::new(&[(0, "last"), (1, "first")]);

static ERASE: Names = Names::new(&[(0, "none"), (1, "user-data"), (2, "crypto")]);

static SANITIZE_ACTION: Names = Names::new(&[
    (1, "exit-failure-mode"),
    (2, "block-erase"),
    (3, "overwrite"),
    (4, "crypto-erase"),
    (5, "exit-media-verification"),
]);

static LBA_STATUS: Names =
    Names::new(&[(0x02, "allocated"), (0x10, "untracked-scan"), (0x11, "tracked")]);
