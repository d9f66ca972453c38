// SPDX-License-Identifier: MIT OR Apache-2.0
//! Fabrics commands: NVMe base 2.1, section 6. All have one opcode; byte 4 is the command's type.

use super::names::{REGISTER, SECURITY_PROTOCOL};
use super::table::{Names, Spec, code, code_of, count, flag, hex, hex_code, num};
use super::{DWORDS, Layout};
use crate::nvme::sqe::Sqe;

pub(super) fn layout(sqe: &Sqe) -> Layout {
    let then = match sqe.fctype() {
        0x00 => PROPERTY_SET,
        0x01 => CONNECT,
        0x04 => PROPERTY_GET,
        0x05 => AUTHENTICATION_SEND,
        0x06 => AUTHENTICATION_RECEIVE,
        0x08 => DISCONNECT,
        _ => DWORDS,
    };
    (FCTYPE, then)
}

pub(super) fn name(sqe: &Sqe) -> Option<&'static str> {
    match sqe.fctype() {
        0x00 => Some("fabrics-property-set"),
        0x01 => Some("fabrics-connect"),
        0x04 => Some("fabrics-property-get"),
        0x05 => Some("fabrics-authentication-send"),
        0x06 => Some("fabrics-authentication-receive"),
        0x08 => Some("fabrics-disconnect"),
        _ => None,
    }
}

const FCTYPE: &[Spec] = &[code_of("fctype", |sqe| u64::from(sqe.fctype()), &TYPE)];

const PROPERTY_SET: &[Spec] = &[
    code("attrib", 10, 0, 8, &SIZE),
    hex_code("ofst", 11, 0, 32, &REGISTER),
    hex("value", 12, 0, 64),
];

const PROPERTY_GET: &[Spec] =
    &[code("attrib", 10, 0, 8, &SIZE), hex_code("ofst", 11, 0, 32, &REGISTER)];

/// `sqsize` is zero-based, `entries` is not. `kato` is in milliseconds.
const CONNECT: &[Spec] = &[
    num("recfmt", 10, 0, 16),
    num("qid", 10, 16, 16),
    num("sqsize", 11, 0, 16),
    count("entries", 11, 0, 16),
    num("cattr", 11, 16, 8),
    num("kato", 12, 0, 32),
    code("pclass", 11, 16, 2, &PRIORITY).detail(),
    flag("dsqfc", 11, 18),
    flag("ioqds", 11, 19),
];

const AUTHENTICATION_SEND: &[Spec] = &[
    hex("spsp0", 10, 8, 8),
    hex("spsp1", 10, 16, 8),
    hex_code("secp", 10, 24, 8, &SECURITY_PROTOCOL),
    num("tl", 11, 0, 32),
];

const AUTHENTICATION_RECEIVE: &[Spec] = &[
    hex("spsp0", 10, 8, 8),
    hex("spsp1", 10, 16, 8),
    hex_code("secp", 10, 24, 8, &SECURITY_PROTOCOL),
    num("al", 11, 0, 32),
];

const DISCONNECT: &[Spec] = &[num("recfmt", 10, 0, 16)];

/// "Fabrics Command Type".
static TYPE: Names = Names::with_vendor(
    &[
        (0x00, "property-set"),
        (0x01, "connect"),
        (0x04, "property-get"),
        (0x05, "authentication-send"),
        (0x06, "authentication-receive"),
        (0x08, "disconnect"),
    ],
    0xc0..=0xff,
);

/// Property Get and Set, ATTRIB: bits 2:0 are the size of the property.
static SIZE: Names = Names::new(&[(0, "4-bytes"), (1, "8-bytes")]);

/// Connect, CATTR bits 1:0.
static PRIORITY: Names = Names::new(&[(0, "urgent"), (1, "high"), (2, "medium"), (3, "low")]);
