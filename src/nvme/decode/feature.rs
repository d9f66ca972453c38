// SPDX-License-Identifier: MIT OR Apache-2.0
//! Fields of Set Features and Get Features in CDW11 to CDW15 (NVMe base 2.1, section 5.1.25; NVM
//! command set 1.1, section 4.1.3). Features with their value only in the data buffer (timestamp,
//! host behavior, bytes of the host identifier) have no fields here.

use super::table::{Names, Spec, code, count, flag, hex, num};
use crate::nvme::sqe::Sqe;

/// Fields of the value in Set Features.
pub(super) fn set(sqe: &Sqe) -> &'static [Spec] {
    match identifier(sqe) {
        0x01 => ARBITRATION,
        0x02 => POWER,
        0x03 => LBA_RANGES,
        0x04 => TEMPERATURE,
        0x05 => ERROR_RECOVERY,
        0x06 => WRITE_CACHE,
        0x07 => QUEUES,
        0x08 => COALESCING,
        0x09 => VECTOR,
        0x0a => ATOMICITY,
        0x0b => ASYNC_EVENT,
        0x0c => APST,
        0x0d => HOST_MEMORY,
        0x0f => KEEP_ALIVE,
        0x10 => THERMAL,
        0x11 => NON_OPERATIONAL,
        0x12 => RECOVERY_LEVEL,
        0x13 => LATENCY_CONFIG,
        0x14 => LATENCY_WINDOW,
        0x15 => LBA_STATUS,
        0x17 => SANITIZE,
        0x18 => ENDURANCE_EVENT,
        0x19 => COMMAND_SETS,
        0x1a => SPINUP,
        0x1b => POWER_LOSS,
        0x1c => PERFORMANCE,
        0x1d => FDP,
        0x1e => FDP_EVENTS,
        0x21 => DATA_QUEUE,
        0x80 => PROGRESS,
        0x81 => HOST_IDENTIFIER,
        0x82 => RESERVATION_MASK,
        0x83 => RESERVATION_PERSISTENCE,
        0x84 => WRITE_PROTECTION,
        0x85 => BOOT_PROTECTION,
        _ => DWORDS,
    }
}

/// Fields of Get Features that select one of several values of a feature.
pub(super) fn get(sqe: &Sqe) -> &'static [Spec] {
    match identifier(sqe) {
        0x04 => WHICH_TEMPERATURE,
        0x09 => WHICH_VECTOR,
        0x12..=0x14 => WHICH_NVM_SET,
        0x18 | 0x1d => WHICH_ENDURANCE_GROUP,
        0x1c => PERFORMANCE,
        0x1e => WHICH_FDP_EVENTS,
        0x21 => WHICH_DATA_QUEUE,
        0x81 => HOST_IDENTIFIER,
        _ => &[],
    }
}

fn identifier(sqe: &Sqe) -> u8 {
    sqe.cdw(10).to_le_bytes()[0]
}

/// For vendor-specific features, and features with their value in the data buffer. CDW11 is shown
/// for all features.
const DWORDS: &[Spec] = &[
    hex("cdw12", 12, 0, 32).detail(),
    hex("cdw13", 13, 0, 32).detail(),
    hex("cdw15", 15, 0, 32).detail(),
];

/// The burst is a power of two; 7 means no limit. Weights are zero-based.
const ARBITRATION: &[Spec] =
    &[num("ab", 11, 0, 3), num("lpw", 11, 8, 8), num("mpw", 11, 16, 8), num("hpw", 11, 24, 8)];

const POWER: &[Spec] = &[num("ps", 11, 0, 5), num("wh", 11, 5, 3)];

const LBA_RANGES: &[Spec] = &[count("ranges", 11, 0, 6)];

/// In kelvins.
const TEMPERATURE: &[Spec] = &[
    num("tmpth", 11, 0, 16),
    num("tmpsel", 11, 16, 4),
    code("thsel", 11, 20, 2, &THRESHOLD),
    num("tmpthh", 11, 22, 3).detail(),
];

const WHICH_TEMPERATURE: &[Spec] =
    &[num("tmpsel", 11, 16, 4), code("thsel", 11, 20, 2, &THRESHOLD)];

/// `tler` is in units of 100 ms; 0 means no limit.
const ERROR_RECOVERY: &[Spec] = &[num("tler", 11, 0, 16), num("dulbe", 11, 16, 1)];

const WRITE_CACHE: &[Spec] = &[num("wce", 11, 0, 1)];

/// NSQR and NCQR as numbers of queues. In the entry they are zero-based.
const QUEUES: &[Spec] = &[count("sqs", 11, 0, 16), count("cqs", 11, 16, 16)];

/// Aggregation: threshold in entries, zero-based, and time in units of 100 us.
const COALESCING: &[Spec] = &[num("thr", 11, 0, 8), num("time", 11, 8, 8)];

const VECTOR: &[Spec] = &[num("iv", 11, 0, 16), num("cd", 11, 16, 1)];

const WHICH_VECTOR: &[Spec] = &[num("iv", 11, 0, 16)];

const ATOMICITY: &[Spec] = &[num("dn", 11, 0, 1)];

/// `smart` has one bit for each critical warning. The other fields enable notices.
const ASYNC_EVENT: &[Spec] = &[
    hex("smart", 11, 0, 8),
    flag("nan", 11, 8),
    flag("fan", 11, 9),
    flag("tln", 11, 10),
    flag("anacn", 11, 11),
    flag("plealcn", 11, 12),
    flag("lsian", 11, 13),
    flag("egealcn", 11, 14),
    flag("nnsshdn", 11, 15),
    flag("tthry", 11, 16),
    flag("rassn", 11, 17),
    flag("rgrp0", 11, 18),
    flag("ansan", 11, 19),
    flag("zdcn", 11, 27),
    flag("pmdrlpcn", 11, 28),
    flag("adlpcn", 11, 29),
    flag("hdlpcn", 11, 30),
    flag("dlpcn", 11, 31),
];

const APST: &[Spec] = &[num("apste", 11, 0, 1)];

/// `hsize` is in memory pages of the controller. `hmdl` is the address of the descriptors.
const HOST_MEMORY: &[Spec] = &[
    num("ehm", 11, 0, 1),
    num("mr", 11, 1, 1),
    flag("hmnare", 11, 2),
    num("hsize", 12, 0, 32),
    hex("hmdl", 13, 0, 64),
    num("hmdlec", 15, 0, 32),
];

/// In milliseconds.
const KEEP_ALIVE: &[Spec] = &[num("kato", 11, 0, 32)];

/// In kelvins.
const THERMAL: &[Spec] = &[num("tmt1", 11, 16, 16), num("tmt2", 11, 0, 16)];

const NON_OPERATIONAL: &[Spec] = &[num("noppme", 11, 0, 1)];

const RECOVERY_LEVEL: &[Spec] = &[num("nvmsetid", 11, 0, 16), num("rrl", 12, 0, 4)];

const LATENCY_CONFIG: &[Spec] = &[num("nvmsetid", 11, 0, 16), num("lpe", 12, 0, 1)];

const LATENCY_WINDOW: &[Spec] = &[num("nvmsetid", 11, 0, 16), code("ws", 12, 0, 3, &WINDOW)];

const WHICH_NVM_SET: &[Spec] = &[num("nvmsetid", 11, 0, 16)];

/// In units of 100 ms.
const LBA_STATUS: &[Spec] = &[num("lsiri", 11, 0, 16), num("lsipi", 11, 16, 16)];

const SANITIZE: &[Spec] = &[num("nodrm", 11, 0, 1)];

const ENDURANCE_EVENT: &[Spec] = &[num("endgid", 11, 0, 16), hex("egcw", 11, 16, 8)];

const WHICH_ENDURANCE_GROUP: &[Spec] = &[num("endgid", 11, 0, 16)];

const COMMAND_SETS: &[Spec] = &[num("iocsci", 11, 0, 9)];

const SPINUP: &[Spec] = &[num("suce", 11, 0, 1)];

const POWER_LOSS: &[Spec] = &[code("plsm", 11, 0, 2, &POWER_LOSS_MODE)];

const PERFORMANCE: &[Spec] = &[hex("attri", 11, 0, 8), flag("rvspa", 11, 8)];

const FDP: &[Spec] = &[num("endgid", 11, 0, 16), num("fdpe", 12, 0, 1), num("fdpci", 12, 8, 8)];

const FDP_EVENTS: &[Spec] =
    &[num("phndl", 11, 0, 16), num("noet", 11, 16, 8), num("fdpee", 12, 0, 1)];

const WHICH_FDP_EVENTS: &[Spec] = &[num("phndl", 11, 0, 16), num("noet", 11, 16, 8)];

/// Head pointer, and the slot that triggers an event.
const DATA_QUEUE: &[Spec] =
    &[num("cdqid", 11, 0, 16), num("etpt", 11, 31, 1), num("hp", 12, 0, 32), num("tpt", 13, 0, 32)];

const WHICH_DATA_QUEUE: &[Spec] = &[num("cdqid", 11, 0, 16)];

const PROGRESS: &[Spec] = &[num("pbslc", 11, 0, 8)];

/// 1: the identifier has 16 bytes instead of 8.
const HOST_IDENTIFIER: &[Spec] = &[num("exhid", 11, 0, 1)];

const RESERVATION_MASK: &[Spec] =
    &[num("regpre", 11, 1, 1), num("resrel", 11, 2, 1), num("respre", 11, 3, 1)];

const RESERVATION_PERSISTENCE: &[Spec] = &[num("ptpl", 11, 0, 1)];

const WRITE_PROTECTION: &[Spec] = &[code("wps", 11, 0, 3, &PROTECTION)];

const BOOT_PROTECTION: &[Spec] =
    &[code("bp0wps", 11, 0, 3, &BOOT), code("bp1wps", 11, 3, 3, &BOOT)];

static THRESHOLD: Names = Names::new(&[(0, "over"), (1, "under")]);

static WINDOW: Names = Names::new(&[(1, "deterministic"), (2, "non-deterministic")]);

static POWER_LOSS_MODE: Names =
    Names::new(&[(0, "off"), (1, "emergency-power-fail"), (2, "forced-quiescence")]);

static PROTECTION: Names =
    Names::new(&[(0, "none"), (1, "write-protect"), (2, "until-power-cycle"), (3, "permanent")]);

static BOOT: Names = Names::new(&[
    (0, "no-change"),
    (1, "unlocked"),
    (2, "locked"),
    (3, "locked-until-power-cycle"),
    (4, "by-rpmb"),
]);
