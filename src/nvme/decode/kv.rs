// SPDX-License-Identifier: MIT OR Apache-2.0
//! Commands of the Key Value command set (1.1, section 3). Two use the opcodes of Write and Read of
//! the NVM command set; three have opcodes that the NVM command set does not use. The key, up to 16
//! bytes in CDW2, CDW3, CDW14 and CDW15, is not shown: it is user data, and CDW2 and CDW3 are not
//! captured.

use super::Layout;
use super::table::{Spec, hex, num};
use crate::nvme::sqe::Sqe;

pub(super) fn layout(sqe: &Sqe) -> Option<Layout> {
    match sqe.opcode() {
        0x01 => Some((STORE, &[])),
        0x02 | 0x06 => Some((RETRIEVE, &[])),
        0x10 | 0x14 => Some((KEY, &[])),
        _ => None,
    }
}

pub(super) fn name(sqe: &Sqe) -> Option<&'static str> {
    match sqe.opcode() {
        0x01 => Some("kv-store"),
        0x02 => Some("kv-retrieve"),
        _ => None,
    }
}

const STORE: &[Spec] = &[num("vsize", 10, 0, 32), num("kl", 11, 0, 8), hex("options", 11, 8, 8)];

/// Retrieve and List: Host Buffer Size.
const RETRIEVE: &[Spec] = &[num("hbs", 10, 0, 32), num("kl", 11, 0, 8), hex("options", 11, 8, 8)];

const KEY: &[Spec] = &[num("kl", 11, 0, 8)];
