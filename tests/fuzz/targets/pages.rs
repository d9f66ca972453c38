// SPDX-License-Identifier: MIT OR Apache-2.0
//! Data from devices: log pages and commands.

use nvme_deep::nvme::aen::AsyncEvent;
use nvme_deep::nvme::decode::{CommandSet, blocks, describe, fields, name};
use nvme_deep::nvme::log::{EBS_BYTES, EbsStats, SMART_BYTES, Smart};
use nvme_deep::nvme::opcode::QueueKind;
use nvme_deep::nvme::sqe::{Parts, Sqe};
use nvme_deep::nvme::status::Status;

/// A page of this size, with zeroes where the input ends.
fn page<const N: usize>(input: &[u8]) -> [u8; N] {
    let mut page = [0; N];
    let length = input.len().min(N);
    page[..length].copy_from_slice(&input[..length]);
    page
}

fn decode(input: &[u8]) {
    let bytes: [u8; 36] = page(input);
    let word = |n: usize| u32::from_le_bytes([0, 1, 2, 3].map(|at| bytes[4 * n + at]));
    let sqe: Sqe = Parts {
        opcode: bytes[0],
        flags: bytes[1],
        cid: word(0) as u16,
        nsid: word(1),
        metadata: bytes[2] & 1 != 0,
        cdw: [2, 3, 4, 5, 6, 7].map(word),
    }
    .into();
    let set = CommandSet::from_csi(bytes[3]).unwrap_or_default();
    for queue in QueueKind::BOTH {
        let _ = (name(queue, set, &sqe), blocks(queue, set, &sqe));
        for field in fields(queue, set, &sqe) {
            let _ = format!("{field:?}");
        }
        let mut text = String::new();
        let _ = describe(queue, set, &sqe, &mut text);
    }
    let _ = format!("{} {:?}", Status(word(8) as u16), AsyncEvent(word(8)));
}

/// Reads log pages, and decodes commands and statuses.
pub fn read(input: &[u8]) {
    let smart = Smart::parse(&page::<SMART_BYTES>(input));
    let _ = (smart.is_too_hot(), EbsStats::parse(&page::<EBS_BYTES>(input)));
    decode(input);
}
