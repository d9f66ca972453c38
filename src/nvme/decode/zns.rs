// SPDX-License-Identifier: MIT OR Apache-2.0
//! Commands of zoned namespaces: Zoned Namespace command set 1.2, section 3.4.

use super::Layout;
use super::table::{BLOCKS, Names, Spec, bytes, code, flag, hex, num};
use crate::nvme::sqe::Sqe;

pub(super) fn layout(sqe: &Sqe) -> Option<Layout> {
    match sqe.opcode() {
        0x79 => Some((SEND, &[])),
        0x7a => Some((RECEIVE, &[])),
        // its slba is the first block of the zone
        0x7d => Some((BLOCKS, APPEND)),
        _ => None,
    }
}

/// `all` is Select All, bit 8, and `zsaso` is bit 9. The kernel's `all` is the whole byte. Likewise
/// `pr` of a Receive is Partial Report, bit 16; the kernel's `pr` includes the reserved bits above
/// it.
const SEND: &[Spec] = &[
    num("slba", 10, 0, 64),
    code("zsa", 13, 0, 8, &SEND_ACTION),
    num("all", 13, 8, 1),
    flag("zsaso", 13, 9),
];

const RECEIVE: &[Spec] = &[
    num("slba", 10, 0, 64),
    num("numd", 12, 0, 32),
    bytes(12, 0, 32),
    code("zra", 13, 0, 8, &RECEIVE_ACTION),
    code("zrasf", 13, 8, 8, &STATE),
    num("pr", 13, 16, 1),
];

const APPEND: &[Spec] = &[
    flag("piremap", 12, 25),
    code("dtype", 12, 20, 4, &super::names::DIRECTIVE).detail(),
    hex("dspec", 13, 16, 16).detail(),
];

/// Zone Send Action.
static SEND_ACTION: Names = Names::new(&[
    (0x01, "close"),
    (0x02, "finish"),
    (0x03, "open"),
    (0x04, "reset"),
    (0x05, "offline"),
    (0x10, "set-descriptor-extension"),
    (0x11, "zrwa-flush"),
]);

/// Zone Receive Action.
static RECEIVE_ACTION: Names = Names::new(&[(0, "report"), (1, "extended-report")]);

/// Zone Receive Action Specific Field of a report: the state of the zones to report.
static STATE: Names = Names::new(&[
    (0, "all"),
    (1, "empty"),
    (2, "implicitly-opened"),
    (3, "explicitly-opened"),
    (4, "closed"),
    (5, "full"),
    (6, "read-only"),
    (7, "offline"),
]);
