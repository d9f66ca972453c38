// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a command is about, in words: its namespace and its kind. A Fabrics command has no namespace:
//! its lowest byte of CDW1 is the type of the command (NVMe base 2.1, section 6).

use std::fmt;

use super::decode::{CommandSet, name};
use super::opcode::{Opcode, QueueKind};
use super::sqe::{Parts, Sqe};

/// Opcode of Fabrics commands, on all queues.
pub const FABRICS: u8 = 0x7f;
/// The namespace id that stands for all namespaces.
pub const ALL_NAMESPACES: u32 = u32::MAX;

/// A namespace id as text: `1`, `all`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Nsid(pub u32);

impl fmt::Display for Nsid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            ALL_NAMESPACES => f.pad("all"),
            nsid => fmt::Display::fmt(&nsid, f),
        }
    }
}

/// The namespace id of a text: a decimal or hexadecimal number, or `all`.
///
/// # Errors
/// If it is neither; one sentence.
pub fn parse_nsid(text: &str) -> Result<u32, String> {
    if text.eq_ignore_ascii_case("all") {
        return Ok(ALL_NAMESPACES);
    }
    let hex = text.strip_prefix("0x").or_else(|| text.strip_prefix("0X"));
    let number = match hex {
        // `from_str_radix` accepts a sign
        Some(hex) if hex.starts_with('+') => None,
        Some(hex) => u32::from_str_radix(hex, 16).ok(),
        None => text.parse().ok(),
    };
    number.ok_or_else(|| "a namespace id is a number (`1`, `0x1`), or `all` for 0xffffffff".into())
}

/// The name of a command with this CDW1: `read`, `fabrics-connect`; `None` if it has none.
#[must_use]
pub fn command_name(opcode: Opcode, cdw1: u32) -> Option<&'static str> {
    let sqe = Sqe::from(Parts { opcode: opcode.code, nsid: cdw1, ..Parts::default() });
    match opcode.code {
        FABRICS => name(opcode.queue, CommandSet::Nvm, &sqe),
        _ => opcode.name(),
    }
}

/// The type of a Fabrics command: `connect`, or its number. `None` for other commands.
#[must_use]
pub fn fctype(opcode: Opcode, cdw1: u32) -> Option<String> {
    let known = command_name(opcode, cdw1).and_then(|name| name.strip_prefix("fabrics-"));
    let number = || format!("{:#04x}", cdw1 & 0xff);
    (opcode.code == FABRICS).then(|| known.map_or_else(number, str::to_owned))
}

/// The namespace id in CDW1; `None` for Fabrics commands.
#[must_use]
pub const fn namespace(opcode: Opcode, cdw1: u32) -> Option<u32> {
    if opcode.code == FABRICS { None } else { Some(cdw1) }
}

/// What commands have in common, for headings: `nvme0 ns 1 read`, `nvme0 admin ns all get-log-page`,
/// `nvme1 admin fabrics-connect`. Admin commands have a namespace if its id is not 0.
#[must_use]
pub fn subject(ctrl: &str, cdw1: Option<u32>, opcode: Opcode) -> String {
    let mut text = ctrl.to_owned();
    if opcode.queue == QueueKind::Admin {
        text.push_str(" admin");
    }
    let nsid = cdw1.and_then(|cdw1| namespace(opcode, cdw1));
    let is_shown = |nsid: &u32| opcode.queue == QueueKind::Io || *nsid != 0;
    if let Some(nsid) = nsid.filter(is_shown) {
        text.push_str(&format!(" ns {}", Nsid(nsid)));
    }
    let name = cdw1.and_then(|cdw1| command_name(opcode, cdw1));
    let name = name.map_or_else(|| opcode.to_string(), str::to_owned);
    format!("{text} {name}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_a_number_or_all() {
        let ids = ["7", "0x7", "all", "ALL", "0xffffffff", "4294967295", "0"];
        let all = u32::MAX;
        let want = [7, 7, all, all, all, all, 0].map(Ok);
        assert_eq!(ids.map(parse_nsid), want);
        for wrong in ["", "-1", "0x", "0x100000000", "0x+1", "1.5", "every"] {
            assert!(parse_nsid(wrong).is_err(), "{wrong}");
        }
        assert_eq!([1, u32::MAX].map(|n| Nsid(n).to_string()), ["1", "all"]);
    }
}
